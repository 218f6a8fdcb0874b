"""Statistics of learning curves: pure functions of arrays; drawing is elsewhere."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import stats

CONFIDENCE = 0.95
RESAMPLES = 10_000


@dataclass(frozen=True)
class Estimate:
    """A number with a bootstrap interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:+.1%} [{self.low:+.1%}, {self.high:+.1%}]"


def auc(curves: np.ndarray) -> np.ndarray:
    """The area under each curve (runs × points): the sum of its evaluation points, as the paper defines it."""
    return np.asarray(curves.sum(axis=-1))


def mean_and_error(curves: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard error over runs (axis 0); the error of a single run is zero."""
    count = curves.shape[0]
    error = curves.std(axis=0, ddof=1) / np.sqrt(count) if count > 1 else np.zeros(curves.shape[1:])
    return curves.mean(axis=0), error


def improvement(base: np.ndarray, other: np.ndarray) -> float:
    """(AUC of other's mean curve − AUC of base's mean curve) / AUC of base's mean curve; both are (runs × points)."""
    reference = auc(base).mean()
    return float((auc(other).mean() - reference) / abs(reference)) if reference else float("nan")


def improvement_interval(base: np.ndarray, other: np.ndarray, seed: int = 0) -> Estimate:
    """The improvement with a percentile bootstrap over runs, resampled independently for the two."""
    value = improvement(base, other)
    if min(len(base), len(other)) < 2 or not np.isfinite(value):
        return Estimate(value, float("nan"), float("nan"))

    def statistic(a: np.ndarray, b: np.ndarray, axis: int = -1) -> np.ndarray:
        reference = a.mean(axis=axis)
        return np.asarray((b.mean(axis=axis) - reference) / np.abs(reference))

    result = stats.bootstrap(
        (auc(base), auc(other)),
        statistic,
        n_resamples=RESAMPLES,
        confidence_level=CONFIDENCE,
        method="percentile",
        vectorized=True,
        rng=np.random.default_rng(seed),
    )
    return Estimate(value, float(result.confidence_interval.low), float(result.confidence_interval.high))
