"""Intervals: a bootstrap over runs whose coverage is right with as few as five of them.

Scores are matrices (runs × tasks) with nan where a run is missing. Runs are drawn with replacement within each task,
never across tasks. Where two algorithms share their seeds, they share initial weights, warm-up data and evaluation
starts: the same seeds are then drawn for both (*paired*); elsewhere each is drawn by itself (*unpaired*).

The percentiles of the drawn statistics are too narrow for few runs: drawing n of n runs loses a factor (n − 1) / n of
the variance, and the spread itself is estimated from n runs. So the ends are moved away from the value by

    c = √(n / (n − 1)) · t(ν) / z

with t(ν) and z the 97.5 % points of Student's and the normal distribution. ν, the degrees of freedom, is Welch's and
Satterthwaite's (Σ v)² / Σ (v² / (n − 1)) over the variance v that each group of runs (an algorithm's on a task; a
pair's, if paired) gives to the statistic. v is the infinitesimal jackknife's: Σ over its runs of Cov(statistic, how
often the run was drawn)² (Efron 2014). For the mean of one task this is Student's interval, but for the shape of the
resamples; over many tasks c approaches √(n / (n − 1)). How often it covers: docs/statistics.md.
"""

from __future__ import annotations

import reprlib
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy import stats

from bires.errors import UserError

CONFIDENCE = 0.95
RESAMPLES = 10_000
CHUNK = 1_000
"""Resamples held in memory at once."""

Statistic = Callable[..., np.ndarray]
"""Matrices (… × runs × tasks) → numbers (…), or rows of numbers (… × n)."""
Paired = bool | np.ndarray
"""Whether row i of two samples is the same seed: for all tasks, or for each."""
Shape = Literal["percentile", "symmetric"]
"""`percentile`: the interval has the shape of the resamples; `symmetric`: the same length on both sides."""


@dataclass(frozen=True)
class Estimate:
    """A number with a 95 % interval; an unknown end is nan, an unbounded one is infinite."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return self.show("+.1%")

    def show(self, form: str) -> str:
        """The number and its interval, if there is one, in a Python format."""
        interval = f" [{number(self.low, form)}, {number(self.high, form)}]" if self.low == self.low else ""
        return f"{number(self.value, form)}{interval}"

    def within(self, low: float, high: float) -> Estimate:
        """The same, with the interval cut to the range in which the true value must be."""
        return Estimate(self.value, float(np.clip(self.low, low, high)), float(np.clip(self.high, low, high)))


UNKNOWN = Estimate(np.nan, np.nan, np.nan)


def number(value: float, form: str) -> str:
    """A number in a Python format, or a dash; what is a hundredfold or more is a multiple.

    A zero has no sign. What is rounded to zero keeps the one that it is shown with: whether an end lies above or below
    zero can be read.
    """
    if value != value:
        return "–"
    if np.isinf(value):
        return "+∞" if value > 0 else "-∞"
    if form.endswith("%") and abs(value) >= 100:
        return f"{value:+.3g}×"
    text = f"{value:{form}}"
    signed = "+" in form and value != 0
    return text if signed or any(digit in text for digit in "123456789") else text.lstrip("+-")


@dataclass(frozen=True)
class Resampled:
    """A statistic of the runs, and of resampled runs."""

    value: np.ndarray
    drawn: np.ndarray
    """(resamples × numbers)."""
    variances: np.ndarray
    """The part of each group of runs in the variance: (numbers × groups)."""
    runs: np.ndarray
    """The runs of each group."""


def array_of(name: str, values: Any, least: int = 2) -> np.ndarray:
    """An argument as an array of numbers with at least so many axes."""
    try:
        found = np.asarray(values, float)
    except (TypeError, ValueError) as error:
        raise UserError(
            f"{name} was given {reprlib.repr(values)}; accepted: numbers, in rows of equal length."
        ) from error
    if found.ndim < least:
        example = "" if least < 2 else " (runs × tasks), such as [[1.0], [2.0]] for two runs of one task"
        raise UserError(f"{name} was given an array of shape {found.shape}; accepted: {least} or more axes{example}.")
    return found


def matrices(**given: Any) -> tuple[np.ndarray, ...]:
    """Arguments as matrices (… × runs × tasks) of the same tasks."""
    found = {name: array_of(name, values) for name, values in given.items()}
    if len({array.shape[-1] for array in found.values()}) > 1:
        shapes = " and ".join(str(array.shape) for array in found.values())
        raise UserError(
            f"{' and '.join(found)} were given arrays of shapes {shapes}; accepted: the same tasks, in the last axis."
        )
    return tuple(found.values())


def require_pairs(samples: Sequence[np.ndarray], paired: Paired) -> None:
    """Refuses to pair runs that are not there in both samples."""
    if len(samples) < 2 or not np.any(paired):
        return
    tasks = samples[0].shape[-1]
    if np.shape(paired) not in ((), (tasks,)):
        raise UserError(f"paired was given an array of shape {np.shape(paired)}; accepted: a bool, or {tasks} of them.")
    rows = max(len(sample) for sample in samples)
    first, second = (np.zeros((rows, tasks), bool) for _ in range(2))
    first[: len(samples[0])], second[: len(samples[1])] = (~np.isnan(sample) for sample in samples[:2])
    wrong = np.flatnonzero(np.broadcast_to(paired, tasks) & (first != second).any(0))
    if wrong.size:
        counts = [int(there[:, wrong[0]].sum()) for there in (first, second)]
        where = ", in other rows" if counts[0] == counts[1] else ""
        raise UserError(
            f"paired was given for {counts[0]} and {counts[1]} runs of task {wrong[0]}{where}; accepted: the same "
            "seeds, row by row, or paired=False."
        )


def estimate(
    statistic: Statistic,
    *samples: np.ndarray,
    paired: Paired = False,
    shape: Shape = "percentile",
    seed: int = 0,
    confidence: float = CONFIDENCE,
) -> Estimate:
    """A number and its interval; no interval where some task has a single run, whose error nobody knows."""
    value, low, high = band(statistic, *samples, paired=paired, shape=shape, seed=seed, confidence=confidence)
    return Estimate(float(value), float(low), float(high))


def band(
    statistic: Statistic,
    *samples: np.ndarray,
    paired: Paired = False,
    shape: Shape = "percentile",
    seed: int = 0,
    confidence: float = CONFIDENCE,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """`estimate` for a statistic that gives several numbers: value, low and high of each."""
    samples = matrices(**{f"sample {i}": sample for i, sample in enumerate(samples, 1)})
    require_pairs(samples, paired)
    value = np.asarray(statistic(*samples), float)
    nothing = np.full(value.shape, np.nan)
    counts = [present(sample) for sample in samples]
    if not all(np.any(count > 1) for count in counts) or any(np.any(count == 1) for count in counts):
        return value, nothing, nothing
    found = draw(statistic, samples, paired, np.random.default_rng(seed))
    low, high = expanded(found, shape, confidence)
    known = ~np.isnan(value)
    return (
        value,
        np.where(known, low.reshape(value.shape), nothing),
        np.where(known, high.reshape(value.shape), nothing),
    )


def expanded(found: Resampled, shape: Shape, confidence: float = CONFIDENCE) -> tuple[np.ndarray, np.ndarray]:
    """The ends of the interval above."""
    factor, value = expansion(found, confidence), found.value.reshape(-1)
    with np.errstate(invalid="ignore"):  # an infinite value has no interval
        if shape == "symmetric":
            distance = np.abs(found.drawn - value)
            reach = factor * quantile(distance, confidence, np.inf)
            return value - reach, value + reach
        low, high = percentiles(found.drawn, confidence)
        return stretched(value, low, factor), stretched(value, high, factor)


def stretched(value: np.ndarray, end: np.ndarray, factor: np.ndarray) -> np.ndarray:
    """An end moved away from the value; resamples that all agree with it leave it where it is, bit for bit."""
    return np.where(end == value, value, value + factor * (end - value))


def percentiles(drawn: np.ndarray, confidence: float = CONFIDENCE) -> tuple[np.ndarray, np.ndarray]:
    """The plain percentile interval. A resample without a value counts against both ends: none is skipped."""
    tail = (1 - confidence) / 2
    return quantile(drawn, tail, -np.inf), quantile(drawn, 1 - tail, np.inf)


def quantile(drawn: np.ndarray, level: float, instead: float) -> np.ndarray:
    """A quantile over resamples, those without a value taken for ``instead``."""
    with np.errstate(invalid="ignore"):  # between two infinite ones
        found = np.quantile(np.where(np.isnan(drawn), instead, drawn), level, axis=0)
    return np.where(np.isnan(found), instead, found)


def expansion(found: Resampled, confidence: float) -> np.ndarray:
    """c above, for each number; 1 where the statistic does not vary."""
    several = found.runs > 1
    v, n = found.variances[:, several], found.runs[several]
    total = v.sum(axis=1)
    there = np.where(total > 0, total, 1.0)
    lost = (v * (n / (n - 1))).sum(axis=1) / there
    freedom = there**2 / np.maximum((v**2 / (n - 1)).sum(axis=1), np.finfo(float).tiny)
    tail = 1 - (1 - confidence) / 2
    c = np.sqrt(lost) * stats.t.ppf(tail, np.maximum(freedom, 1.0)) / stats.norm.ppf(tail)
    return np.asarray(np.where(total > 0, c, 1.0))


def draw(statistic: Statistic, samples: tuple[np.ndarray, ...], paired: Paired, rng: np.random.Generator) -> Resampled:
    """Resamples, a chunk at a time, and how the statistic varies with how often each run was drawn."""
    value = np.asarray(statistic(*samples), float)
    centre = np.nan_to_num(value.reshape(-1))
    drawn, slopes = [], [np.zeros((centre.size, *sample.shape)) for sample in samples]
    for start in range(0, RESAMPLES, CHUNK):
        count = min(CHUNK, RESAMPLES - start)
        chosen = choose(samples, paired, rng, count)
        found = np.asarray(statistic(*map(resample, samples, chosen)), float).reshape(count, -1)
        drawn.append(found)
        away = np.where(np.isfinite(found), found - centre, 0.0)
        for slope, sample, index in zip(slopes, samples, chosen, strict=True):
            slope += np.tensordot(away, times_drawn(index, sample), (0, 0))
    if len(samples) > 1:  # what is drawn together is one group: its slopes are the same, and count once
        slopes[1] *= ~np.broadcast_to(paired, samples[0].shape[1])
    variances = np.concatenate([((slope / RESAMPLES) ** 2).sum(axis=1) for slope in slopes], axis=1)
    return Resampled(value, np.concatenate(drawn), variances, np.concatenate([present(s) for s in samples]))


def choose(samples: tuple[np.ndarray, ...], paired: Paired, rng: np.random.Generator, count: int) -> list[np.ndarray]:
    """Which runs are drawn: (count × runs × tasks) for each sample; the same for both on tasks that are paired."""
    chosen = [(rng.random((count, *sample.shape)) * present(sample)).astype(np.int16) for sample in samples]
    if len(samples) > 1 and np.any(paired):
        rows = min(len(sample) for sample in samples)  # a paired task has the same runs, and nan below them
        first, second = chosen
        second[:, :rows] = np.where(paired, first[:, :rows], second[:, :rows])
    return chosen


def resample(scores: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """Matrices whose runs are the chosen ones of the same task; what is missing stays so."""
    packed = pack(scores)
    drawn = np.take_along_axis(packed[None], chosen, axis=1)
    missing = np.isnan(packed)
    return np.where(missing, np.nan, drawn) if missing.any() else drawn


def times_drawn(chosen: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """How often more than once each run was drawn: (count × runs × tasks)."""
    count, rows, tasks = chosen.shape
    there = np.arange(rows)[:, None] < present(scores)
    cell = np.arange(count)[:, None, None] * tasks + np.arange(tasks)
    drawn = (cell * rows + chosen)[np.broadcast_to(there, chosen.shape)]
    times = np.bincount(drawn, minlength=count * tasks * rows).reshape(count, tasks, rows)
    return np.asarray(times.swapaxes(1, 2) - there.astype(float))


def pack(scores: np.ndarray) -> np.ndarray:
    """Each task's runs first, nan last."""
    return np.take_along_axis(scores, np.argsort(np.isnan(scores), axis=0, kind="stable"), axis=0)


def present(scores: np.ndarray) -> np.ndarray:
    """How many runs each task has."""
    return np.asarray(np.sum(~np.isnan(scores), axis=0))


def mean_of_present(values: np.ndarray, axis: int | tuple[int, ...] = -1) -> np.ndarray:
    """The mean of what is not nan; nan where all is."""
    return without_nan(np.mean, np.nanmean, values, axis)


def median_of_present(values: np.ndarray) -> np.ndarray:
    """The median of what is not nan; nan where all is."""
    return without_nan(np.median, np.nanmedian, values, -1)


def without_nan(
    plain: Callable[..., np.ndarray], ignoring: Callable[..., np.ndarray], values: np.ndarray, axis: Any
) -> np.ndarray:
    """A function of NumPy; only where it gives nan its twin that ignores nan, which takes several times as long."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # where all values are nan
        found = np.asarray(plain(values, axis=axis))
        return np.asarray(ignoring(values, axis=axis)) if np.isnan(found).any() else found
