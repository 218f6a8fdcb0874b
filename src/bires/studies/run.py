"""Running a study: what is finished stays, what is half done goes on, what is missing is begun."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import jax

from bires.api import start
from bires.display import Display
from bires.errors import UserError
from bires.options import Options
from bires.running import require_same
from bires.runs import Run
from bires.studies.plan import Job

Failures = dict[Path, str]
"""Run folder → why it could not be run."""
Way = Callable[[Sequence[Job], Options, Display], Failures]
"""How to get through a list of populations: here, one after another, or on a cluster (`bires.studies.cluster`)."""


@dataclass(frozen=True)
class Outcome:
    """What became of the populations of a study."""

    runs: tuple[Run, ...]
    """All that have a curve, finished or not."""
    failures: Failures


def run(job: Job, options: Options, display: Display) -> str | None:
    """Runs one population to its end; or says why it cannot be run.

    Raises `bires.options.Stopped` when the process is asked to stop: the same call continues.
    """
    try:
        start(job.config, job.path, options, display)
    except UserError as error:
        return str(error)
    finally:
        # The next task has other sizes: its programs are new anyway.
        jax.clear_caches()  # type: ignore[no-untyped-call]
    return None


def here(jobs: Sequence[Job], options: Options, display: Display) -> Failures:
    """One population after another, in this process."""
    failures: Failures = {}
    for number, job in enumerate(jobs, 1):
        display.say(f"{number} of {len(jobs)}: {job.members} members, {job.config.steps:,} steps")
        failure = run(job, options, display)
        if failure is not None:
            failures[job.path] = failure
            display.say(f"{job.config.task} cannot run; the others go on.\n{failure}")
    return failures


def fill(jobs: Sequence[Job], options: Options, display: Display, way: Way = here) -> Outcome:
    """Runs every population that is not finished; one that cannot run does not stop the others."""
    failures = way(unfinished(jobs), options, display)
    return Outcome(tuple(runs_of(jobs)), failures)


def unfinished(jobs: Sequence[Job]) -> list[Job]:
    """What is left to do; refuses folders that hold something else, before anything is begun."""
    for job in jobs:
        if job.started:
            require_same(Run(job.path), job.config, "Give another --out, or the settings that study was begun with.")
    return [job for job in jobs if not job.finished]


def runs_of(jobs: Sequence[Job]) -> list[Run]:
    """The runs that have something to show."""
    return [Run(job.path) for job in jobs if (job.path / "evaluations.csv").exists()]
