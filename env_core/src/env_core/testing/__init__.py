"""The conformance kit: what an implementation of the contract must pass, and example data to pass it with.

`examples` makes valid rollouts and batches; `store_conformance` checks a trajectory store.
"""
