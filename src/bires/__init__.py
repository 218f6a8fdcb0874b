"""Residual algorithms for deep reinforcement learning: whole populations of agents on real simulators.

    run = bires.train("walker-stand", algorithm=["ddpg", "bi-res-ddpg"], eta=0.05, seeds=5, steps=100_000)
    run.evaluations                      # a tidy table: one row per member and evaluation
    policy = run.policy(member=0)        # observation → action

See `bires.rules` for the critic updates of the paper.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

if TYPE_CHECKING:
    from bires import rules as rules
    from bires.api import compare as compare
    from bires.api import resume as resume
    from bires.api import train as train
    from bires.errors import UserError as UserError
    from bires.runs.run import Run as Run
    from bires.runs.run import load as load

_HOMES = {
    "train": "bires.api",
    "compare": "bires.api",
    "resume": "bires.api",
    "load": "bires.runs.run",
    "Run": "bires.runs.run",
    "UserError": "bires.errors",
}
__all__ = ["Run", "UserError", "compare", "load", "resume", "rules", "train"]


def __getattr__(name: str) -> Any:
    """Imports on first use: `import bires` alone does not start JAX."""
    if name == "rules":
        return importlib.import_module("bires.rules")
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'bires' has no attribute {name!r}")
