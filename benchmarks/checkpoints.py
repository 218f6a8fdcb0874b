"""What checkpoints cost: ten members, a replay of a million transitions each, one checkpoint every 10 000 steps.

    .venv/bin/python benchmarks/checkpoints.py

Takes 10 000 steps of warm-up (so that a checkpoint has 10 000 new rows), times some hundred steps that learn, writes a
checkpoint, and compares: seconds to write against seconds of 10 000 such steps, bytes written against the new rows and
the learners, and the process's peak of memory before and after.
"""

from __future__ import annotations

import contextlib
import json
import resource
import sys
import tempfile
import time
from pathlib import Path

import jax
import numpy as np

from bires.population.state import shapes
from bires.runs.folder import Folder
from bires.settings.config import Config
from bires.settings.options import Options, Stopped
from bires.training.loop import TrainingLoop
from bires.training.plan import make_plan

EVERY = 10_000


def peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def main(timed: int = 300) -> None:
    result: dict[str, float] = {}
    config = Config(
        "walker-stand",
        seed=tuple(range(10)),
        steps=1_000_000,
        warmup=EVERY - timed,
        eval_every=10**9,
        eval_episodes=1,
        log_every=EVERY,
    )
    with tempfile.TemporaryDirectory() as folder:
        options = Options(cohorts="threads", checkpoint_minutes=1e9)
        plan = make_plan(config, options)
        loop = TrainingLoop(plan, Folder(Path(folder)), options)
        clock = {"start": 0.0, "step": 0}

        def look() -> bool:
            if loop.step < EVERY - timed // 2:
                return False
            if not clock["start"]:  # compiled and warm by now
                clock.update(start=time.perf_counter(), step=loop.step)
            if loop.step < EVERY:
                return False
            seconds = time.perf_counter() - clock["start"]
            result["seconds_per_interval"] = seconds / (loop.step - clock["step"]) * EVERY
            result["peak_before"], there = peak(), size(loop.store.path)
            start = time.perf_counter()
            loop.save()
            result["seconds_to_write"] = time.perf_counter() - start
            result["bytes_written"], result["peak_after"] = size(loop.store.path) - there, peak()
            return True

        with contextlib.suppress(Stopped):
            loop.run(None, look)
        members = shapes(plan.program, len(plan.members))
        leaves = jax.tree.leaves(members._replace(storage=None))
        result["bytes_of_learners"] = sum(int(np.prod(leaf.shape)) * leaf.dtype.itemsize for leaf in leaves)
        width = members.storage.shape[2]
        result["bytes_of_new_rows"] = len(plan.members) * EVERY * width * np.dtype(np.float32).itemsize
    result["share_of_time"] = result["seconds_to_write"] / result["seconds_per_interval"]
    result["bytes_ratio"] = result["bytes_written"] / (result["bytes_of_learners"] + result["bytes_of_new_rows"])
    result["memory_ratio"] = result["peak_after"] / result["peak_before"]
    json.dump(result, sys.stdout, indent=2)
    print()


if __name__ == "__main__":
    main()
