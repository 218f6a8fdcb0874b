"""How a run is carried out and reported. Nothing here changes its results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

Cohorts = Literal["by-size", "threads", "processes"]


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


@dataclass(frozen=True)
class Options:
    """How a run is carried out. Nothing here changes its results."""

    workers: int | None = None
    """Environment processes; 0: step them in this process; None: choose."""
    cohorts: Cohorts = "by-size"
    """Where the members' cohorts compute: in threads of this process, or in a process each."""
    checkpoint_minutes: float = 10.0
    """A checkpoint is written at every evaluation, and when the last one is older than this."""
    keep_going: bool = False
    """Whether to go on without checkpoints when they cannot be written."""
    patience: float = 0.0
    """Seconds to wait for a run folder that another process uses."""
    report: Callable[[Progress], None] = lambda progress: None
    say: Callable[[str], None] = lambda text: None
    warn: Callable[[str], None] = lambda text: None
    """For what a user may not have meant."""


class Stopped(Exception):
    """The run stopped on request, at a step from which it can be continued."""

    def __init__(self, step: int) -> None:
        super().__init__(f"stopped at step {step}")
        self.step = step
