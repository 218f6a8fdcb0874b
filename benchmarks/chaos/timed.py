"""Faults at a moment that is chosen: while it imports, compiles, evaluates, resumes, writes."""

from __future__ import annotations

import signal
import tempfile

from .kinds import Missed, Wrong, kind
from .shaken import Shaken

FROM_CHECKPOINT = "the same command goes on from the last checkpoint"


def again_until(run: Shaken, moment: str, *codes: int) -> None:
    """Kills the run, and types its command for a process that comes to its end at that moment."""
    run.kill()
    run.start(moment=moment)
    if run.ended(0, *codes) == 0:
        raise Missed("the run ended before that moment")


def importing(run: Shaken, number: signal.Signals, *codes: int) -> None:
    run.kill()
    run.start()
    run.pause(2.0)
    run.send(number)
    if run.ended(*codes, 1) == 1 and "init_import_site" not in run.said():  # Python itself, before anything of ours
        raise Wrong(f"exit code 1; it said: {run.said()}")


@kind("kill -9 while it imports or resumes", FROM_CHECKPOINT)
def kill_importing(run: Shaken) -> None:
    importing(run, signal.SIGKILL, -signal.SIGKILL)


@kind("Ctrl-C while it imports or resumes", "exit code 130 at once, or 3")
def interrupt_importing(run: Shaken) -> None:
    # Python itself, before its first line of ours, ends by the signal.
    importing(run, signal.SIGINT, 130, 3, -signal.SIGINT)


def compiling(run: Shaken, number: signal.Signals, *codes: int) -> None:
    run.kill()
    with tempfile.TemporaryDirectory() as empty:
        run.start(
            moment=f"in_compilation:{int(number)}:{run.rng.uniform(0.01, 0.5):.2f}", JAX_COMPILATION_CACHE_DIR=empty
        )
        if run.ended(0, *codes) == 0:
            raise Missed("the run ended before that moment")


@kind("kill -9 while it compiles", FROM_CHECKPOINT)
def kill_compiling(run: Shaken) -> None:
    compiling(run, signal.SIGKILL, -signal.SIGKILL)


@kind("Ctrl-C while it compiles", "exit code 3 once it has compiled")
def interrupt_compiling(run: Shaken) -> None:
    compiling(run, signal.SIGINT, 3)


@kind("kill -9 in an evaluation", FROM_CHECKPOINT)
def kill_evaluating(run: Shaken) -> None:
    again_until(run, f"in_evaluation:9:{run.rng.uniform(0.005, 0.1):.3f}", -signal.SIGKILL)


@kind("kill -9 in a resume, its replay half restored", FROM_CHECKPOINT)
def kill_restoring(run: Shaken) -> None:
    again_until(run, "in_restoring", -signal.SIGKILL)


@kind("kill -9 in a resume, before the CSV files are cut back", FROM_CHECKPOINT)
def kill_before_cutting(run: Shaken) -> None:
    again_until(run, "before_cutting", -signal.SIGKILL)


@kind("kill -9 in a resume, one CSV file cut back, the other not", FROM_CHECKPOINT)
def kill_between_cuts(run: Shaken) -> None:
    again_until(run, "between_cuts", -signal.SIGKILL)


@kind("kill -9 in the middle of a checkpoint's file", "it is absent; the one before is used")
def kill_writing(run: Shaken) -> None:
    again_until(run, "in_writing", -signal.SIGKILL)
    if not list(run.store.path.glob("*.part")):
        raise Missed("nothing was half written")


@kind("kill -9 after a checkpoint is renamed, before older ones are removed", FROM_CHECKPOINT)
def kill_after_renaming(run: Shaken) -> None:
    again_until(run, "after_renaming", -signal.SIGKILL)
