"""What a user sees while a run is under way: a live line on a terminal, plain lines elsewhere, JSON or nothing."""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.live import Live
from rich.text import Text

from bires.machine import terminal
from bires.machine.terminal import printable
from bires.settings.config import Config
from bires.settings.grid import Member
from bires.settings.options import Progress

ROOM = 5
"""Kinds of members on a line."""
MEMORY_S = 10.0
"""After so long a shown speed has forgotten two thirds of what it was."""


class Display:
    """Tells of a run as it goes. Use as a context manager.

    JSON is printed where it is asked for; ``quiet`` is about lines for people.
    """

    def __init__(self, quiet: bool = False, as_json: bool = False) -> None:
        self.quiet, self.as_json = quiet, as_json
        self.console = terminal.console(stderr=as_json)
        self._live: Live | None = None

    def begin(self, config: Config, members: Sequence[Member], out: Path) -> None:
        self._meter, self.out = Meter(config, members), out
        self._last_evaluation = -1
        self.event("start", run=str(out), task=config.task, members=len(members), steps=config.steps)
        self.say_line(f"run {out}")
        self.show("starting …")

    def __enter__(self) -> Display:
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    @property
    def _lines(self) -> bool:
        return not self.quiet and not self.as_json

    def say(self, text: str) -> None:
        """A remark worth a line of its own."""
        self.event("remark", text=text)
        self.say_line(text)

    def warn(self, text: str) -> None:
        """Something that a user may not have meant: on the standard error."""
        self.event("warning", text=text)
        if not self.quiet:
            print(f"bires: warning: {printable(text)}", file=sys.stderr)

    def say_line(self, text: str) -> None:
        """A line for people."""
        if self._lines:
            self.console.print(printable(text, "\n"), soft_wrap=True)

    def show(self, text: str) -> None:
        """The live part of a terminal, in place of what was there."""
        if self._live is None and self._lines and self.console.is_terminal:
            self._live = Live(console=self.console, refresh_per_second=4, transient=True)
            self._live.start()
        if self._live is not None:
            self._live.update(Text(printable(text, "\n")))

    def event(self, name: str, **values: Any) -> None:
        """A line for machines."""
        if self.as_json:
            print(json.dumps({"event": name, **values}), flush=True)

    def report(self, progress: Progress) -> None:
        """Called at every logging interval and evaluation."""
        numbers = self._meter.numbers(progress)
        self.event("progress", **numbers)
        text = line(numbers)
        self.show(text)
        if progress.evaluated and progress.step != self._last_evaluation:
            self._last_evaluation = progress.step
            self.say_line(text)


class Meter:
    """Turns the progress of one run into the numbers that are shown.

    The speed is that of training alone; the time left counts evaluations, too. The warm-up says nothing of what comes
    after it, so both begin anew there.
    """

    def __init__(self, config: Config, members: Sequence[Member], clock: Callable[[], float] = time.monotonic) -> None:
        self._config, self._members, self._clock = config, members, clock
        self._last: tuple[float, int] | None = None
        self._begun: tuple[float, int] | None = None
        """When and where updates were first seen."""
        self._rate = 0.0

    def numbers(self, progress: Progress) -> dict[str, Any]:
        now, step = self._clock(), progress.step
        updating = step > self._config.warmup
        if self._last is not None and step > self._last[1]:
            passed = now - self._last[0]
            rate = (step - self._last[1]) / passed
            kept = math.exp(-passed / MEMORY_S) if self._rate and updating == (self._begun is not None) else 0.0
            self._rate = kept * self._rate + (1 - kept) * rate
        self._last = now, step
        count = len(self._members) - len(progress.diverged) - len(progress.stopped)
        if updating and self._begun is None:
            self._begun = now, step
        return {
            "step": progress.step,
            "steps": progress.steps,
            "steps_per_second": round(self._rate * count, 1),
            "updates_per_second": round(self._rate * count / self._config.update_every, 1) if updating else 0.0,
            "seconds_left": self._left(now, progress),
            "returns": self.mean_returns(progress.returns),
            "diverged": len(progress.diverged),
            "stopped": len(progress.stopped),
        }

    def _left(self, now: float, progress: Progress) -> int | None:
        """Seconds to the end; None before there is anything to estimate it from."""
        if self._begun is None or progress.step == self._begun[1]:
            return None
        return round((progress.steps - progress.step) * (now - self._begun[0]) / (progress.step - self._begun[1]))

    def mean_returns(self, returns: dict[int, float]) -> dict[str, float]:
        """Mean return per kind of member."""
        kinds: dict[str, list[float]] = {}
        for member in self._members:
            if member.member in returns:
                kinds.setdefault(member.label, []).append(returns[member.member])
        return {label: round(float(np.mean(values)), 2) for label, values in kinds.items()}


def line(numbers: dict[str, Any]) -> str:
    left = numbers["seconds_left"]
    parts = [f"step {numbers['step']:>7,} / {numbers['steps']:,}"]
    if numbers["steps_per_second"]:
        parts.append(f"{numbers['steps_per_second']:,.0f} steps/s")
        parts.append(f"{numbers['updates_per_second']:,.0f} updates/s")
    if left:
        parts.append(f"{left // 3600}:{left % 3600 // 60:02d}:{left % 60:02d} left")
    parts += some(numbers["returns"])
    parts += [f"{numbers[status]} {status}" for status in ("diverged", "stopped") if numbers[status]]
    return "  ".join(parts)


def some(returns: dict[str, float]) -> list[str]:
    """What a line has room for: every kind, or the first (the baseline) and the best."""
    shown = dict(returns)
    if len(returns) > ROOM:
        first, *others = returns
        best = sorted(others, key=lambda label: -returns[label])[: ROOM - 1]
        shown = {label: returns[label] for label in (first, *best)}
    parts = [f"{label} {value:.1f}" for label, value in shown.items()]
    return parts if len(shown) == len(returns) else [*parts, f"and {len(returns) - len(shown)} below"]
