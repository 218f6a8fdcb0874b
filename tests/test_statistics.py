"""Statistics against hand-worked cases, against rliable, and on what is missing."""

import json
from pathlib import Path

import numpy as np
import pytest

from bires.analysis import statistics
from bires.analysis.statistics import Estimate, auc, band, estimate, improvement_band, improvements, mean_and_error

BASE = np.array([[1.0, 2.0, 3.0], [1.0, 2.0, 5.0]])  # AUC 6 and 8: mean 7
OTHER = np.array([[2.0, 3.0, 4.0], [2.0, 3.0, 7.0]])  # AUC 9 and 12: mean 10.5
A, B = auc(BASE)[:, None], auc(OTHER)[:, None]
NAN = float("nan")

RLIABLE = json.loads((Path(__file__).parent / "fixtures" / "rliable.json").read_text())
X, Y = np.array(RLIABLE["x"]), np.array(RLIABLE["y"])


def test_areas_means_and_errors():
    assert auc(BASE).tolist() == [6.0, 8.0]
    mean, error = mean_and_error(BASE)
    assert mean.tolist() == [1.0, 2.0, 4.0]
    assert error.tolist() == pytest.approx([0.0, 0.0, 1.0])  # std (ddof 1) √2 over √2
    assert np.isnan(mean_and_error(BASE[:1])[1]).all()


def test_improvement_is_that_of_the_mean_curves():
    assert statistics.improvements(A, B).tolist() == pytest.approx([0.5])
    mean_curves = auc(OTHER.mean(axis=0)) / auc(BASE.mean(axis=0)) - 1
    assert statistics.improvements(A, B)[0] == pytest.approx(mean_curves)
    assert statistics.improvements(-A, -A / 2).tolist() == pytest.approx([0.5])  # a negative base counts by its size


def test_three_tasks_by_hand():
    base = np.array([[1.0, 2.0, 0.0], [3.0, 2.0, 0.0]])  # means 2, 2, 0
    other = np.array([[3.0, 1.0, 5.0], [3.0, 2.0, 5.0]])  # means 3, 1.5, 5
    gains = statistics.improvements(base, other)
    assert gains[:2].tolist() == pytest.approx([0.5, -0.25])
    assert np.isnan(gains[2])  # nothing to compare with
    assert statistics.mean_improvement(base, other) == pytest.approx(0.125)
    assert statistics.median_improvement(base, other) == pytest.approx(0.125)
    assert statistics.normalise(other, base)[:, 0].tolist() == [1.5, 1.5]
    # Task 1: 3 beats 1, ties with 3: 6 of 8 halves. Task 2: 1 loses twice, 2 ties twice. Task 3: wins all.
    assert statistics.probability_of_improvement(base, other) == pytest.approx((0.75 + 0.25 + 1.0) / 3)
    assert statistics.iqm(np.arange(8.0).reshape(2, 4)) == pytest.approx((2 + 3 + 4 + 5) / 4)
    assert statistics.profile(base, np.array([-1.0, 0.0, 1.0, 2.5])).tolist() == [1.0, 4 / 6, 3 / 6, 1 / 6]
    assert statistics.mean(base) == pytest.approx(4 / 3)
    assert statistics.median(base) == pytest.approx(2.0)


@pytest.mark.parametrize("name", ["mean", "median", "iqm"])
def test_aggregates_equal_rliables(name):
    theirs, ours = RLIABLE[name], estimate(getattr(statistics, name), X)
    assert ours.value == pytest.approx(theirs["value"], abs=1e-6)
    width = theirs["high"] - theirs["low"]
    assert ours.low == pytest.approx(theirs["low"], abs=0.03 * width)
    assert ours.high == pytest.approx(theirs["high"], abs=0.03 * width)


def test_probability_of_improvement_equals_rliables():
    theirs, ours = RLIABLE["probability"], estimate(statistics.probability_of_improvement, Y, X)
    assert ours.value == pytest.approx(theirs["value"], abs=1e-6)
    width = theirs["high"] - theirs["low"]
    assert ours.low == pytest.approx(theirs["low"], abs=0.05 * width)
    assert ours.high == pytest.approx(theirs["high"], abs=0.05 * width)


def test_performance_profile_equals_rliables():
    levels = np.array(RLIABLE["thresholds"])
    value, low, high = band(lambda scores: statistics.profile(scores, levels), X)
    assert value == pytest.approx(RLIABLE["profile"]["value"], abs=1e-6)
    one_run = 1 / X.size + 1e-9
    assert low == pytest.approx(RLIABLE["profile"]["low"], abs=one_run)
    assert high == pytest.approx(RLIABLE["profile"]["high"], abs=one_run)


@pytest.mark.parametrize("name", ["mean", "median", "iqm"])
def test_a_missing_run_is_as_if_it_had_not_been_planned(name):
    """nan anywhere in a column is the same as a shorter column, and a task without runs the same as no task."""
    holes = X.copy()
    holes[2, 1] = holes[7, 4] = NAN
    packed = statistics.matrix([column[~np.isnan(column)] for column in holes.T])
    function = getattr(statistics, name)
    assert estimate(function, holes) == estimate(function, packed)
    nobody = np.concatenate([X, np.full((len(X), 1), NAN)], axis=1)
    assert function(nobody) == pytest.approx(float(function(X)))


def test_resampling_stays_within_the_task_and_is_seeded():
    scores = np.array([[1.0, 10.0], [2.0, NAN], [3.0, 30.0]])
    drawn = statistics.resample(scores, np.random.default_rng(0), 500)
    assert set(drawn[..., 0].ravel().tolist()) == {1.0, 2.0, 3.0}
    assert set(drawn[..., 1][~np.isnan(drawn[..., 1])].tolist()) == {10.0, 30.0}
    assert np.isnan(drawn[..., 1]).sum() == 500
    assert estimate(statistics.mean, X) == estimate(statistics.mean, X)
    assert estimate(statistics.mean, X) != estimate(statistics.mean, X, seed=1)


def test_the_interval_covers_the_truth_as_often_as_it_says():
    """A normal mean of 20 runs: the percentile bootstrap is known to cover a little less than 95 %."""
    rng = np.random.default_rng(5)
    hits = 0
    for _ in range(200):
        found = estimate(statistics.mean, rng.standard_normal((20, 1)))
        hits += found.low <= 0.0 <= found.high
    assert 0.88 <= hits / 200 <= 0.98


def test_improvements_task_by_task():
    base = np.concatenate([A, A], axis=1)
    other = np.concatenate([B, [[9.0], [NAN]]], axis=1)
    both, single = improvement_band(base, other)
    assert both.value == pytest.approx(0.5)
    assert 9 / 8 - 1 - 1e-12 <= both.low < 0.5 < both.high <= 12 / 6 - 1 + 1e-12
    assert single.value == pytest.approx(9 / 7 - 1)
    assert np.isnan(single.low)
    assert np.isnan(single.high)


def test_one_run_has_no_interval():
    found = estimate(statistics.median_improvement, A[:1], B[:1])
    assert found.value == pytest.approx(0.5)
    assert np.isnan(found.low)
    assert np.isnan(found.high)


def test_divergence_rates():
    none, half = statistics.divergence_rate(0, 10), statistics.divergence_rate(5, 10)
    assert none.value == 0.0
    assert none.high == pytest.approx(0.2775, abs=1e-4)  # Wilson: z² / (n + z²)
    assert half.value == 0.5
    assert (half.low + half.high) / 2 == pytest.approx(0.5)
    assert np.isnan(statistics.divergence_rate(0, 0).value)


def test_a_baseline_of_next_to_nothing_has_no_improvement():
    base, other = np.full((3, 2), 1e-200), np.ones((3, 2))
    assert np.isnan(improvements(base, other)).all()
    assert np.isnan(statistics.normalise(other, base)).all()
    base[:, 1] = 0.5
    assert improvements(base, other)[1] == pytest.approx(1.0)
    assert statistics.iqm(statistics.normalise(other, base)) == pytest.approx(2.0)


def test_large_gains_are_told_as_multiples():
    assert Estimate(0.5, -0.25, 99.0).show("+.1%") == "+50.0% [-25.0%, +9900.0%]"
    assert Estimate(5.52e30, 100.0, 1e31).show("+.1%") == "+5.52e+30× [+100×, +1e+31×]"
    assert Estimate(250.0, float("nan"), float("nan")).show(".3g") == "250"
    assert Estimate(float("nan"), float("nan"), float("nan")).show("+.1%") == "–"
