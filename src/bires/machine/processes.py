"""Starts modules of this package as further processes, with pipes to this one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress

HELPER = "bires.machine.helper"
"""What makes a process a helper of the one that started it."""


def launch(
    module: str, arguments: Sequence[int], descriptors: Sequence[int], **environment: str
) -> subprocess.Popen[bytes]:
    """Starts ``python -m module`` with whole numbers as arguments; it inherits these file descriptors and no others.

    It computes in one thread, needs no OpenGL, and imports what this process can. It is in a group of its own: an
    interrupt from the keyboard is for this process alone, which stops in order. (Not in a session of its own: Linux
    would share the cores out by sessions, and `nice` would not hold.) When this one ends, its pipes do.
    """
    return start([module, *map(str, arguments)], descriptors, environment)


def launch_helper(
    module: str, arguments: Sequence[int], descriptors: Sequence[int], **environment: str
) -> subprocess.Popen[bytes]:
    """Starts a module that ends with this process, whatever it does, and leaves requests to stop to this one."""
    return start([HELPER, module, *map(str, arguments)], descriptors, environment)


def start(words: Sequence[str], descriptors: Sequence[int], environment: dict[str, str]) -> subprocess.Popen[bytes]:
    usual = {
        "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path),
        "MUJOCO_GL": os.environ.get("MUJOCO_GL", "disable"),
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }
    return subprocess.Popen(
        [sys.executable, "-m", *words],
        pass_fds=tuple(descriptors),
        env=os.environ | usual | environment,
        stdin=subprocess.DEVNULL,
        process_group=0,
    )


def end(process: subprocess.Popen[bytes]) -> None:
    """Ends a process of `launch`, with those that it started itself (simulators may have such)."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)  # its group is its own
    process.kill()
    process.wait()


def ending(process: subprocess.Popen[bytes]) -> str:
    """How a process ended, in words. Its pipes end a moment before it does."""
    try:
        code = process.wait(timeout=1.0)
    except subprocess.TimeoutExpired:
        return "it does not answer"
    return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
