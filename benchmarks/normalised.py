"""Learned models of the small scale with normalised inputs and targets, and without: their error on fresh transitions.

python benchmarks/normalised.py [STEPS]
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import bires
from bires.planning.models import SCALES

TASKS = ("Swimmer", "Hopper", "HalfCheetah", "cartpole-swingup", "walker-stand")
SETTINGS: dict[str, Any] = {
    "algorithm": "dyna-ddpg",
    "model": "learned",
    "model_scale": "small",
    "seeds": 4,
    "warmup": 500,
    "eval_episodes": 1,
    "hidden": (32, 32),
    "batch": 16,
    "log_every": 250,
    "quiet": True,
}


def errors(task: str, normalised: bool, steps: int) -> np.ndarray:
    """Root mean square errors 1, 2 and 3 steps ahead over the last third of a run, for each seed."""
    usual = SCALES["small"]
    SCALES["small"] = replace(usual, normalised=normalised)
    try:
        with tempfile.TemporaryDirectory() as out:
            run = bires.train(task, out=Path(out) / "run", steps=steps, replay=steps, eval_every=steps, **SETTINGS)
            rows = [row for row in run.metrics.rows() if row["step"] > 2 * steps / 3]
            members = sorted({row["member"] for row in rows})
            return np.array(
                [
                    [np.mean([row[f"model_error_{k}"] for row in rows if row["member"] == m]) for k in (1, 2, 3)]
                    for m in members
                ]
            )
    finally:
        SCALES["small"] = usual


def main(steps: int) -> None:
    """One line of a table for each task: mean ± standard error over seeds."""
    print("| task | normalised: 1 / 2 / 3 steps ahead | not | ratio of the first |")
    print("|---|---|---|---|")
    for task in TASKS:
        found = {flag: errors(task, flag, steps) for flag in (True, False)}
        cells = [" / ".join(f"{m:.3g}" for m in found[flag].mean(axis=0)) for flag in (True, False)]
        ratio = found[False][:, 0] / found[True][:, 0]
        error = ratio.std(ddof=1) / np.sqrt(len(ratio))
        print(f"| {task} | {cells[0]} | {cells[1]} | {ratio.mean():.2f} ± {error:.2f} |", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 4_000)
