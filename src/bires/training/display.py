"""What a user sees while a run is under way: a bar on a terminal, plain lines elsewhere, JSON or nothing."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from bires.machine import terminal
from bires.machine.terminal import elided, json_line, printable
from bires.settings.config import Config
from bires.settings.grid import Member
from bires.settings.options import Progress
from bires.settings.searching import trials_of, varied

WIDTH = 100
"""Columns of lines that do not go to a terminal."""
SHORTEST = 12
"""Characters that a name on a line may have at least."""
LEAST_END = 5
"""Characters of the end of its settings, beside a whole algorithm."""
NAMED = ("algorithm", "rule", "planner", "eta", "eta_end", "planning_eta")
"""What `Member.label` names by itself."""
MEMORY_S = 10.0
"""After so long a shown speed has forgotten two thirds of what it was."""


class Display:
    """Tells of a run as it goes. Use as a context manager.

    JSON is printed where it is asked for; ``quiet`` is about lines for people. What environments and callbacks print
    meanwhile goes to the standard error, so that the standard output is JSON and nothing else.
    """

    def __init__(self, quiet: bool = False, as_json: bool = False) -> None:
        self.quiet, self.as_json = quiet, as_json
        self.console = terminal.console(stderr=as_json)
        self._out = sys.stdout
        self._aside = ExitStack()
        self._live: Live | None = None
        self._heading: str | None = None
        """A line that is printed before the next one: not at all, if a run is refused."""

    def begin(self, config: Config, members: Sequence[Member], out: Path) -> None:
        self._meter, self.out = Meter(config, members), out
        self._steps, self._text = config.steps, "training …"
        self._last_evaluation: int | None = None
        """The step that the returns are of; None: the run goes on, and has not been evaluated since."""
        self.event("start", run=str(out), task=config.task, members=len(members), steps=config.steps)
        self._heading = f"run {out}"
        self.show("starting …")

    def __enter__(self) -> Display:
        self._aside.enter_context(terminal.aside(self.as_json))
        return self

    def __exit__(self, *_: object) -> None:
        self._aside.close()
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
            heading, self._heading = self._heading, None
            for line in (heading, text) if heading else (text,):
                self.console.print(printable(line, "\n"), soft_wrap=True)

    @property
    def width(self) -> int:
        """Columns that a line may have."""
        return self.console.width if self.console.is_terminal else WIDTH

    def show(self, text: str, share: float | None = None) -> None:
        """The live part of a terminal, in place of what was there; with a bar where the ``share`` done is known."""
        if self._live is None and self._lines and self.console.is_terminal:
            self._live = Live(console=self.console, refresh_per_second=4, transient=True)
            self._live.start()
        if self._live is not None:
            shown = Text(printable(text, "\n"), no_wrap=True, overflow="ellipsis")
            self._live.update(shown if share is None else Group(bar(share), shown))

    def event(self, name: str, **values: Any) -> None:
        """A line for machines."""
        if self.as_json:
            print(json_line({"event": name, **values}), file=self._out, flush=True)

    def tick(self, step: int) -> None:
        """Moves the bar; what is below it changes with `report`."""
        self.show(self._text, step / self._steps)

    def report(self, progress: Progress) -> None:
        """Called at every logging interval and evaluation."""
        numbers = self._meter.numbers(progress)
        fresh = progress.evaluated and progress.step != self._last_evaluation
        if fresh:
            self._last_evaluation = progress.step
        self.event("progress", **numbers, evaluated_at=self._last_evaluation)
        self._text = text = "\n".join(lines(numbers, self.width))
        self.tick(progress.step)
        if fresh:
            self.say_line(text)


class Meter:
    """Turns the progress of one run into the numbers that are shown.

    The speed is that of training alone; the time left counts evaluations, too. The warm-up says nothing of what comes
    after it, so both begin anew there.
    """

    def __init__(self, config: Config, members: Sequence[Member], clock: Callable[[], float] = time.monotonic) -> None:
        self._config, self._members, self._clock = config, members, clock
        self._labels = labels(members)
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
            new = updating != (self._begun is not None)
            compiling = self._begun is not None and self._last[1] == self._begun[1]  # the interval before this one
            kept = math.exp(-passed / MEMORY_S) if self._rate and not new and not compiling else 0.0
            self._rate = kept * self._rate + (1 - kept) * rate
        self._last = now, step
        count = len(self._members) - len(progress.diverged) - len(progress.stopped) - len(progress.failed)
        if updating and self._begun is None:
            self._begun = now, step
        ratio = self._config.update_times / self._config.update_every
        return {
            "step": progress.step,
            "steps": progress.steps,
            "training": count,
            "steps_per_second": round(self._rate * count, 1),
            "updates_per_second": round(self._rate * count * ratio, 1) if updating else 0.0,
            "seconds_left": self._left(now, progress),
            "returns": self.mean_returns(progress.returns),
            "diverged": len(progress.diverged),
            "stopped": len(progress.stopped),
            "failed": len(progress.failed),
        }

    def _left(self, now: float, progress: Progress) -> int | None:
        """Seconds to the end; None before there is anything to estimate it from."""
        if self._begun is None or progress.step == self._begun[1]:
            return None
        return round((progress.steps - progress.step) * (now - self._begun[0]) / (progress.step - self._begun[1]))

    def mean_returns(self, returns: dict[int, float]) -> dict[str, float]:
        """Mean return per kind of member; of a search per trial, the best first."""
        kinds: dict[str, list[float]] = {}
        for member in self._members:
            if member.member in returns:
                kinds.setdefault(self._labels[member.member], []).append(returns[member.member])
        means = {label: round(float(np.mean(values)), 2) for label, values in kinds.items()}
        return means if self._config.tuning is None else dict(sorted(means.items(), key=lambda item: -item[1]))


def labels(members: Sequence[Member]) -> dict[int, str]:
    """Member → what its kind is called: by all settings in which members differ, but not by the seed."""
    kinds = trials_of(members)
    rows = [kind.first.row() for kind in kinds]
    numbered = [name for name in varied(kinds) if name not in NAMED]
    names = [name for name in numbered if len({row[name] for row in rows} - {None}) > 1]
    found: dict[int, str] = {}
    for kind, row in zip(kinds, rows, strict=True):
        numbers = "".join(f" {name}={row[name]:g}" for name in names if isinstance(row[name], int | float))
        found |= dict.fromkeys((one.member for one in kind.members), kind.first.label + numbers)
    return found


def bar(share: float) -> Table:
    """A bar over the whole width, and how much of it is done."""
    grid = Table.grid(padding=(0, 1), expand=True)
    grid.add_column(ratio=1)
    grid.add_column(justify="right", no_wrap=True)
    grid.add_row(ProgressBar(1.0, share), f"{share:.0%}")
    return grid


def lines(numbers: dict[str, Any], width: int) -> list[str]:
    """One line, or where that is too long its parts below each other: none is longer than ``width``."""
    left, count, returns = numbers["seconds_left"], numbers["training"], told_apart(numbers["returns"])
    parts = [f"step {numbers['step']:>7,} / {numbers['steps']:,}"]
    if numbers["steps_per_second"] and count:
        each = f"{numbers['steps_per_second'] / count:,.0f} steps/s"
        updates = f"{numbers['updates_per_second'] / count:,.0f} updates/s"
        parts.append(f"{each}, {updates} × {count} members" if count > 1 else f"{each}, {updates}")
    if left:
        parts.append(f"{left // 3600}:{left % 3600 // 60:02d}:{left % 60:02d} left")
    parts += [f"{numbers[status]} {status}" for status in ("diverged", "stopped", "failed") if numbers[status]]
    whole = joined([*parts, *(f"{name} {value:.1f}" for name, value in returns.items())])
    if len(whole) <= width:
        return [whole]
    found = packed(parts, width)
    return [*found, f"  {joined(some(returns, width - 2))}"] if returns else found


def joined(parts: Sequence[str]) -> str:
    return "  ".join(parts)


def packed(parts: Sequence[str], width: int) -> list[str]:
    """Parts side by side, as many as fit on a line."""
    found = [parts[0]]
    for part in parts[1:]:
        together = joined([found[-1], part])
        found = [*found[:-1], together] if len(together) <= width else [*found, f"  {part}"]
    return found


def told_apart(returns: dict[str, float]) -> dict[str, float]:
    """Names without the algorithm, where all have the same one and differ in their settings alone."""
    parts = [name.partition(" ") for name in returns]
    same = len({first for first, _, _ in parts}) == 1 and len(parts) > 1
    return {rest if same and rest else name: returns[name] for name, (_, _, rest) in zip(returns, parts, strict=True)}


def shortened(name: str, most: int) -> str:
    """A name that fits: the algorithm whole, if there is room for it, and the end of its settings."""
    algorithm, _, settings = name.partition(" ")
    room = most - len(algorithm) - 1
    if len(name) <= most or not settings or room < LEAST_END:
        return elided(name, most)
    return f"{algorithm} {elided(settings, room)}"


def some(returns: dict[str, float], room: int) -> list[str]:
    """What a line has room for: every kind, or the first (the baseline) and the best."""
    whole = [f"{name} {value:.1f}" for name, value in returns.items()]
    if len(joined(whole)) <= room:
        return whole
    most = max(SHORTEST, room // 2 - 16)  # so that there is room for two
    named = {name: f"{shortened(name, most)} {value:.1f}" for name, value in returns.items()}
    first, *others = returns
    best = [first, *sorted(others, key=lambda name: -returns[name])]
    for count in range(len(best) - 1, 0, -1):
        shown = [*(named[name] for name in best[:count]), f"and {len(best) - count} more"]
        if len(joined(shown)) <= room:
            return shown
    return [named[first]]
