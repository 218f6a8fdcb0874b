"""Runs a study: finished populations stay, half-done ones continue, missing ones are begun."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bires.analysis.live import logging
from bires.errors import UserError
from bires.runs.run import Run
from bires.settings import config as configs
from bires.settings.options import Options, Stopped, Viewer
from bires.studies.plan import Job
from bires.training.callbacks import load_callback
from bires.training.display import Display
from bires.training.launch import CannotGoOn, require_same
from bires.training.start import start

Failures = dict[Path, str]
"""Run folder → why it could not be run."""
Way = Callable[[Sequence[Job], Options, Display], Failures]
"""How to run a list of populations: on this machine (`bires.studies.together`) or on a cluster
(`bires.studies.cluster`)."""


CARRIED = ("workers", "cohorts", "checkpoint_minutes", "keep_going", "keep_every")
"""The options that a population in another process has, too."""


class StudyStopped(Stopped):
    """A study that stopped before its end, and can be continued."""

    def __init__(self, text: str) -> None:
        super().__init__(0)
        self.args = (text,)


@dataclass(frozen=True)
class StudyOutcome:
    """The results of the populations of a study."""

    runs: tuple[Run, ...]
    """All that have a curve, finished or not."""
    failures: Failures


@dataclass(frozen=True)
class Following:
    """What follows a population under way, in whatever process it is."""

    callback: str | None = None
    """MODULE:FUNCTION."""
    log: Viewer | None = None

    def require(self) -> None:
        """Refuses a function or a viewer that is not there, before anything is begun."""
        if self.callback is not None:
            load_callback(self.callback)
        with logging(self.log):
            pass


def attempt(
    config: dict[str, Any],
    path: str,
    settings: dict[str, Any],
    command: list[str],
    following: dict[str, Any] | None = None,
) -> dict[str, str]:
    """One population, as plain data, from its newest checkpoint to its end: nothing, or how it `failed` or `stopped`.

    Raises `bires.settings.options.Stopped` when the process is asked to stop, unless something must be mended first.
    """
    sys.argv = command  # what the manifest says
    follow = Following(**following or {})
    try:
        called = load_callback(follow.callback) if follow.callback else None
        with logging(follow.log) as live:
            options = Options(**settings, callback=called, log=live)
            start(configs.from_json(config), path, options, Display(quiet=True))
    except CannotGoOn as error:
        return {"stopped": str(error)}
    except UserError as error:
        return {"failed": str(error)}
    return {}


def fill(jobs: Sequence[Job], options: Options, display: Display, way: Way) -> StudyOutcome:
    """Runs every population that is not finished; one that cannot run does not stop the others."""
    failures = way(unfinished(jobs), options, display)
    return StudyOutcome(tuple(runs_of(jobs)), failures)


def unfinished(jobs: Sequence[Job]) -> list[Job]:
    """What is left to do; refuses folders that hold something else, before anything is begun."""
    for job in jobs:
        if job.started:
            require_same(Run(job.path), job.config, "Give another --out, or the settings it was begun with.")
    return [job for job in jobs if not job.finished]


def runs_of(jobs: Sequence[Job]) -> list[Run]:
    """The runs that have something to show."""
    return [Run(job.path) for job in jobs if (job.path / "evaluations.csv").exists()]
