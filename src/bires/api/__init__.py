"""The library's front: what the command line does, as functions with typed arguments.

May import: `tools` and above. What leaves it: `train`, `compare`, `resume` (`training`); `train_each` (`tasks`); `tune`
(`tuning`); `reproduce` (`studies`); `Run`, `load`, `evaluate`, `report`, `play`, `export` (`results`). Errors name
arguments as Python spells them (`spelling`).
"""
