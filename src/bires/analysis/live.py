"""Curves for other viewers while a run is under way: the files and names of `bires.analysis.export`, growing.

The CSV files of the run stay the truth. A process that begins or continues a run writes its curves anew from them, then
adds what is new after every evaluation: no step is there twice, however often the run was killed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from bires.analysis import export
from bires.analysis.export import ViewedMember
from bires.runs.run import Run
from bires.settings.options import Viewer
from bires.settings.values import proper


class Sink(NamedTuple):
    """The open file of one member."""

    write: Callable[[int, Mapping[str, float]], object]
    """Takes the values of a step."""
    flush: Callable[[], object]
    close: Callable[[], object]


class Live:
    """A callback that keeps the curves of a run up to date."""

    def __init__(self, to: Viewer) -> None:
        self.to = to
        self.library = export.require(export.LIBRARIES[to], to, "--log")
        self.sinks: dict[str, Sink] = {}
        self.last: dict[str, int] = {}
        """Member's id → the last step that was written."""
        self.run: Run | None = None

    def __call__(self, evaluation: Any) -> None:
        self.run = evaluation.run
        self.update()

    def update(self) -> None:
        """Writes what is new in the run folder."""
        if self.run is None:
            return
        for one in export.viewed_members([self.run]):
            if one.id not in self.sinks:
                self.sinks[one.id] = OPEN[self.to](self.library, one, self.run.path)
            sink = self.sinks[one.id]
            for step, values in one.points:
                if step > self.last.get(one.id, -1):
                    sink.write(step, values)
                    self.last[one.id] = step
            sink.flush()

    def close(self) -> None:
        """Writes the rest, and closes the files."""
        try:
            self.update()
        finally:
            for sink in self.sinks.values():
                sink.close()
            self.sinks.clear()


def tensorboard(library: Any, one: ViewedMember, run: Path) -> Sink:
    """RUN/tensorboard/TASK/ALGORITHM/seed-N; a file that an earlier process wrote is replaced."""
    out = run / "tensorboard"
    for old in out.glob(f"*/*/*/events.out.tfevents.*.{one.id}"):
        export.remove(old, out)
    writer = library.SummaryWriter(str(out / one.task / one.group / one.name), filename_suffix=f".{one.id}")
    export.add_about(writer, one)
    return Sink(lambda step, values: export.add_step(writer, step, values), writer.flush, writer.close)


def wandb(library: Any, one: ViewedMember, run: Path) -> Sink:
    """wandb/offline-run-TIME-ID here, as W&B has it: its links lead elsewhere, so that it cannot be in a run folder."""
    made = export.begin_wandb(library, one, Path(os.environ.get("WANDB_DIR", ".")), reinit="create_new")
    return Sink(lambda step, values: made.log(dict(values), step=step), lambda: None, made.finish)


OPEN: dict[Viewer, Callable[[Any, ViewedMember, Path], Sink]] = {"tensorboard": tensorboard, "wandb": wandb}


@contextmanager
def logging(to: str | None) -> Iterator[Live | None]:
    """The callback that logs to a viewer, or None; refuses a viewer that is not installed."""
    if to is None:
        yield None
        return
    live = Live(proper("log", to, Viewer))
    try:
        yield live
    finally:
        live.close()
