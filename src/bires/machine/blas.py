"""NumPy's matrix products in one thread: those of simulators and of first weights are small.

Threads of BLAS wait for each other, spinning. On busy cores that is most of the time: with two threads and other work
beside them, a step of Breakout, whose pictures are shrunk by two small products, took 25 ms in place of 0.3 ms.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from threadpoolctl import threadpool_limits

LOCK = threading.Lock()
HOLDERS: list[Any] = []
"""The limit, once for each who holds it."""


@contextmanager
def one_thread() -> Iterator[None]:
    """For everybody in this process, while it lasts. Several may hold it, and let go in any order."""
    with LOCK:
        HOLDERS.append(HOLDERS[0] if HOLDERS else threadpool_limits(1, user_api="blas"))
    try:
        yield
    finally:
        with LOCK:
            limit = HOLDERS.pop()
            if not HOLDERS:
                limit.restore_original_limits()
