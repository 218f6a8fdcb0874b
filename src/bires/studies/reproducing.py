"""A study from its name to its report: the command line's and the library's `reproduce`."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bires.errors import UserError, unknown, writing_to
from bires.runs.run import Run
from bires.settings.options import Options, Stopped
from bires.settings.values import flag
from bires.studies import plan
from bires.studies.cluster import over
from bires.studies.plan import Job
from bires.studies.reporting import Reported, report
from bires.studies.run import Failures, StudyStopped, Way, fill
from bires.studies.study import Scale
from bires.studies.together import at_once
from bires.training.display import Display


@dataclass(frozen=True)
class Request:
    """What is to be reproduced, and how its populations are run."""

    study: str
    scale: Scale = "small"
    tasks: tuple[str, ...] = ()
    """Only these of the study's tasks."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """In place of those of the study and the scale."""
    out: Path | None = None
    at_once: int | None = None
    minutes: float | None = None
    ray: str | None = None

    @property
    def where(self) -> Path:
        return self.out or plan.default_out(self.study, self.scale)

    @property
    def linear(self) -> bool:
        """Whether it is the policy-evaluation lab, which has no populations."""
        return plan.get(self.study).figure == "lab"

    def jobs(self) -> list[Job]:
        """The populations of the tasks that are asked for, in the order in which they were named."""
        jobs = plan.jobs(self.study, self.scale, self.where, self.settings)
        known = [job.config.task for job in jobs]
        for task in self.tasks:
            if task not in known:
                raise unknown("task of this study", task, dict.fromkeys(known), "")
        order = {task: number for number, task in enumerate(self.tasks or known)}
        asked = [job for job in jobs if job.config.task in order]
        return sorted(asked, key=lambda job: order[job.config.task])

    def way(self) -> Way:
        """How the populations are run."""
        local = {"--at-once": self.at_once, "--minutes": self.minutes}
        given = [f"{name} {value:g}" for name, value in local.items() if value is not None]
        if self.ray is None:
            return at_once(self.at_once, self.minutes)
        if given:
            raise UserError(
                f"Both --ray and {given[0]} were given; --at-once and --minutes are for this machine alone."
            )
        return over(self.ray)

    def command(self, running: bool = False) -> str:
        """What a user types to get this again; ``running``: also how the populations are run."""
        parts = [f"bires reproduce {self.study} --scale {self.scale}"]
        parts += [f"--task {shlex.join(self.tasks)}"] if self.tasks else []
        parts += [f"{flag(key)} {value}" for key, value in self.settings.items()]
        parts += [f"--out {shlex.quote(self.out.as_posix())}"] if self.out else []
        if running:
            local = {"at_once": self.at_once, "minutes": self.minutes}
            parts += [f"{flag(name)} {value:g}" for name, value in local.items() if value is not None]
            parts += [f"--ray {shlex.quote(self.ray)}"] if self.ray else []
        return " ".join(parts)


@dataclass(frozen=True)
class StudyReport:
    """What a study came to."""

    runs: tuple[Run, ...]
    report: Path
    """The folder of report.html."""
    failures: Failures
    written: Reported


def reproduce(request: Request, options: Options, display: Display) -> StudyReport:
    """Runs the populations that are missing, then writes the report; `StudyStopped` says how to go on."""
    jobs, way, again = request.jobs(), request.way(), request.command()
    try:
        outcome = fill(jobs, options, display, way)
    except Stopped as stopped:
        raise StudyStopped(f"{stopped}; `{request.command(running=True)}` fills the rest") from None
    if not outcome.runs:
        raise UserError(f"No population of {request.study} could be run:\n" + "\n".join(outcome.failures.values()))
    where = plan.report_folder(request.study, request.where)
    written = report(outcome.runs, where, request.study, again)
    return StudyReport(outcome.runs, where, outcome.failures, written)


def require_all(outcome: StudyReport, request: Request) -> None:
    """Raises if some population could not be run: the report lacks it."""
    if outcome.failures:
        names = ", ".join(str(path) for path in outcome.failures)
        count = len(request.jobs())
        raise UserError(f"{len(outcome.failures)} of {count} populations could not be run: {names}.")


def require_plain(request: Request) -> None:
    """The lab has problems and seeds of its own."""
    given = [*(["--task"] if request.tasks else []), *map(flag, request.settings)]
    if given:
        raise UserError(f"{given[0]} was given; the study {request.study} takes --scale and --out alone.")


def require_place(out: Path) -> None:
    """Refuses a folder that the lab cannot write to."""
    with writing_to(out):
        out.mkdir(parents=True, exist_ok=True)
        (out / "verdicts.csv").touch()


@contextmanager
def as_command(request: Request) -> Iterator[None]:
    """Manifests name the command that a user would type, by which a later report knows the study."""
    before = sys.argv
    sys.argv = shlex.split(request.command())
    try:
        yield
    finally:
        sys.argv = before
