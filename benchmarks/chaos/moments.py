"""`bires` as typed, but for a moment of it at which something happens: ``BIRES_CHAOS_MOMENT=NAME[:SIGNAL[:SECONDS]]``.

python -m benchmarks.chaos.moments train …: this process gets the signal when it comes to that moment, or so many
seconds later.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .shaken import MOMENT


def before(owner: Any, name: str, act: Callable[[], None], turn: int = 1) -> None:
    """Lets something happen before a function is called for the so-many-th time."""
    real, calls = getattr(owner, name), []

    def patched(*arguments: Any, **keywords: Any) -> Any:
        calls.append(name)
        if len(calls) == turn:
            act()
        return real(*arguments, **keywords)

    setattr(owner, name, patched)


def in_evaluation(act: Callable[[], None]) -> None:
    from bires.training.loop import TrainingLoop

    before(TrainingLoop, "_evaluate", act)


def in_compilation(act: Callable[[], None]) -> None:
    """The first round of steps compiles its program: the cache must be empty."""
    from bires.training.loop import TrainingLoop

    before(TrainingLoop, "_steps", act)


def in_restoring(act: Callable[[], None]) -> None:
    from bires.training import snapshots

    before(snapshots, "load_rows", act)


def before_cutting(act: Callable[[], None]) -> None:
    from bires.runs.folder import Folder

    before(Folder, "open", act)


def between_cuts(act: Callable[[], None]) -> None:
    from bires.runs.folder import Appender

    before(Appender, "__init__", act, turn=2)


def in_writing(act: Callable[[], None]) -> None:
    """A file of the checkpoint is half there."""
    from bires.runs import checkpoint

    module: Any = checkpoint
    real = module.save_file

    def half(arrays: Any, path: Path) -> None:
        real(arrays, path)
        os.truncate(path, path.stat().st_size // 2)
        act()

    module.save_file = half


def after_renaming(act: Callable[[], None]) -> None:
    from bires.runs.checkpoint import Store

    before(Store, "_tidy", act)


def impatient(act: Callable[[], None]) -> None:
    """Workers count as hung after seconds."""
    from bires.envs import helpers

    helpers.PATIENCE_S = 12.0


MOMENTS = {
    one.__name__: one
    for one in (
        in_evaluation,
        in_compilation,
        in_restoring,
        before_cutting,
        between_cuts,
        in_writing,
        after_renaming,
        impatient,
    )
}


def main() -> None:
    name, number, delay = (*os.environ[MOMENT].split(":"), "9", "0")[:3]

    def act() -> None:
        def later() -> None:
            time.sleep(float(delay))
            os.kill(os.getpid(), int(number))

        threading.Thread(target=later, daemon=True).start() if float(delay) else os.kill(os.getpid(), int(number))

    MOMENTS[name](act)
    from bires.cli import script

    script()


if __name__ == "__main__":
    sys.argv[0] = "bires"
    main()
