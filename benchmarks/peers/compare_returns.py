"""Our returns beside those of Stable-Baselines3 and SBX: a table of final returns with intervals, for the docs.

    .venv/bin/python benchmarks/peers/compare_returns.py results/peers docs/actor-critics.md

Reads our run folders AGENT/NAME and the peers' LIBRARY-AGENT-TASK.csv (`returns.py`), and rewrites what stands in the
page between ``<!-- peers -->`` and ``<!-- end -->``. Libraries draw other random numbers, so intervals are unpaired.
"""

from __future__ import annotations

import csv
import re
import sys
from pathlib import Path

import numpy as np

from bires.analysis import statistics
from bires.analysis.intervals import Estimate, estimate
from bires.runs.run import Run

LIBRARIES = ("sb3", "sbx")
LATE = 0.2
"""The share of a curve, at its end, whose mean is compared: single evaluations vary much."""
SHORT = {"Hopper": "Hopper-v4", "HalfCheetah": "HalfCheetah-v4"}
"""What our short names are to Gymnasium."""


def late(curve: dict[int, float]) -> float:
    """The mean over the last evaluations of a curve."""
    steps = sorted(curve)
    return float(np.mean([curve[step] for step in steps if step > (1 - LATE) * steps[-1]]))


Curves = dict[int, dict[int, float]]
"""Seed → step → return."""


def earned(curves: Curves, whose: str) -> tuple[np.ndarray, int]:
    """One number for each seed, and the number of steps, which must be the same for all."""
    ends = {max(curve) for curve in curves.values()}
    if len(ends) != 1:
        raise SystemExit(f"{whose}: its curves end at the steps {sorted(ends)}; only equal lengths are compared.")
    return np.array([late(curves[seed]) for seed in sorted(curves)]), ends.pop()


def ours(runs: list[Run], agent: str) -> Curves:
    """What the plain agent earned in some runs of a task."""
    curves: Curves = {}
    for run in runs:
        plain = {row["member"]: row["seed"] for row in run.members.rows() if row["algorithm"] == agent}
        for row in run.evaluations.rows():
            if row["member"] in plain:
                curves.setdefault(plain[row["member"]], {})[int(row["step"])] = float(row["return_mean"])
    return curves


def theirs(path: Path) -> Curves:
    curves: Curves = {}
    with path.open() as file:
        for row in csv.DictReader(file):
            curves.setdefault(int(row["seed"]), {})[int(row["step"])] = float(row["return_mean"])
    return curves


def column(values: np.ndarray) -> np.ndarray:
    return values[:, None]


def show(found: Estimate) -> str:
    return f"{found.value:.0f} [{found.low:.0f}, {found.high:.0f}]".replace("-", "−")


def lines(results: Path) -> list[str]:
    """A line for each task, agent and library that is there."""
    found = [
        "| task | steps | agent | bires | library | its return | difference | seeds |",
        "|---|---|---|---|---|---|---|---|",
    ]
    runs: dict[tuple[str, str], list[Run]] = {}
    for manifest in sorted(results.glob("*/*/manifest.json")):
        run = Run(manifest.parent)
        runs.setdefault((manifest.parents[1].name, run.config.task), []).append(run)
    for (agent, task), same in runs.items():
        mine, steps = earned(ours(same, agent), f"our {agent} on {task}")
        for library in LIBRARIES:
            path = results / f"{library}-{agent}-{SHORT.get(task, task)}.csv"
            if not path.exists():
                continue
            peer, end = earned(theirs(path), path.name)
            if end != steps:
                raise SystemExit(f"{path.name} ends at step {end}, ours at {steps}; only equal lengths are compared.")
            gap = estimate(statistics.mean_difference, column(peer), column(mine), paired=False)
            own, other = (show(estimate(statistics.mean, column(values))) for values in (mine, peer))
            cells = [task, f"{steps:,}".replace(",", " "), agent, own, library, other, show(gap)]
            found.append(f"| {' | '.join([*cells, f'{len(mine)} and {len(peer)}'])} |")
    return found


def main() -> None:
    results, page = Path(sys.argv[1]), Path(sys.argv[2])
    text = page.read_text(encoding="utf-8")
    table = "\n".join(lines(results))
    page.write_text(
        re.sub(r"<!-- peers -->\n.*?<!-- end -->", f"<!-- peers -->\n{table}\n<!-- end -->", text, flags=re.S)
    )
    print(table)


if __name__ == "__main__":
    main()
