"""How often 95 % intervals hold the truth, simulated, with few runs.

    python benchmarks/coverage.py --page docs/statistics.md

draws two algorithms' scores from known distributions, many times, and counts. With a page, the tables between
``<!-- coverage -->`` or ``<!-- coverage-modes -->`` and ``<!-- end -->`` are rewritten; seeds are fixed, so the same
code makes the same tables.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from itertools import product
from pathlib import Path

import numpy as np
from scipy import stats

from bires.analysis import intervals, statistics
from bires.analysis.intervals import Resampled, Statistic

SPREAD = 0.4
"""Standard deviation of normal scores, as a share of their mean; log-normal ones have 0.53 (σ = 0.5) or 1.3 (σ = 1)."""
CORRELATION = 0.5
"""Of two algorithms' scores with the same seed, before the exponential."""
TASKS = 9
SCORES = {"normal": 0.0, "log-normal, σ = 0.5": 0.5, "log-normal, σ = 1": 1.0}
"""Name → σ of the logarithm; 0: normal."""
QUANTITIES: dict[str, tuple[int, Statistic, intervals.Shape]] = {
    "difference, one task": (1, statistics.mean_difference, "percentile"),
    "mean difference": (TASKS, statistics.mean_difference, "percentile"),
    "median difference": (TASKS, statistics.median_difference, "percentile"),
    "IQM of differences": (TASKS, statistics.iqm_difference, "percentile"),
    "probability of improvement, one task": (1, statistics.probability_of_improvement, "percentile"),
    "probability of improvement": (TASKS, statistics.probability_of_improvement, "percentile"),
    "improvement (ratio), one task": (1, statistics.mean_improvement, "percentile"),
    "median improvement": (TASKS, statistics.median_improvement, "percentile"),
    "mean improvement": (TASKS, statistics.mean_improvement, "symmetric"),
}
Ends = tuple[float, float]


def means(tasks: int) -> tuple[np.ndarray, np.ndarray]:
    """The true mean scores of the two algorithms: from 20 % worse to 60 % better, task by task."""
    base = np.linspace(0.2, 0.8, tasks) if tasks > 1 else np.array([0.5])
    return base, base * (np.linspace(0.8, 1.6, tasks) if tasks > 1 else 1.2)


def scores(rng: np.random.Generator, sigma: float, runs: int, tasks: int, paired: bool) -> list[np.ndarray]:
    """Two algorithms' scores (runs × tasks)."""
    first, own = rng.standard_normal((2, runs, tasks))
    second = CORRELATION * first + np.sqrt(1 - CORRELATION**2) * own if paired else own
    if sigma == 0:
        return [mean * (1 + SPREAD * x) for mean, x in zip(means(tasks), (first, second), strict=True)]
    return [mean * np.exp(sigma * x - sigma**2 / 2) for mean, x in zip(means(tasks), (first, second), strict=True)]


def truth_of(statistic: Statistic, sigma: float, tasks: int) -> float:
    """What the statistic is of all runs there could be."""
    if statistic is not statistics.probability_of_improvement:
        return float(statistic(*(mean[None] for mean in means(tasks))))
    base, other = scores(np.random.default_rng(0), sigma, 1_000_000, tasks, paired=False)
    return float(np.mean(other > base))


def percentile(found: Resampled, left_out: np.ndarray, shape: intervals.Shape) -> Ends:
    low, high = intervals.percentiles(found.drawn)
    return float(low[0]), float(high[0])


def bca(found: Resampled, left_out: np.ndarray, shape: intervals.Shape) -> Ends:
    """Efron's bias-corrected and accelerated percentiles; the acceleration from leaving out runs one by one."""
    drawn, away = found.drawn[:, 0], left_out.mean() - left_out
    below = np.clip(np.mean(drawn < found.value), 1e-4, 1 - 1e-4)
    bias, size = stats.norm.ppf(below), (away**2).sum()
    acceleration = (away**3).sum() / (6 * size**1.5) if size > 0 else 0.0
    z = bias + stats.norm.ppf([0.025, 0.975])
    low, high = np.quantile(drawn, stats.norm.cdf(bias + z / (1 - acceleration * z)))
    return float(low), float(high)


def expanded(found: Resampled, left_out: np.ndarray, shape: intervals.Shape) -> Ends:
    if np.ptp(found.drawn) == 0 and shape == "percentile":  # a probability of which all runs agree
        runs = int(found.runs[: len(found.runs) // 2].sum())
        return statistics.of_one_mind(float(found.value), runs)
    low, high = intervals.expanded(found, shape)
    return float(low[0]), float(high[0])


METHODS: dict[str, Callable[[Resampled, np.ndarray, intervals.Shape], Ends]] = {
    "percentile": percentile,
    "BCa": bca,
    "ours": expanded,
}


def without_each(statistic: Statistic, samples: list[np.ndarray], paired: bool) -> np.ndarray:
    """The statistic without each run, one at a time (paired: without each seed of a task)."""
    runs, tasks = samples[0].shape
    cases = runs * tasks
    hole = np.where(np.eye(cases, dtype=bool).reshape(cases, runs, tasks), np.nan, 0.0)
    whole = np.zeros_like(hole)
    first, second = samples
    if paired:
        return np.asarray(statistic(first + hole, second + hole))
    apart = [statistic(first + hole, second + whole), statistic(first + whole, second + hole)]
    return np.concatenate(apart)


def covered(name: str, sigma: float, runs: int, paired: bool, repeats: int, seed: int) -> dict[str, float]:
    """Method → the share of repeats in which the interval held the truth."""
    tasks, statistic, shape = QUANTITIES[name]
    rng = np.random.default_rng(seed)
    truth = truth_of(statistic, sigma, tasks)
    hits = dict.fromkeys(METHODS, 0)
    for _ in range(repeats):
        samples = scores(rng, sigma, runs, tasks, paired)
        found = intervals.draw(statistic, tuple(samples), paired, rng)
        left_out = without_each(statistic, samples, paired)
        for method, interval in METHODS.items():
            low, high = interval(found, left_out, shape)
            hits[method] += low <= truth <= high
    return {method: count / repeats for method, count in hits.items()}


CHANCES = ((0.1, 0.4), (0.4, 0.4), (0.5, 0.8), (0.8, 0.95))
"""Of learning a task at all: the baseline's, the other algorithm's."""


def modes(repeats: int) -> str:
    """The difference, where a run scores 0.5 or about nothing; in a cell the four cases, in per cent."""
    lines = ["| chances of learning | one task | mean over nine tasks |", "|---|---|---|"]
    for seed, chances in enumerate(CHANCES):
        cells = []
        for tasks in (1, TASKS):
            cases = product((5, 10), (True, False))
            found = [held(chances, tasks, runs, paired, repeats, seed) for runs, paired in cases]
            cells.append(" / ".join(f"{100 * share:.0f}" for share in found))
        lines.append(f"| {chances[0]:g} and {chances[1]:g} | {' | '.join(cells)} |")
        print(lines[-1], flush=True)
    return "\n".join(lines)


def held(chances: tuple[float, float], tasks: int, runs: int, paired: bool, repeats: int, seed: int) -> float:
    """The share of repeats in which our interval held the truth."""
    rng, hits = np.random.default_rng(seed), 0
    for _ in range(repeats):
        first, own = rng.standard_normal((2, runs, tasks))
        second = CORRELATION * first + np.sqrt(1 - CORRELATION**2) * own if paired else own
        learned = [x < stats.norm.ppf(chance) for x, chance in zip((first, second), chances, strict=True)]
        samples = [0.5 * one + 0.01 * rng.random((runs, tasks)) for one in learned]
        found = intervals.estimate(statistics.mean_difference, *samples, paired=paired)
        hits += found.low <= 0.5 * (chances[1] - chances[0]) <= found.high
    return hits / repeats


def table(repeats: int) -> str:
    """Every quantity and distribution; in a cell the four cases, in per cent."""
    cases = list(product((5, 10), (True, False)))
    lines = ["| | scores | " + " | ".join(METHODS) + " |", "|---|---|" + "---|" * len(METHODS)]
    for seed, (name, (scores_name, sigma)) in enumerate(product(QUANTITIES, SCORES.items())):
        found = [covered(name, sigma, runs, paired, repeats, seed) for runs, paired in cases]
        cells = [" / ".join(f"{100 * case[method]:.0f}" for case in found) for method in METHODS]
        lines.append(f"| {name} | {scores_name} | {' | '.join(cells)} |")
        print(lines[-1], flush=True)
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=1000)
    parser.add_argument("--resamples", type=int, default=1000)
    parser.add_argument("--page", type=Path)
    parser.add_argument("--only", choices=("coverage", "coverage-modes"), help="one of the two tables")
    given = parser.parse_args()
    intervals.RESAMPLES = given.resamples
    for name, make in {"coverage": table, "coverage-modes": modes}.items():
        if given.only in (None, name):
            found = make(given.repeats)
            if given.page:
                text = given.page.read_text(encoding="utf-8")
                block = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end -->)", re.DOTALL)
                written = block.sub(lambda m, found=found: f"{m[1]}{found}\n{m[2]}", text)  # type: ignore[misc]
                given.page.write_text(written, encoding="utf-8")


if __name__ == "__main__":
    main()
