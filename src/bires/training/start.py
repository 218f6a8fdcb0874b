"""Runs in the foreground: with a display, and stopped in order by signals."""

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

from bires.runs.run import Run
from bires.settings.config import Config
from bires.settings.options import Options
from bires.training.display import Display
from bires.training.launch import begin_or_continue


def start(config: Config, out: str | os.PathLike[str] | None, options: Options, display: Display) -> Run:
    """Trains with a display, and stops in order when the process is asked to."""
    path = Path(out) if out is not None else default_out(config.task)
    shown = replace(options, report=display.report, tick=display.tick, say=display.say, warn=display.warn)
    with display, stoppable() as stop:
        return begin_or_continue(config, path, shown, stop, lambda members: display.begin(config, members, path))


def default_out(task: str) -> Path:
    return Path("runs") / f"{folder_name(task)}-{datetime.now():%Y%m%d-%H%M%S}"


def folder_name(task: str) -> str:
    """A task as the name of a folder."""
    return task.replace("/", "-").replace(":", "-")


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
