"""Memory that a pool shares with its workers, and arrays laid out on it."""

from __future__ import annotations

import os
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

import numpy as np

from bires.errors import UserError


class Layout:
    """Arrays one after another on a buffer; without a buffer, only their size."""

    def __init__(self, buffer: Any = None) -> None:
        self._buffer = buffer
        self.nbytes = 0

    def take(self, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        offset, size = self.nbytes, int(np.prod(shape)) * np.dtype(dtype).itemsize
        self.nbytes += -(-max(size, 1) // 64) * 64
        if self._buffer is None:
            return np.broadcast_to(np.zeros((), dtype), shape)
        return np.ndarray(shape, dtype, self._buffer, offset)


def memory(size: int, shared: Path = Path("/dev/shm")) -> IO[bytes]:
    """A file without a name, in memory where there is room (containers often have 64 MB of that), else on the disk."""
    for folder in [shared, None] if shared.is_dir() else [None]:
        with ExitStack() as opened:
            try:
                file = opened.enter_context(tempfile.TemporaryFile(dir=folder))
                if hasattr(os, "posix_fallocate"):  # one that only seems to be there ends the process that uses it
                    os.posix_fallocate(file.fileno(), 0, size)
                else:
                    file.truncate(size)
                opened.pop_all()
                return file
            except OSError as error:
                problem = error
    raise UserError(
        f"The environments share {size / 1e6:.0f} MB of memory, for which neither {shared} nor {tempfile.gettempdir()} "
        f"has room ({problem.strerror}). Enlarge one (docker run --shm-size …), or train fewer members at once."
    )
