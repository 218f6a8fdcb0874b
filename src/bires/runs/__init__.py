"""The run folder on disk: what training leaves behind and everything after it reads.

May import: `population` and above. What leaves it: `Folder` (writing), `Run` (reading), checkpoints, the lock,
policies.
"""
