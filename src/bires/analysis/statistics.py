"""Statistics of learning curves: pure functions of arrays; drawing is elsewhere.

Scores are matrices (runs × tasks) with nan where a run is missing; more axes may stand in front. Intervals are those of
`bires.analysis.intervals`. The seed is fixed, so the same curves give the same numbers.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec

import numpy as np
from scipy import stats

from bires.analysis.intervals import (
    CONFIDENCE,
    UNKNOWN,
    Estimate,
    Paired,
    Shape,
    array_of,
    band,
    estimate,
    matrices,
    mean_of_present,
    median_of_present,
    present,
)
from bires.errors import UserError

P = ParamSpec("P")


def of_matrices(statistic: Callable[P, np.ndarray]) -> Callable[P, np.ndarray]:
    """The statistic of anything that is a matrix (… × runs × tasks), such as lists of rows, with clear errors."""
    names = list(inspect.signature(statistic).parameters)

    @wraps(statistic)
    def checked(*args: P.args, **kwargs: P.kwargs) -> np.ndarray:
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        return statistic(*matrices(**given))  # type: ignore[call-arg,arg-type]

    return checked


# Curves and their areas.

NOTHING = 1e-6
"""An AUC below this counts as zero: shaped rewards of a task that no algorithm solved may be 10⁻²⁰⁰."""


def auc(curves: np.ndarray) -> np.ndarray:
    """The area under each curve (… × points): the sum of its evaluation points, as the paper defines it."""
    return np.asarray(array_of("curves", curves, 1).sum(axis=-1))


def mean_and_error(curves: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard error over runs (axis 0); the error of a single run is not known (nan)."""
    curves = array_of("curves", curves, 1)
    count = curves.shape[0]
    error = curves.std(axis=0, ddof=1) / np.sqrt(count) if count > 1 else np.full(curves.shape[1:], np.nan)
    return curves.mean(axis=0), error


def running_mean(curves: np.ndarray, window: int) -> np.ndarray:
    """The mean of each point with its neighbours, ``window`` points in all; of fewer at both ends (… × points)."""
    curves = array_of("curves", curves, 1)
    first = np.arange(curves.shape[-1]) - window // 2
    return np.stack([curves[..., max(0, i) : i + window].mean(axis=-1) for i in first], axis=-1)


def matrix(columns: list[np.ndarray]) -> np.ndarray:
    """Scores of unequally many runs, one array per task, as a matrix filled up with nan."""
    rows = max((len(column) for column in columns), default=0)
    scores = np.full((rows, len(columns)), np.nan)
    for task, column in enumerate(columns):
        scores[: len(column), task] = column
    return scores


# One algorithm against another.


@of_matrices
def improvements(base: np.ndarray, other: np.ndarray) -> np.ndarray:
    """(AUC of other's mean curve − AUC of base's) / |AUC of base's| for every task.

    The AUC of a mean curve is the mean of the AUCs. The paper has no bars around the denominator: the two differ where
    returns are negative, and there a larger return would count as a loss. Where base's AUC is `NOTHING` the quotient is
    its limit: infinite, or 0 if other's is nothing, too.
    """
    reference = mean_over_runs(base)
    gain = mean_over_runs(other) - reference
    nothing = is_nothing(base)
    limit = np.where(np.abs(gain) < NOTHING, 0.0, np.copysign(np.inf, gain))
    return np.where(nothing, limit, gain / np.where(nothing, 1.0, np.abs(reference)))


@of_matrices
def is_nothing(base: np.ndarray) -> np.ndarray:
    """On which tasks the mean AUC is `NOTHING`: a ratio to it has no meaning."""
    return np.asarray(np.abs(mean_over_runs(base)) < NOTHING)


@of_matrices
def mean_improvement(base: np.ndarray, other: np.ndarray) -> np.ndarray:
    """The mean over tasks of `improvements`."""
    with np.errstate(invalid="ignore"):  # infinite in both directions: nan
        return np.asarray(improvements(base, other).mean(axis=-1))


@of_matrices
def median_improvement(base: np.ndarray, other: np.ndarray) -> np.ndarray:
    """The median over tasks of `improvements`."""
    with np.errstate(invalid="ignore"):
        return np.asarray(np.median(improvements(base, other), axis=-1))


@of_matrices
def differences(base: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Mean score of other − mean score of base, for every task."""
    return np.asarray(mean_over_runs(other) - mean_over_runs(base))


@of_matrices
def mean_difference(base: np.ndarray, other: np.ndarray) -> np.ndarray:
    """The mean over tasks of `differences`."""
    return np.asarray(differences(base, other).mean(axis=-1))


@of_matrices
def median_difference(base: np.ndarray, other: np.ndarray) -> np.ndarray:
    """The median over tasks of `differences`."""
    return np.asarray(np.median(differences(base, other), axis=-1))


@of_matrices
def iqm_difference(base: np.ndarray, other: np.ndarray) -> np.ndarray:
    """The interquartile mean over tasks of `differences`: the mean of the middle half of the tasks."""
    return middle_mean(differences(base, other))


@of_matrices
def probability_of_improvement(base: np.ndarray, other: np.ndarray) -> np.ndarray:
    """P(a run of other > a run of base), a tie counting half: over all pairs of a task, then the mean over tasks."""
    x, y = other[..., :, None, :], base[..., None, :, :]
    wins = np.where(np.isnan(x) | np.isnan(y), np.nan, (x > y) + 0.5 * (x == y))
    return mean_of_present(mean_of_present(wins, axis=(-3, -2)))


# Many tasks as one number (Agarwal et al. 2021, "Deep RL at the edge of the statistical precipice").


@of_matrices
def mean_over_runs(scores: np.ndarray) -> np.ndarray:
    return mean_of_present(scores, axis=-2)


@of_matrices
def mean(scores: np.ndarray) -> np.ndarray:
    """The mean over tasks of the mean over runs."""
    return mean_of_present(mean_over_runs(scores))


@of_matrices
def median(scores: np.ndarray) -> np.ndarray:
    """The median over tasks of the mean over runs."""
    return median_of_present(mean_over_runs(scores))


@of_matrices
def iqm(scores: np.ndarray) -> np.ndarray:
    """The interquartile mean: the mean of the middle half of all runs of all tasks."""
    return middle_mean(scores.reshape(*scores.shape[:-2], -1))


def middle_mean(values: np.ndarray) -> np.ndarray:
    """The mean over the last axis without the lowest and the highest quarter; nan is ignored."""
    flat = np.sort(values, axis=-1)  # nan comes last
    counts = np.sum(~np.isnan(flat), axis=-1)
    cut = counts // 4
    place = np.arange(flat.shape[-1])
    middle = (place >= cut[..., None]) & (place < (counts - cut)[..., None])
    return mean_of_present(np.where(middle, flat, np.nan))


def profile(scores: np.ndarray, thresholds: np.ndarray) -> np.ndarray:
    """The share of runs, of all tasks, that score above each threshold."""
    scores, thresholds = array_of("scores", scores), array_of("thresholds", thresholds, 1)
    there = ~np.isnan(scores)
    above = np.stack([np.sum(scores > level, axis=(-2, -1)) for level in thresholds], axis=-1)
    return np.asarray(above / np.maximum(1, there.sum(axis=(-2, -1)))[..., None])


def divergence_rate(diverged: int, members: int) -> Estimate:
    """The share of members that diverged, with Wilson's interval (a bootstrap of no event would claim certainty)."""
    if not 0 <= diverged <= members:
        raise UserError(f"diverged was given {diverged} of {members} members; accepted: from 0 to {members}.")
    if members == 0:
        return UNKNOWN
    found = stats.binomtest(diverged, members).proportion_ci(CONFIDENCE, method="wilson")
    return Estimate(diverged / members, float(found.low), float(found.high))


# With their intervals.


def improvement(base: np.ndarray, other: np.ndarray, paired: Paired = False) -> Estimate:
    """`median_improvement` with its interval; of one task (runs × 1), that task's improvement."""
    base, other = matrices(base=base, other=other)
    return possible(estimate(median_improvement, base, other, paired=paired), base, other)


def average_improvement(base: np.ndarray, other: np.ndarray, paired: Paired = False) -> Estimate:
    """`mean_improvement`. A mean of ratios is biased, and so are its resamples, to the other side than the truth lies:
    only an interval that reaches as far to both sides covers it."""
    base, other = matrices(base=base, other=other)
    shape: Shape = "symmetric" if base.shape[1] > 1 else "percentile"
    return possible(estimate(mean_improvement, base, other, paired=paired, shape=shape), base, other)


def possible(found: Estimate, base: np.ndarray, other: np.ndarray) -> Estimate:
    """An improvement's interval; no further down than −100 % where there are no negative returns."""
    positive = min(np.nanmin(base), np.nanmin(other)) >= 0
    return found.within(-1.0, np.inf) if positive else found


def probability(base: np.ndarray, other: np.ndarray, paired: Paired = False) -> Estimate:
    """`probability_of_improvement`. Where all runs of every task agree, so do all resamples: then Clopper–Pearson's.

    And of fewer than `FEW_RUNS` runs on one task the interval is at least that one: resamples of so few cover 55 to
    88 %. Algorithms whose runs are the same have 0.5 [0.5, 0.5].
    """
    base, other = matrices(base=base, other=other)
    found = estimate(probability_of_improvement, base, other, paired=paired)
    if np.array_equal(base, other, equal_nan=True):
        return found.within(0.0, 1.0)
    each = np.minimum(present(base), present(other))
    runs, fewest = int(each.sum()), int(each.min())
    if found.low == found.high:
        return Estimate(found.value, *of_one_mind(found.value, runs))
    if 1 < fewest < (FEW_RUNS if base.shape[1] == 1 else 3):
        low, high = of_one_mind(found.value, runs)
        found = Estimate(found.value, min(found.low, low), max(found.high, high))
    return found.within(0.0, 1.0)


FEW_RUNS = 5
"""Of one task; see `probability`."""


def of_one_mind(share: float, runs: int) -> tuple[float, float]:
    """The interval of a probability of which all runs of each task, won or lost, agree."""
    exact = stats.binomtest(round(share * runs), runs).proportion_ci(CONFIDENCE, method="exact")
    return float(exact.low), float(exact.high)


def profile_band(scores: np.ndarray, levels: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """`profile` at some levels: value, low and high."""
    value, low, high = band(lambda drawn: profile(drawn, levels), scores)
    runs = int(present(array_of("scores", scores)).sum())
    for place in np.flatnonzero(low == high):
        low[place], high[place] = of_one_mind(float(value[place]), runs)
    return value, np.clip(low, 0.0, 1.0), np.clip(high, 0.0, 1.0)
