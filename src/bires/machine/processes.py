"""Starts modules of this package as further processes, with pipes to this one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence


def launch(
    module: str, arguments: Sequence[int], descriptors: Sequence[int], **environment: str
) -> subprocess.Popen[bytes]:
    """Starts ``python -m module`` with whole numbers as arguments; it inherits these file descriptors and no others.

    It computes in one thread, needs no OpenGL, and imports what this process can. It is in a session of its own: an
    interrupt from the keyboard is for this process alone, which stops in order. When this one ends, its pipes do.
    """
    usual = {
        "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path),
        "MUJOCO_GL": os.environ.get("MUJOCO_GL", "disable"),
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }
    return subprocess.Popen(
        [sys.executable, "-m", module, *map(str, arguments)],
        pass_fds=tuple(descriptors),
        env=os.environ | usual | environment,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )
