"""How a run is carried out and reported."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from bires.errors import UserError

Cohorts = Literal["by-size", "threads", "processes"]
Viewer = Literal["tensorboard", "wandb"]
"""Where curves may go while a run is under way."""
Target = Literal["tensorboard", "wandb", "hub", "minari", "safetensors", "onnx"]
"""What a run may be exported to."""
Source = Literal["played", "replay"]
"""Where the episodes of a dataset come from: a trained policy plays them, or they are those of its training."""


@dataclass(frozen=True)
class Progress:
    """What a display gets at every logging interval and evaluation."""

    step: int
    steps: int
    returns: dict[int, float]
    """Member → mean return of the latest evaluation."""
    diverged: dict[int, int]
    evaluated: bool
    """Whether an evaluation has just ended."""
    stopped: dict[int, int] = field(default_factory=dict)
    """Member → step, of those that a callback stopped."""
    failed: frozenset[int] = frozenset()
    """Members whose environments raised."""


@dataclass(frozen=True)
class Options:
    """How a run is carried out. Only a callback changes its results: it may end members early."""

    workers: int | None = None
    """Environment processes; 0: step them in this process; None: choose."""
    cohorts: Cohorts = "by-size"
    """Where the members' cohorts compute: in threads of this process, or in a process each."""
    checkpoint_minutes: float = 10.0
    """A checkpoint is written when the last one is older than this, and at evaluations, if that takes little time."""
    keep_going: bool = False
    """Whether to go on without checkpoints when they cannot be written."""
    patience: float = 0.0
    """Seconds to wait for a run folder that another process uses."""
    report: Callable[[Progress], None] = lambda progress: None
    tick: Callable[[int], None] = lambda step: None
    """Called about twice a second, with the step."""
    say: Callable[[str], None] = lambda text: None
    warn: Callable[[str], None] = lambda text: None
    """For what a user may not have meant."""
    keep_every: int | None = None
    """Steps between checkpoints that are kept for their policies, beside the newest; None: none are."""
    callback: Callable[[Any], Any] | None = None
    """Called after each evaluation, with a `bires.training.callbacks.Evaluation`."""
    log: Callable[[Any], Any] | None = None
    """Called in the same way, to show curves elsewhere; it stops nothing."""


def require_every(given: int | None) -> int | None:
    """The steps between checkpoints that are kept, or an error."""
    if given is not None and given < 1:
        raise UserError(f"--keep-every was given {given}; accepted: whole numbers of steps from 1.")
    return given


class Stopped(Exception):
    """The run stopped on request, at a step from which it can be continued."""

    def __init__(self, step: int) -> None:
        super().__init__(f"stopped at step {step}")
        self.step = step
