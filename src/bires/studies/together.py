"""Several populations of a study at once on this machine, each in a process with its share of the cores.

A population leaves everything in its run folder, and progress is read from there. One that fails does not stop the
others; a stop, or the loss of this process, lets every population write a checkpoint first.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from bires.errors import UserError
from bires.machine.hardware import leave_accelerators
from bires.machine.processes import ending, launch
from bires.machine.terminal import counted
from bires.settings import config as configs
from bires.settings.options import Options
from bires.settings.values import proper
from bires.studies import estimate
from bires.studies.capacity import Machine, cores_each, default_count, look_at_machine
from bires.studies.plan import Job
from bires.studies.progress import ProgressBoard, last_step
from bires.studies.run import CARRIED, Failures, Following, StudyStopped, Way
from bires.training.display import Display
from bires.training.start import stoppable

LOOK_S = 0.5
STOP_S = 300.0
"""How long populations may take to write their checkpoints when everything is stopped."""
MEMORY_SHARE = 0.85
"""The share of the free memory that populations may use together."""
RESTARTS = 3
"""How often the process of a population is started, at most, if it is lost each time."""
TAIL = 2_000
"""Characters of a lost process's log that are shown."""


@dataclass
class Running:
    """A population under way."""

    job: Job
    process: subprocess.Popen[bytes]
    lifeline: int
    """One end of a pipe; the population stops cleanly when it is closed."""
    replies: int
    begun: float
    first_step: int


def at_once(count: int | None, minutes: float | None, following: Following = Following()) -> Way:  # noqa: B008
    """How to run several populations at a time, for some minutes at most; None: as many as fit, without a limit."""
    count = None if count is None else proper("at_once", count, int)
    minutes = None if minutes is None else proper("minutes", minutes, float)
    if count is not None and count < 1:
        raise UserError(f"--at-once was given {count}; accepted: whole numbers from 1.")
    if minutes is not None and not 0 < minutes < float("inf"):
        raise UserError(f"--minutes was given {minutes:g}; accepted: numbers above 0.")
    following.require()
    return partial(run_together, count, minutes, following)


def run_together(
    count: int | None,
    minutes: float | None,
    following: Following,
    jobs: Sequence[Job],
    options: Options,
    display: Display,
) -> Failures:
    """All populations, the begun ones first, as many at a time as the machine allows."""
    if not jobs:
        return {}
    leave_accelerators()
    began = time.monotonic()
    machine = look_at_machine()
    fewest = min(job.members for job in jobs)
    slots = min(len(jobs), count if count is not None else default_count(machine, fewest))
    with display, stoppable() as stop:
        display.say(
            f"{counted(len(jobs), 'population')}, {slots} at a time with {cores_each(machine, slots)} of "
            f"{machine.cores} cores each, on {machine.platform}"
        )
        deadline = None if minutes is None else began + 60 * minutes
        return PopulationScheduler(machine, slots, options, display, deadline, following).run(jobs, stop)


class PopulationScheduler:
    """Runs populations side by side: as many at a time as have a place and memory, and as end in time."""

    def __init__(
        self,
        machine: Machine,
        slots: int,
        options: Options,
        display: Display,
        deadline: float | None,
        following: Following = Following(),  # noqa: B008
    ) -> None:
        self.machine, self.slots, self.options, self.following = machine, slots, options, following
        self.display, self.deadline = display, deadline
        self.running: list[Running] = []
        self.ended, self.losses = Counter[str](), Counter[Path]()
        self.failures: Failures = {}
        self.memory: dict[Path, int] = {}
        """Bytes that populations need."""
        self.paces: list[float] = []
        """Agent-steps per second of populations that ended here."""
        self.together = 0.0
        """The most agent-steps per second that those of a moment made together."""

    def run(self, jobs: Sequence[Job], stop: Callable[[], bool]) -> Failures:
        self.board = ProgressBoard(self.display, list(jobs))
        waiting = sorted(jobs, key=lambda job: (not job.started, job.config.steps - job.step))
        late: list[Job] = []
        try:
            while self.running or waiting:
                self._begin(waiting, late)
                if self._stopping(stop):
                    raise StudyStopped(self._stopped(len(jobs)))
                time.sleep(LOOK_S)
                for one in [one for one in self.running if one.process.poll() is not None]:
                    self._end(one, waiting)
                self.board.look([*(one.job for one in self.running), *waiting, *late], self.ended)
        finally:
            self._stop_all()
        if late:
            raise StudyStopped(self._stopped(len(jobs)))
        return self.failures

    def _stopping(self, stop: Callable[[], bool]) -> bool:
        if stop():
            self.display.say("stopping: every population writes a checkpoint …")
            return True
        if self.deadline is not None and self.running and time.monotonic() > self.deadline:
            self.display.say("the time is over: every population writes a checkpoint …")
            return True
        return False

    def _stopped(self, count: int) -> str:
        names = ", ".join(map(str, self.failures))
        failed = f" and {len(self.failures)} that cannot run ({names})" if names else ""
        return f"stopped with {self.ended['done']} of {count} populations done{failed}"

    def _begin(self, waiting: list[Job], late: list[Job]) -> None:
        """Fills the free places; what cannot end in time is not begun, what does not fit waits."""
        for job in list(waiting):
            if len(self.running) >= self.slots:
                return
            if self._too_late(job):
                waiting.remove(job)
                late.append(job)
                continue
            try:
                fits = self._fits(job)
            except UserError as error:
                waiting.remove(job)
                self._fail(job, str(error))
                continue
            if fits:
                waiting.remove(job)
                self.running.append(self._launch(job))

    def _fits(self, job: Job) -> bool:
        """Whether there is memory for it beside the others; one that runs alone reports itself what would fit."""
        if job.path not in self.memory:
            self.memory[job.path] = estimate.memory(job)
        together = sum(self.memory[one.job.path] for one in self.running) + self.memory[job.path]
        return not self.running or together <= MEMORY_SHARE * self.machine.memory

    def _too_late(self, job: Job) -> bool:
        """Whether a population would not end in time.

        It shares what the machine makes with those that run, and is slow beside many of them. So it ends when all of
        their work is done at the pace of all together; but not sooner than the fastest so far would.
        """
        if self.deadline is None:
            return False
        paces = [pace for one in self.running if (pace := self._pace(one)) > 0]
        self.together = max(self.together, sum(paces))
        if not (paces or self.paces):
            return time.monotonic() > self.deadline
        mine, fastest = work_left(job, job.step), max([*paces, *self.paces])
        all_left = mine + sum(work_left(one.job, self._step(one)) for one in self.running)
        return time.monotonic() + max(mine / fastest, all_left / max(self.together, fastest)) > self.deadline

    def _pace(self, one: Running) -> float:
        return (self._step(one) - one.first_step) * one.job.members / (time.monotonic() - one.begun)

    def _step(self, one: Running) -> int:
        return one.job.config.steps if one.job.finished else last_step(one.job.path / "metrics.csv")

    def _launch(self, job: Job) -> Running:
        theirs_in, lifeline = os.pipe()
        replies, theirs_out = os.pipe()
        share = cores_each(self.machine, self.slots)
        variables = {**self.machine.variables, "BIRES_CORES": str(share)}
        process = launch("bires.studies.apart", (theirs_in, theirs_out), (theirs_in, theirs_out), **variables)
        os.close(theirs_in)
        os.close(theirs_out)
        task = {
            "config": configs.to_json(job.config),
            "path": str(job.path),
            "settings": {name: getattr(self.options, name) for name in CARRIED},
            "command": sys.argv,
            "following": asdict(self.following),
        }
        os.write(lifeline, json.dumps(task).encode() + b"\n")
        step = max(job.step, last_step(job.path / "metrics.csv"))
        return Running(job, process, lifeline, replies, time.monotonic(), step)

    def _end(self, one: Running, waiting: list[Job]) -> None:
        """What became of a population whose process has ended."""
        self.running.remove(one)
        os.close(one.lifeline)
        with os.fdopen(one.replies, "rb") as replies:
            text = replies.read()
        name = one.job.path.name
        ending = json.loads(text) if text else None
        if ending is None:
            self._lost(one, waiting)
        elif "stopped" in ending:
            raise StudyStopped(f"{name}: {ending['stopped']}")
        elif "failed" in ending:
            self._fail(one.job, ending["failed"])
        else:
            self.paces += [pace] if (pace := self._pace(one)) > 0 else []  # else it had only its end left
            self.board.follow(one.job)
            self.ended["done"] += 1
            self.display.say(f"{name}: done")

    def _lost(self, one: Running, waiting: list[Job]) -> None:
        """A process that ended without a word goes on from its checkpoint, some times."""
        how, log = ending(one.process), log_of(one.job.path)
        self.losses[one.job.path] += 1
        if self.losses[one.job.path] < RESTARTS:
            self.display.say(f"{one.job.path.name}: its process has ended ({how}); it goes on from its checkpoint")
            waiting.insert(0, one.job)
            return
        said = log.read_text(errors="replace")[-TAIL:] if log.exists() else ""
        self._fail(one.job, f"its process ended {RESTARTS} times ({how}); not enough memory, perhaps. {said}")

    def _fail(self, job: Job, why: str) -> None:
        self.failures[job.path] = why
        self.ended["failed"] += 1
        self.display.say(f"{job.path.name}: cannot run; the others go on.\n{why}")

    def _stop_all(self) -> None:
        """Nothing is left running; whoever can, writes a checkpoint."""
        for one in self.running:
            one.process.send_signal(signal.SIGTERM)
        end = time.monotonic() + STOP_S
        for one in self.running:
            try:
                one.process.wait(max(0.0, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                one.process.kill()
                one.process.wait()
            os.close(one.lifeline)
            os.close(one.replies)
        self.running = []


def work_left(job: Job, step: int) -> int:
    """Agent-steps."""
    return (job.config.steps - step) * job.members


def log_of(path: Path) -> Path:
    """Where the process of a population writes what it has to say beside its results."""
    return path.with_name(path.name + ".log")
