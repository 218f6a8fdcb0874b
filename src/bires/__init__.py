"""Residual algorithms for deep reinforcement learning: whole populations of agents on real simulators.

    run = bires.train("walker-stand", algorithm=["ddpg", "bi-res-ddpg"], eta=0.05, seeds=5, steps=100_000)
    run.evaluations                      # a tidy table: one row per member and evaluation
    run.summary()                        # final returns, AUC, and the AUC improvement with its interval
    policy = run.policy(member=0)        # observation → action

See `bires.rules` for the critic updates of the paper.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.3.0"

if TYPE_CHECKING:
    from bires import rules as rules
    from bires.api.checking import check as check
    from bires.api.results import Report as Report
    from bires.api.results import Run as Run
    from bires.api.results import evaluate as evaluate
    from bires.api.results import export as export
    from bires.api.results import load as load
    from bires.api.results import load_policy as load_policy
    from bires.api.results import play as play
    from bires.api.results import report as report
    from bires.api.studies import Reproduction as Reproduction
    from bires.api.studies import reproduce as reproduce
    from bires.api.tasks import train_each as train_each
    from bires.api.training import compare as compare
    from bires.api.training import resume as resume
    from bires.api.training import train as train
    from bires.api.tuning import tune as tune
    from bires.errors import UserError as UserError
    from bires.settings.options import Stopped as Stopped
    from bires.training.callbacks import Evaluation as Evaluation

_HOMES = {
    **dict.fromkeys(("compare", "resume", "train"), "bires.api.training"),
    **dict.fromkeys(
        ("Report", "Run", "evaluate", "export", "load", "load_policy", "play", "report"), "bires.api.results"
    ),
    **dict.fromkeys(("Reproduction", "reproduce"), "bires.api.studies"),
    "check": "bires.api.checking",
    "train_each": "bires.api.tasks",
    "Evaluation": "bires.training.callbacks",
    "tune": "bires.api.tuning",
    "Stopped": "bires.settings.options",
    "UserError": "bires.errors",
}
__all__ = [
    "Evaluation",
    "Report",
    "Reproduction",
    "Run",
    "Stopped",
    "UserError",
    "check",
    "compare",
    "evaluate",
    "export",
    "load",
    "load_policy",
    "play",
    "report",
    "reproduce",
    "resume",
    "rules",
    "train",
    "train_each",
    "tune",
]


def __dir__() -> list[str]:
    """What completion offers: what this module imports for itself is not for users."""
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})


def __getattr__(name: str) -> Any:
    """Imports on first use: `import bires` alone does not start JAX."""
    if name == "rules":
        return importlib.import_module("bires.rules")
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'bires' has no attribute {name!r}")
