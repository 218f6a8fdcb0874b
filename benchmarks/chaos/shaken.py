"""A run that is not left in peace: its processes, what they leave behind, and how they ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from bires.runs.checkpoint import Store
from bires.runs.run import Run

from .kinds import Missed, Wrong
from .subjects import Subject

ROOT = Path(__file__).parents[2]
PATIENCE_S = 600.0
"""After this long something that should have happened counts as hung."""
MODULES = {"worker": "bires.envs.worker", "cohort": "bires.training.runners"}
MARK = "BIRES_CHAOS_MARK"
MOMENT = "BIRES_CHAOS_MOMENT"


def patient(condition: Callable[[], bool], what: str, seconds: float = PATIENCE_S) -> None:
    """Waits until something is so."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise Wrong(f"{what}, not after {seconds:g} seconds")
        time.sleep(0.02)


class Shaken:
    """A run folder and the command that trains it."""

    def __init__(self, subject: Subject, out: Path, calm: Path, rng: np.random.Generator, cache: Path) -> None:
        self.subject, self.out, self.calm, self.rng, self.cache = subject, out, calm, rng, cache
        self.store, self.log = Store(out), out.with_name(f"{out.name}.log")
        self.process: subprocess.Popen[bytes] | None = None
        self.mark = ""

    # --- its processes

    def start(self, *before: str, moment: str = "", words: Sequence[str] = (), **variables: Any) -> None:
        """Types the command. ``before``: what is typed in front of it; ``moment``: see `benchmarks.chaos.moments`."""
        assert self.process is None
        self.mark = str(uuid.uuid4())
        env = os.environ | {
            "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}",
            "JAX_COMPILATION_CACHE_DIR": str(self.cache),
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
            "XLA_FLAGS": "--xla_backend_optimization_level=0",  # most of the time goes into compiling
            "OPENBLAS_NUM_THREADS": "1",
            MARK: self.mark,
            MOMENT: moment,
        }
        for name, value in variables.items():
            env.pop(name, None)
            env |= {name: value} if value is not None else {}
        module = "benchmarks.chaos.moments" if moment else "bires"
        line = [*before, sys.executable, "-m", module, *(words or (*self.subject.train, "--out", str(self.out)))]
        with self.log.open("w") as log:
            self.process = subprocess.Popen(line, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=env, cwd=ROOT)

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def finished(self) -> bool:
        """Whether it has trained to its end, even if its process is still there."""
        return Run(self.out).finished

    def send(self, number: int) -> None:
        if not self.running:
            raise Missed("the run had ended")
        assert self.process is not None
        self.process.send_signal(number)

    def ended(self, *codes: int) -> int:
        """Waits for the end of the trainer, by one of these exit codes; nothing of it may stay."""
        assert self.process is not None
        try:
            code = self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.clear()
            raise Wrong(f"it did not end for {PATIENCE_S:g} seconds; it said: {self.said()}") from None
        self.process = None
        self.require_nothing_left()
        if codes and code not in codes:
            raise Wrong(f"exit code {code}, expected {' or '.join(map(str, codes))}; it said: {self.said()}")
        return code

    def kill(self) -> None:
        self.send(signal.SIGKILL)
        self.ended()

    def kill_before_its_end(self) -> None:
        """For faults that only a run which goes on can mend."""
        self.kill()
        if self.finished:
            raise Missed("the run had ended")

    def said(self) -> str:
        return self.log.read_text(errors="replace")[-2000:]

    def family(self) -> list[psutil.Process]:
        """Every living process that has our mark, whoever its parent is by now, but for the trainer."""
        found = []
        for process in psutil.process_iter():
            try:
                mine = process.environ().get(MARK) == self.mark and process.status() != psutil.STATUS_ZOMBIE
            except psutil.Error:
                continue
            if mine and (self.process is None or process.pid != self.process.pid):
                found.append(process)
        return found

    def some(self, part: str) -> psutil.Process:
        """One of its workers or cohorts."""
        found = []
        for process in self.family():
            try:
                found += [process] if MODULES[part] in process.cmdline() else []
            except psutil.Error:
                continue
        if not found:
            raise Missed(f"there is no {part} now")
        return found[int(self.rng.integers(len(found)))]

    def require_nothing_left(self) -> None:
        """No process stays for more than a moment."""
        try:
            patient(lambda: not self.family(), "its processes have ended", 10.0)
        except Wrong:
            left = [" ".join(process.cmdline())[-80:] for process in self.family()]
            self.clear()
            raise Wrong(f"processes stay after the trainer: {left}") from None

    def clear(self) -> None:
        """Ends all of it, for the next one."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None
        for process in self.family():
            process.kill()

    # --- its progress

    def pause(self, most: float) -> None:
        """Some part of so many seconds."""
        time.sleep(float(self.rng.uniform(0, most)))

    def next_checkpoint(self) -> bool:
        """Waits until the trainer has written a new checkpoint; False once it has ended."""
        before = self.store.steps()[:1]
        patient(lambda: not self.running or self.store.steps()[:1] != before, "a new checkpoint")
        return self.running

    def require_whole(self) -> None:
        """The newest checkpoint is whole."""
        steps = self.store.steps()
        if not steps:
            raise Wrong("there is no checkpoint any more")
        for segment in self.store.load(steps[0]).replay:
            self.store.verify(segment)
