"""The library's front door: the same things the command line does, as functions."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from bires import config as configs
from bires.checkpoint import Store
from bires.config import Config
from bires.display import Display
from bires.errors import UserError, unknown
from bires.lock import Lock
from bires.options import Cohorts, Options
from bires.running import newest
from bires.running import train as run_training
from bires.runs import Folder, Run
from bires.trainer import Trainer
from bires.validation import validate


def train(
    task: str,
    *,
    out: str | os.PathLike[str] | None = None,
    workers: int | None = None,
    cohorts: Cohorts = Options.cohorts,
    checkpoint_minutes: float = Options.checkpoint_minutes,
    keep_going: bool = False,
    quiet: bool = False,
    **settings: Any,
) -> Run:
    """Trains a population and returns its run; calling it again with the same ``out`` continues it.

    ``workers``, ``cohorts``, ``checkpoint_minutes`` and ``keep_going`` are those of `bires.options.Options`. Settings
    are the fields of `bires.config.Config`; one value or several of each, e.g. ``algorithm=["ddpg", "bi-res-ddpg"],
    eta=0.05``. ``seeds=5`` is short for ``seed=range(5)``.
    """
    options = Options(workers, cohorts, checkpoint_minutes, keep_going)
    return start(make_config(task, settings), out, options, Display(quiet=quiet))


def compare(task: str, **settings: Any) -> Run:
    """`train` with DDPG and Bi-Res-DDPG on the same seeds (five, unless said otherwise)."""
    settings.setdefault("algorithm", ("ddpg", "bi-res-ddpg"))
    if "seed" not in settings:
        settings.setdefault("seeds", 5)
    return train(task, **settings)


def resume(
    path: str | os.PathLike[str],
    *,
    steps: int | None = None,
    workers: int | None = None,
    cohorts: Cohorts = Options.cohorts,
    checkpoint_minutes: float = Options.checkpoint_minutes,
    keep_going: bool = False,
    quiet: bool = False,
) -> Run:
    """Continues a run exactly where its newest checkpoint left it, to its end or to more ``steps`` than it had."""
    if steps is not None:
        lengthen(Path(path), steps)
    options = Options(workers, cohorts, checkpoint_minutes, keep_going)
    return start(Run(path).config, path, options, Display(quiet=quiet))


def lengthen(path: Path, steps: int) -> None:
    """Makes a run one of ``steps`` in all; `resume` then trains what is missing, as if that had been asked for."""
    run = Run(path)
    run.require_resumable()
    if steps < run.config.steps:
        raise UserError(
            f"--steps was given {steps}; {path} is a run of {run.config.steps} steps. Accepted: that many or more."
        )
    longer = replace(run.config, steps=steps)
    validate(longer)
    if not Store(path).steps():
        raise UserError(f"{path} has no checkpoint to go on from; nothing was changed. Train anew, with another --out.")
    if steps > run.config.steps:
        with Lock(path, Options.patience):
            newest(Trainer(run.config, Folder(path), Options(workers=0)))  # or it cannot go on, and is left as it is
            Folder(path).lengthen(steps, configs.members(longer))


def make_config(task: str, settings: dict[str, Any]) -> Config:
    """A configuration from keyword arguments: single values become tuples of one where several are allowed."""
    given = dict(settings)
    if "seeds" in given:
        if "seed" in given:
            raise UserError("Both seeds and seed were given; seeds=5 is short for seed=range(5).")
        given["seed"] = seeds(given.pop("seeds"))
    for name in given:
        if name not in configs.types():
            raise unknown("setting", name, [n for n in configs.types() if n != "task"], "")
    return Config(**{name: configs.settled(name, value) for name, value in {"task": task, **given}.items()})


def seeds(count: int) -> tuple[int, ...]:
    count = configs.proper("seeds", count, int)
    if count < 1:
        raise UserError(f"--seeds was given {count}; accepted: whole numbers from 1.")
    return tuple(range(count))


def start(config: Config, out: str | os.PathLike[str] | None, options: Options, display: Display) -> Run:
    """Trains with a display, and stops in order when the process is asked to."""
    path = Path(out) if out is not None else default_out(config.task)
    validate(config)
    with display, stoppable() as stop:
        display.begin(config, configs.members(config), path)
        return run_training(config, path, replace(options, report=display.report, say=display.say), stop)


def default_out(task: str) -> Path:
    name = task.replace("/", "-").replace(":", "-")
    return Path("runs") / f"{name}-{datetime.now():%Y%m%d-%H%M%S}"


@contextmanager
def stoppable() -> Iterator[Callable[[], bool]]:
    """SIGINT, SIGTERM and SIGUSR1 ask for a stop at the next step; a second SIGINT is not waited for."""
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield asked.is_set
        return

    def handle(number: int, _: Any) -> None:
        if number == signal.SIGINT and asked.is_set():
            raise KeyboardInterrupt
        asked.set()

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)
    before = {number: signal.signal(number, handle) for number in numbers}
    try:
        yield asked.is_set
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
