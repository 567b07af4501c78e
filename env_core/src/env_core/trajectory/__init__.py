"""Trajectories on disk: what every producer writes and every consumer reads. Start reading at `schema`.

`schema` names the fields, `batch` holds them in memory, `builder` makes batches from rollouts, `codecs` turn a batch
into a file, `store` is a folder of such files, and `groups` adds columns to rows that are already there.
"""
