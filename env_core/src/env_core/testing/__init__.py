"""The conformance kit: what an implementation of the contract must pass, and example data to pass it with.

`examples` makes valid batches and rollouts; `store_conformance` checks a store; `step_by_step` is the slow, plain
reference of the segment builder.
"""
