"""Statistics of learning curves: pure functions of arrays; drawing is elsewhere.

Scores are matrices (runs × tasks) with nan where a run is missing; more axes may stand in front. Every interval is a
percentile bootstrap, stratified by task: runs are drawn with replacement within each task, never across tasks, and
independently for each algorithm. The seed is fixed, so the same curves give the same numbers.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from scipy import stats

CONFIDENCE = 0.95
RESAMPLES = 10_000
CHUNK = 1_000
"""Resamples held in memory at once."""

Statistic = Callable[..., np.ndarray]
"""Matrices (… × runs × tasks) → numbers (…), or rows of numbers (… × n)."""


@dataclass(frozen=True)
class Estimate:
    """A number with a bootstrap interval; an end that cannot be known is nan."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return self.show("+.1%")

    def show(self, form: str) -> str:
        """The number and its interval, if there is one, in a format of Python's."""
        interval = f" [{number(self.low, form)}, {number(self.high, form)}]" if self.low == self.low else ""
        return f"{number(self.value, form)}{interval}"


def number(value: float, form: str) -> str:
    """A number in a format of Python's, or a dash; percentages of a hundredfold and more as multiples, to be read."""
    if value != value:
        return "–"
    return f"{value:+.3g}×" if form.endswith("%") and abs(value) >= 100 else f"{value:{form}}"


# Curves and their areas.

NOTHING = 1e-6
"""An AUC below this counts as zero: shaped rewards of a task that nobody solved may be 10⁻²⁰⁰."""


def auc(curves: np.ndarray) -> np.ndarray:
    """The area under each curve (… × points): the sum of its evaluation points, as the paper defines it."""
    return np.asarray(curves.sum(axis=-1))


def mean_and_error(curves: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard error over runs (axis 0); the error of a single run is not known (nan)."""
    count = curves.shape[0]
    error = curves.std(axis=0, ddof=1) / np.sqrt(count) if count > 1 else np.full(curves.shape[1:], np.nan)
    return curves.mean(axis=0), error


def matrix(columns: list[np.ndarray]) -> np.ndarray:
    """Scores of unequally many runs, one array per task, as a matrix filled up with nan."""
    rows = max((len(column) for column in columns), default=0)
    scores = np.full((rows, len(columns)), np.nan)
    for task, column in enumerate(columns):
        scores[: len(column), task] = column
    return scores


# One algorithm against another.


def improvements(base: np.ndarray, other: np.ndarray) -> np.ndarray:
    """(AUC of other's mean curve − AUC of base's) / |AUC of base's| for every task; nan where base's is `NOTHING`.

    The AUC of a mean curve is the mean of the AUCs. The paper has no bars around the denominator: the two differ where
    returns are negative, and there a larger return would count as a loss.
    """
    reference = mean_over_runs(base)
    return np.asarray((mean_over_runs(other) - reference) / size(reference))


def mean_improvement(base: np.ndarray, other: np.ndarray) -> np.ndarray:
    """The mean over tasks of `improvements`, without the tasks where it is undefined."""
    return without_nan(np.nanmean, improvements(base, other))


def median_improvement(base: np.ndarray, other: np.ndarray) -> np.ndarray:
    """The median over tasks of `improvements`, without the tasks where it is undefined."""
    return without_nan(np.nanmedian, improvements(base, other))


def probability_of_improvement(base: np.ndarray, other: np.ndarray) -> np.ndarray:
    """P(a run of other > a run of base), a tie counting half: over all pairs of a task, then the mean over tasks."""
    x, y = other[..., :, None, :], base[..., None, :, :]
    wins = np.where(np.isnan(x) | np.isnan(y), np.nan, (x > y) + 0.5 * (x == y))
    return without_nan(np.nanmean, without_nan(np.nanmean, wins, axis=(-3, -2)))


def normalise(scores: np.ndarray, base: np.ndarray) -> np.ndarray:
    """Scores in units of base's mean score on the task, so that base's mean is 1; nan where that score is `NOTHING`."""
    reference = mean_over_runs(base)
    return np.asarray(1.0 + (scores - reference) / size(reference))


def size(reference: np.ndarray) -> np.ndarray:
    """What others are measured in: |reference|, or nan where that is `NOTHING`."""
    return np.where(np.abs(reference) < NOTHING, np.nan, np.abs(reference))


# Many tasks as one number (Agarwal et al. 2021, "Deep RL at the edge of the statistical precipice").


def mean_over_runs(scores: np.ndarray) -> np.ndarray:
    return without_nan(np.nanmean, scores, axis=-2)


def mean(scores: np.ndarray) -> np.ndarray:
    """The mean over tasks of the mean over runs."""
    return without_nan(np.nanmean, mean_over_runs(scores))


def median(scores: np.ndarray) -> np.ndarray:
    """The median over tasks of the mean over runs."""
    return without_nan(np.nanmedian, mean_over_runs(scores))


def iqm(scores: np.ndarray) -> np.ndarray:
    """The interquartile mean: the mean of the middle half of all runs of all tasks."""
    flat = np.sort(scores.reshape(*scores.shape[:-2], -1), axis=-1)  # nan comes last
    counts = np.sum(~np.isnan(flat), axis=-1)
    cut = counts // 4
    place = np.arange(flat.shape[-1])
    middle = (place >= cut[..., None]) & (place < (counts - cut)[..., None])
    return without_nan(np.nanmean, np.where(middle, flat, np.nan))


def profile(scores: np.ndarray, thresholds: np.ndarray) -> np.ndarray:
    """The share of runs, of all tasks, that score above each threshold."""
    there = ~np.isnan(scores)
    above = np.stack([np.sum(scores > level, axis=(-2, -1)) for level in thresholds], axis=-1)
    return np.asarray(above / np.maximum(1, there.sum(axis=(-2, -1)))[..., None])


def divergence_rate(diverged: int, members: int) -> Estimate:
    """The share of members that diverged, with Wilson's interval (a bootstrap of no event would claim certainty)."""
    if members == 0:
        return Estimate(float("nan"), float("nan"), float("nan"))
    found = stats.binomtest(diverged, members).proportion_ci(CONFIDENCE, method="wilson")
    return Estimate(diverged / members, float(found.low), float(found.high))


# Intervals.


def estimate(statistic: Statistic, *samples: np.ndarray, seed: int = 0) -> Estimate:
    """A number and its interval; no interval unless every sample has a task with two runs."""
    value, low, high = band(statistic, *samples, seed=seed)
    return Estimate(float(value), float(low), float(high))


def band(statistic: Statistic, *samples: np.ndarray, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """`estimate` for a statistic that gives several numbers: value, low and high of each."""
    value = np.asarray(statistic(*samples), float)
    if not all(np.any(np.sum(~np.isnan(sample), axis=0) > 1) for sample in samples):
        return value, np.full(value.shape, np.nan), np.full(value.shape, np.nan)
    drawn = np.concatenate(list(resampled(statistic, samples, np.random.default_rng(seed))))
    tail = 50 * (1 - CONFIDENCE)
    low, high = without_nan(lambda x, axis: np.nanpercentile(x, [tail, 100 - tail], axis=axis), drawn, axis=0)
    return value, np.where(np.isnan(value), np.nan, low), np.where(np.isnan(value), np.nan, high)


def improvement_band(base: np.ndarray, other: np.ndarray) -> list[Estimate]:
    """The improvement on every task; a task with a single run on either side has no interval."""
    columns = zip(*band(improvements, base, other), strict=True)
    few = np.minimum(np.sum(~np.isnan(base), axis=0), np.sum(~np.isnan(other), axis=0)) < 2
    nan = float("nan")
    return [
        Estimate(float(value), nan if lonely else float(low), nan if lonely else float(high))
        for (value, low, high), lonely in zip(columns, few, strict=True)
    ]


def resampled(statistic: Statistic, samples: tuple[np.ndarray, ...], rng: np.random.Generator) -> Iterator[np.ndarray]:
    for start in range(0, RESAMPLES, CHUNK):
        count = min(CHUNK, RESAMPLES - start)
        yield np.asarray(statistic(*(resample(sample, rng, count) for sample in samples)), float)


def resample(scores: np.ndarray, rng: np.random.Generator, count: int) -> np.ndarray:
    """``count`` matrices whose runs are drawn with replacement from the same task's runs; what is missing stays so."""
    packed = np.take_along_axis(scores, np.argsort(np.isnan(scores), axis=0, kind="stable"), axis=0)
    there = np.sum(~np.isnan(scores), axis=0)
    chosen = (rng.random((count, *scores.shape)) * there).astype(int)
    drawn = np.take_along_axis(packed[None], chosen, axis=1)
    return np.where(np.isnan(packed), np.nan, drawn)


def without_nan(
    function: Callable[..., np.ndarray], values: np.ndarray, axis: int | tuple[int, ...] = -1
) -> np.ndarray:
    """A nan-ignoring function of NumPy, which need not warn where there is nothing but nan."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return np.asarray(function(values, axis=axis))
