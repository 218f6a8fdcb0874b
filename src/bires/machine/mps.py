"""NVIDIA's Multi-Process Service: several processes compute on a GPU at the same time, instead of taking turns.

`environment` starts one for this process and those it launches; it ends when this process does, however that ends.
"""

from __future__ import annotations

import os
import select
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

from bires.machine.processes import launch

CONTROL = "nvidia-cuda-mps-control"
PATIENCE_S = 30.0
"""How long the service may take to start."""
PIPE = "CUDA_MPS_PIPE_DIRECTORY"
"""Where its pipes are; one of them is called control."""
TRY = """
import ctypes
cuda, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
raise SystemExit(cuda.cuInit(0) or cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
"""
"""A program whose exit code is 0 if CUDA can be used."""
STARTED: list[subprocess.Popen[bytes]] = []
"""The process that looks after our service."""


@cache
def environment() -> dict[str, str] | None:
    """The environment variables with which processes use the service; None if it cannot be started here.

    One that runs already, where the user says, is as good as our own.
    """
    theirs = os.environ.get(PIPE)
    if theirs and usable({PIPE: theirs}):
        return {PIPE: theirs}
    if shutil.which(CONTROL) is None:
        return None
    said, say = os.pipe()
    lifeline, our_end = os.pipe()  # never written to; closed when this process ends
    STARTED.append(launch("bires.machine.mps", (lifeline, say), (lifeline, say)))
    os.close(lifeline)
    os.close(say)
    folder = os.read(said, 4096).decode() if select.select([said], [], [], PATIENCE_S)[0] else ""
    os.close(said)
    if folder and usable({PIPE: folder}):
        return {PIPE: folder}
    os.close(our_end)
    return None


def usable(variables: dict[str, str]) -> bool:
    """Whether a service is there, and a process with these variables can use CUDA."""
    if not Path(variables[PIPE], "control").exists():
        return False
    try:
        tried = subprocess.run(
            [sys.executable, "-c", TRY], env=os.environ | variables, capture_output=True, timeout=PATIENCE_S
        )
    except subprocess.TimeoutExpired:
        return False
    return tried.returncode == 0


def serve(lifeline: int, say: int) -> None:
    """Runs a service until the other end of ``lifeline`` is closed; says where its pipes are."""
    with tempfile.TemporaryDirectory(prefix="bires-mps-") as folder:
        silent = subprocess.DEVNULL  # a pipe would be waited for as long as the service lives
        variables = os.environ | {PIPE: folder, "CUDA_MPS_LOG_DIRECTORY": folder}
        failed = subprocess.call([CONTROL, "-d"], env=variables, stdout=silent, stderr=silent)
        os.write(say, b"" if failed else folder.encode())
        os.close(say)
        os.read(lifeline, 1)
        subprocess.run([CONTROL], input=b"quit -t 1\n", env=variables, capture_output=True, check=False)


if __name__ == "__main__":
    serve(*map(int, sys.argv[1:3]))
