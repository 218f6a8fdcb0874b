"""Memory: how much there is, and whether a population fits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psutil

from bires.errors import UserError

WORKER_BYTES = 150e6
"""About what a worker takes beside its environments: Python and a simulator's library."""


def require_memory(device: Any, needed: int, replay: int, capacity: int) -> int:
    """The memory there is, or a refusal that says what would fit."""
    stats = device.memory_stats() if device.platform != "cpu" else None
    there = int(stats["bytes_limit"] - stats["bytes_in_use"]) if stats else free_memory()
    if needed > 0.9 * there:
        fits = int(capacity * max(0.0, 0.8 * there - (needed - replay)) / max(replay, 1))
        smaller = f"--replay {fits} would fit; or train" if fits >= 1000 else "No replay would fit: train"
        raise UserError(
            f"This population needs {gigabytes(needed)} of memory ({gigabytes(replay)} of it replay); "
            f"{gigabytes(there)} are free on {device}. {smaller} fewer members at once."
        )
    return there


def require_worker_memory(workers: int, beside: int) -> None:
    """Refuses more workers than this machine has memory for, ``beside`` what else the run takes there."""
    needed, free = int(workers * WORKER_BYTES) + beside, free_memory()
    if workers and needed > 0.9 * free:
        raise UserError(
            f"{workers} environment workers and this population need about {gigabytes(needed)} of memory; "
            f"{gigabytes(free)} are free. Give fewer, such as --workers 1; --workers 0 steps the environments in this "
            "process."
        )


def free_memory(container: Path = Path("/sys/fs/cgroup")) -> int:
    """Bytes of this machine's memory that are free, or what its container may still take."""
    free = int(psutil.virtual_memory().available)
    try:
        limit, used = ((container / f"memory.{name}").read_text().strip() for name in ("max", "current"))
        kept = dict(line.split() for line in (container / "memory.stat").read_text().splitlines())["inactive_file"]
        return min(free, int(limit) - int(used) + int(kept))  # what files keep is given back when asked for
    except (OSError, ValueError, KeyError):  # no container, or one without a limit
        return free


def gigabytes(count: int) -> str:
    return f"{count / 1e9:.2f} GB" if count >= 1e8 else f"{count / 1e6:.1f} MB"
