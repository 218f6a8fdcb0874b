"""One display of many populations that run in other processes: it reads their run folders."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bires.runs.folder import ended_early
from bires.runs.lock import owner
from bires.runs.run import Run
from bires.settings import grid
from bires.settings.options import Progress
from bires.studies.plan import Job
from bires.training.display import Display, Meter, lines

TAIL = 4096
"""Bytes at the end of a table in which its last row is looked for."""


class ProgressBoard:
    """The progress of the populations of a study: a live table on a terminal, else a line for each evaluation."""

    def __init__(self, display: Display, jobs: Sequence[Job]) -> None:
        self._display = display
        self._meters = {job.path: Meter(job.config, grid.members(job.config)) for job in jobs}
        self._numbers: dict[Path, dict[str, Any]] = {}
        self._seen: dict[Path, tuple[int, int]] = {}
        """Run folder → steps of its last rows in the two tables."""
        self._owners: dict[Path, str] = {}

    def look(self, open_jobs: Sequence[Job], ended: Mapping[str, int]) -> None:
        """Reads what is new of the populations that have not ended; ``ended`` counts the others."""
        for job in open_jobs:
            self._greet(job)
            self.follow(job)
        running = [job for job in open_jobs if self._owners.get(job.path)]
        counts = Counter(ended) + Counter(running=len(running), waiting=len(open_jobs) - len(running))
        rate = sum(self._numbers[job.path]["steps_per_second"] for job in running if job.path in self._numbers)
        total = ", ".join(f"{count} {name}" for name, count in counts.items()) + f"; {rate:,.0f} steps/s in all"
        self._display.show("\n".join([*(self._line(job) for job in running), total]))

    def _greet(self, job: Job) -> None:
        """Shows which process trains a population, whenever that changes."""
        before, now = self._owners.get(job.path, ""), owner(job.path)
        self._owners[job.path] = now
        if now and now != before:
            self._display.say(f"{job.path.name}: {now}")

    def follow(self, job: Job) -> None:
        """Shows what is new in a population's run folder."""
        seen = last_step(job.path / "evaluations.csv"), last_step(job.path / "metrics.csv")
        if max(seen) < 0 or seen == self._seen.get(job.path):
            return
        evaluated = seen[0] != self._seen.get(job.path, (-1, -1))[0]
        self._seen[job.path] = seen
        numbers = self._meters[job.path].numbers(progress(job, max(seen), evaluated))
        self._numbers[job.path] = numbers
        self._display.event("progress", run=str(job.path), **numbers)
        if evaluated:
            self._display.say_line(self._line(job))

    def _line(self, job: Job) -> str:
        numbers, head = self._numbers.get(job.path), f"{job.path.name}: "
        room = max(40, self._display.width - len(head))
        return head + ("\n".join(lines(numbers, room)) if numbers else "starting …")


def progress(job: Job, step: int, evaluated: bool) -> Progress:
    """What a run folder shows of its progress."""
    run = Run(job.path)
    table = run.evaluations
    newest = table.where(table["step"] == max(table["step"], default=0))
    returns = {int(row["member"]): float(row["return_mean"]) for row in newest.rows()}
    ended = {status: ended_early(run.members.rows(), status) for status in ("diverged", "stopped", "failed")}
    failed = frozenset(ended["failed"])
    return Progress(step, job.config.steps, returns, ended["diverged"], evaluated, ended["stopped"], failed)


def last_step(path: Path) -> int:
    """The step of the last whole row; −1 without one."""
    try:
        with path.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - TAIL))
            rows = file.read().split(b"\n")[:-1]
    except OSError:
        return -1
    cells = rows[-1].split(b",") if rows else []
    return int(cells[1]) if len(cells) > 1 and cells[1].isdigit() else -1
