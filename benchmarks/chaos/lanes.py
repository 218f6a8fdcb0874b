"""Throws faults at several runs at the same time, each in a lane of its own, and compares what they leave."""

from __future__ import annotations

import shutil
import threading
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np

from .kinds import Impossible, Kind, Missed, Wrong
from .shaken import Shaken
from .subjects import Subject, differences
from .worlds import WORLD

MISSES = 5
"""A fault that missed so often in a lane is given up."""


class Record:
    """What came of the faults."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say, self._lock = say, threading.Lock()
        self.done = Counter[str]()
        self.wrong: list[str] = []
        self.impossible: dict[str, str] = {}

    def hit(self, kind: Kind, subject: Subject) -> None:
        with self._lock:
            self.done[kind.name] += 1
            self._say(f"{sum(self.done.values()):4d}  {subject.name:38s}  {kind.name}")

    def say(self, text: str) -> None:
        with self._lock:
            self._say(f"      {text}")

    def fail(self, text: str) -> None:
        with self._lock:
            self.wrong.append(text)
            self._say(f"WRONG {text}")


class Lane:
    """One subject: the calm run, and then laps of the same run under faults."""

    def __init__(self, subject: Subject, folder: Path, record: Record, seed: int) -> None:
        self.subject, self.folder, self.record = subject, folder, record
        self.rng, self.laps = np.random.default_rng(seed), 0
        self.calm = folder / "calm"
        self.hand: list[Kind] = []
        """The faults that are still to be thrown."""
        self._missed = Counter[str]()
        self._current: Shaken | None = None

    def give_up(self) -> None:
        """Ends its processes."""
        if self._current is not None:
            self._current.clear()

    def takes(self, kind: Kind) -> bool:
        """Whether this subject can have that fault."""
        if self.subject is WORLD:
            return kind.needs == "world"
        return not kind.needs or kind.needs in self.subject.parts

    def run(self) -> None:
        """Until there is nothing more to throw."""
        if not self.hand:
            return
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        try:
            calm = self._shaken(self.calm)
            calm.start()
            calm.ended(0)
            while self.hand:
                self.laps += 1
                run = self._shaken(self.folder / f"lap-{self.laps}")
                try:
                    whole = self._world(run) if self.subject is WORLD else self._lap(run)
                finally:
                    run.clear()
                if whole:  # others are kept, to be looked at
                    shutil.rmtree(run.out, ignore_errors=True)
        except Exception as error:
            self.record.fail(f"{self.subject.name}: {error if isinstance(error, Wrong) else traceback.format_exc()}")

    def _shaken(self, out: Path) -> Shaken:
        self._current = Shaken(self.subject, out, self.calm, self.rng, self.folder.parent / "xla")
        return self._current

    def _throw(self, kind: Kind, run: Shaken) -> bool:
        """Throws a fault and records what came of it; whether the run can go on."""
        try:
            kind.throw(run)
            self.record.hit(kind, self.subject)
        except Impossible as why:
            self.record.impossible[kind.name] = str(why)
        except Missed as why:
            self._missed[kind.name] += 1
            if self._missed[kind.name] < MISSES:
                self.hand.insert(len(self.hand) // 2, kind)
            self.record.say(f"{kind.name}: again later, as {why}")
        except Exception as error:
            what = str(error) if isinstance(error, Wrong) else traceback.format_exc()
            self.record.fail(f"{kind.name} ({self.subject.name}, {run.out}): {what}")
            return False
        return True

    def _world(self, run: Shaken) -> bool:
        """A fault of a world is a run of its own."""
        return self._throw(self.hand.pop(0), run)

    def _lap(self, run: Shaken) -> bool:
        """The same run again, with a fault after every new checkpoint; it must end as the calm one did."""
        thrown: list[str] = []
        try:
            while not self._finished(run):
                if not run.next_checkpoint():
                    continue
                run.pause(0.8)
                if self.hand and run.running:
                    thrown.append(self.hand[0].name)
                    if not self._throw(self.hand.pop(0), run):
                        return False
            if found := differences(self.calm, run.out):
                raise Wrong(f"differs: {', '.join(found)}")
            if left := [path.name for path in run.out.rglob("*.part")]:
                raise Wrong(f"left behind: {', '.join(left)}")
        except Wrong as error:
            self.record.fail(f"{self.subject.name} ({run.out}): {error}; faults: {'; '.join(thrown)}")
            return False
        return True

    def _finished(self, run: Shaken) -> bool:
        """Whether it is done; if it is not under way, it is started."""
        if run.process is not None and not run.running:
            run.ended(0)
            return True
        if run.process is None:
            run.start()
        return False


def deal(kinds: list[Kind], faults: int, lanes: list[Lane], rng: np.random.Generator) -> None:
    """Gives so many faults, of all kinds in turn and in random order, to lanes that can have them."""
    for number in range(faults):
        if number % len(kinds) == 0:
            order = rng.permutation(len(kinds))
        kind = kinds[int(order[number % len(kinds)])]
        able = [lane for lane in lanes if lane.takes(kind)]
        min(able, key=lambda lane: len(lane.hand)).hand.append(kind)
