"""Statistics against hand-worked cases, against rliable, and on what is missing."""

import json
import runpy
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from bires.analysis import intervals, statistics
from bires.analysis.intervals import Estimate, estimate
from bires.analysis.statistics import auc, improvements, mean_and_error, running_mean
from bires.errors import UserError

BASE = np.array([[1.0, 2.0, 3.0], [1.0, 2.0, 5.0]])  # AUC 6 and 8: mean 7
OTHER = np.array([[2.0, 3.0, 4.0], [2.0, 3.0, 7.0]])  # AUC 9 and 12: mean 10.5
A, B = auc(BASE)[:, None], auc(OTHER)[:, None]
ROOT = Path(__file__).parents[2]
NAN = float("nan")

RLIABLE = json.loads((Path(__file__).parents[1] / "fixtures" / "rliable.json").read_text())
X, Y = np.array(RLIABLE["x"]), np.array(RLIABLE["y"])


def test_areas_means_and_errors():
    assert auc(BASE).tolist() == [6.0, 8.0]
    mean, error = mean_and_error(BASE)
    assert mean.tolist() == [1.0, 2.0, 4.0]
    assert error.tolist() == pytest.approx([0.0, 0.0, 1.0])  # std (ddof 1) √2 over √2
    assert np.isnan(mean_and_error(BASE[:1])[1]).all()


def test_running_means_are_centred_and_shorter_at_the_ends():
    curve = np.array([[0.0, 3.0, 6.0, 12.0, 0.0]])
    np.testing.assert_allclose(running_mean(curve, 3), [[1.5, 3.0, 7.0, 6.0, 6.0]])
    np.testing.assert_allclose(running_mean(curve, 2), [[0.0, 1.5, 4.5, 9.0, 6.0]])
    np.testing.assert_array_equal(running_mean(curve, 1), curve)


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
    assert gains[2] == np.inf  # nothing to compare with
    assert statistics.mean_improvement(base, other) == np.inf
    assert statistics.mean_improvement(base[:, :2], other[:, :2]) == pytest.approx(0.125)
    assert statistics.median_improvement(base, other) == pytest.approx(0.5)
    assert statistics.differences(base, other).tolist() == [1.0, -0.5, 5.0]
    assert statistics.mean_difference(base, other) == pytest.approx(5.5 / 3)
    assert statistics.median_difference(base, other) == 1.0
    four = np.concatenate([other, [[9.0], [9.0]]], axis=1)
    assert statistics.iqm_difference(np.zeros((2, 4)), four) == pytest.approx((3 + 5) / 2)  # of 3, 1.5, 5, 9
    # Task 1: 3 beats 1, ties with 3: 6 of 8 halves. Task 2: 1 loses twice, 2 ties twice. Task 3: wins all.
    assert statistics.probability_of_improvement(base, other) == pytest.approx((0.75 + 0.25 + 1.0) / 3)
    assert statistics.iqm(np.arange(8.0).reshape(2, 4)) == pytest.approx((2 + 3 + 4 + 5) / 4)
    assert statistics.profile(base, np.array([-1.0, 0.0, 1.0, 2.5])).tolist() == [1.0, 4 / 6, 3 / 6, 1 / 6]
    assert statistics.mean(base) == pytest.approx(4 / 3)
    assert statistics.median(base) == pytest.approx(2.0)


def plain(statistic, *samples):
    """The percentile interval that rliable has, before it is widened for few runs."""
    found = intervals.draw(statistic, samples, False, np.random.default_rng(0))
    return found.value, *intervals.percentiles(found.drawn)


@pytest.mark.parametrize("name", ["mean", "median", "iqm"])
def test_aggregates_equal_rliables(name):
    theirs, (value, low, high) = RLIABLE[name], plain(getattr(statistics, name), X)
    assert value == pytest.approx(theirs["value"], abs=1e-6)
    width = theirs["high"] - theirs["low"]
    assert low == pytest.approx(theirs["low"], abs=0.03 * width)
    assert high == pytest.approx(theirs["high"], abs=0.03 * width)


def test_probability_of_improvement_equals_rliables():
    theirs, (value, low, high) = RLIABLE["probability"], plain(statistics.probability_of_improvement, Y, X)
    assert value == pytest.approx(theirs["value"], abs=1e-6)
    width = theirs["high"] - theirs["low"]
    assert low == pytest.approx(theirs["low"], abs=0.05 * width)
    assert high == pytest.approx(theirs["high"], abs=0.05 * width)


def test_performance_profile_equals_rliables():
    levels = np.array(RLIABLE["thresholds"])
    value, low, high = plain(lambda scores: statistics.profile(scores, levels), X)
    assert value == pytest.approx(RLIABLE["profile"]["value"], abs=1e-6)
    one_run = 1 / X.size + 1e-9
    assert low == pytest.approx(RLIABLE["profile"]["low"], abs=one_run)
    assert high == pytest.approx(RLIABLE["profile"]["high"], abs=one_run)
    _, lowest, highest = statistics.profile_band(X, levels)
    assert np.all(lowest <= low + 1e-12)
    assert np.all(highest >= high - 1e-12)
    assert lowest.min() >= 0.0
    assert highest.max() <= 1.0


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
    (chosen,) = intervals.choose((scores,), False, np.random.default_rng(0), 500)
    drawn = intervals.resample(scores, chosen)
    assert set(drawn[..., 0].ravel().tolist()) == {1.0, 2.0, 3.0}
    assert set(drawn[..., 1][~np.isnan(drawn[..., 1])].tolist()) == {10.0, 30.0}
    assert np.isnan(drawn[..., 1]).sum() == 500
    assert intervals.times_drawn(chosen, scores).sum(axis=1).tolist() == [[0.0, 0.0]] * 500
    assert estimate(statistics.mean, X) == estimate(statistics.mean, X)
    assert estimate(statistics.mean, X) != estimate(statistics.mean, X, seed=1)


def test_paired_tasks_draw_the_same_seeds_and_others_do_not():
    first, second = np.arange(12.0).reshape(4, 3), 10 + np.arange(15.0).reshape(5, 3)
    second[4, :2] = NAN
    chosen = intervals.choose((first, second), np.array([True, True, False]), np.random.default_rng(0), 300)
    base, other = (intervals.resample(*both) for both in zip((first, second), chosen, strict=True))
    assert (other[:, :4, :2] == base[:, :, :2] + 10).all()
    assert not (other[:, :4, 2] == base[:, :, 2] + 10).all(axis=1).any()


def test_identical_members_differ_by_exactly_nothing():
    rng = np.random.default_rng(3)
    same = rng.normal(100.0, 30.0, (5, 4))
    for statistic in (
        statistics.mean_difference,
        statistics.median_difference,
        statistics.iqm_difference,
        statistics.mean_improvement,
        statistics.median_improvement,
    ):
        assert estimate(statistic, same, same.copy(), paired=True) == Estimate(0.0, 0.0, 0.0)
        apart = estimate(statistic, same, same.copy())
        assert apart.low < 0.0 < apart.high
    assert statistics.average_improvement(same, same.copy(), paired=True) == Estimate(0.0, 0.0, 0.0)


def test_one_tasks_mean_has_students_interval():
    """Of the paired difference, but for the shape of the resamples; unpaired, Welch's."""
    rng = np.random.default_rng(4)
    base = rng.normal(size=(5, 1))
    other = 0.5 * base + rng.normal(size=(5, 1))
    found = estimate(statistics.mean_difference, base, other, paired=True)
    theirs = stats.ttest_rel(other[:, 0], base[:, 0]).confidence_interval()
    assert found.high - found.low == pytest.approx(theirs.high - theirs.low, rel=0.1)
    found = estimate(statistics.mean_difference, base, other)
    theirs = stats.ttest_ind(other[:, 0], base[:, 0], equal_var=False).confidence_interval()
    assert found.high - found.low == pytest.approx(theirs.high - theirs.low, rel=0.1)


@pytest.mark.parametrize("paired", [True, False], ids=["paired", "unpaired"])
@pytest.mark.parametrize("tasks", [1, 4])
def test_intervals_of_five_runs_cover_the_truth(paired, tasks, monkeypatch):
    """95 % do; the percentile bootstrap has 85 to 92 % (benchmarks/coverage.py has the whole table)."""
    monkeypatch.setattr(intervals, "RESAMPLES", 400)
    rng = np.random.default_rng(5)
    hits = plainly = 0
    for _ in range(400):
        base, own = rng.standard_normal((2, 5, tasks))
        other = 1.0 + (0.5 * base + own if paired else own)
        found = intervals.draw(statistics.mean_difference, (base, other), paired, rng)
        (low,), (high,) = intervals.expanded(found, "percentile")
        hits += low <= 1.0 <= high
        (low,), (high,) = intervals.percentiles(found.drawn)
        plainly += low <= 1.0 <= high
    assert 0.93 <= hits / 400 <= 0.985
    assert plainly < hits - 8


def test_a_ratio_to_nothing_is_not_left_out_of_an_interval():
    """One of five baseline runs is not zero: a third of the resamples have no baseline, and no upper bound."""
    base, other = np.array([[0.0], [0.0], [0.0], [0.0], [5.0]]), np.full((5, 1), 2.0)
    found = estimate(statistics.mean_improvement, base, other)
    assert found.value == pytest.approx(1.0)
    assert found.high == np.inf
    assert found.low < 1.0
    assert str(found).endswith("+∞]")
    three = [np.concatenate([sample, sample + 10.0, sample + 20.0], axis=1) for sample in (base, other)]
    assert np.isinf(statistics.average_improvement(*three).high)
    assert np.isfinite(estimate(statistics.median_improvement, *three).high)  # the middle task is bounded


def test_an_improvement_is_never_less_than_losing_everything():
    base, other = np.array([[10.0], [1.0], [30.0], [2.0], [40.0]]), np.array([[9.0], [0.0], [1.0], [2.0], [1.0]])
    assert estimate(statistics.mean_improvement, base, other).low < -1.0
    assert statistics.improvement(base, other).low == statistics.average_improvement(base, other).low == -1.0
    assert statistics.improvement(base - 20, other - 20).low < -1.0  # where returns may be negative, it may be


def test_a_resample_without_a_value_counts_against_both_ends():
    def mostly(scores):
        return np.where(scores[..., 0, 0] == 0.0, np.nan, scores[..., 0, 0])

    found = estimate(mostly, np.array([[1.0], [0.0], [2.0]]))
    assert (found.low, found.high) == (-np.inf, np.inf)


def test_a_probability_on_which_all_runs_agree_has_an_interval():
    base, other = np.arange(5.0)[:, None], np.arange(10.0, 15.0)[:, None]
    won, lost = statistics.probability(base, other, True), statistics.probability(other, base)
    assert (won.value, won.high, lost.value, lost.low) == (1.0, 1.0, 0.0, 0.0)
    assert won.low == pytest.approx(0.025 ** (1 / 5))
    assert lost.high == pytest.approx(1 - 0.025 ** (1 / 5))
    some = statistics.probability(base, base + 1.5)
    assert 0.0 <= some.low < some.value < some.high <= 1.0


@pytest.mark.parametrize("runs", [2, 3, 4])
def test_a_probability_of_few_runs_on_one_task_is_not_certain(runs):
    """Runs that all gain a little beside a large spread of seeds: resamples excluded one half."""
    base = np.linspace(0.0, 1.0, runs)[:, None]
    for other in (base + 0.01, base - 0.01):
        found = statistics.probability(base, other, True)
        assert found.low < 0.5 < found.high
        assert found.low < found.value < found.high


def test_tasks_that_agree_within_themselves_but_not_with_each_other_have_an_interval():
    """Two tasks won by all runs and one lost by all: no resample differs, but nothing is certain."""
    base = np.tile(np.arange(5.0)[:, None], 3)
    other = base + np.array([10.0, 10.0, -10.0])
    found = statistics.probability(base, other, True)
    assert found.value == pytest.approx(2 / 3)
    assert found.low < 0.45 < 0.85 < found.high
    same = statistics.probability(base, base.copy(), True)
    assert (same.low, same.value, same.high) == (0.5, 0.5, 0.5)


def test_a_task_with_a_single_run_leaves_no_interval():
    """Its error is unknown, not zero: beside tasks with several runs it must not pass for certain."""
    rng = np.random.default_rng(0)
    base, other = rng.normal(size=(2, 5, 10))
    assert np.isfinite(estimate(statistics.mean_difference, base, other, paired=True).low)
    base[1:, 1:], other[1:, 1:] = np.nan, np.nan
    found = estimate(statistics.mean_difference, base, other, paired=True)
    assert np.isfinite(found.value)
    assert np.isnan(found.low)
    assert np.isnan(found.high)


def test_an_infinite_value_has_no_interval_and_no_warning():
    found = statistics.improvement(np.zeros((5, 1)), np.arange(1.0, 6.0)[:, None])
    assert np.isinf(found.value)


def test_one_run_has_no_interval():
    found = estimate(statistics.median_improvement, A[:1], B[:1])
    assert found.value == pytest.approx(0.5)
    assert np.isnan(found.low)
    assert np.isnan(found.high)


def test_divergence_rates_have_wilsons_interval():
    none, half = statistics.divergence_rate(0, 10), statistics.divergence_rate(5, 10)
    assert none.value == 0.0
    assert none.high == pytest.approx(0.2775, abs=1e-4)  # Wilson: z² / (n + z²)
    assert half.value == 0.5
    assert (half.low + half.high) / 2 == pytest.approx(0.5)
    assert np.isnan(statistics.divergence_rate(0, 0).value)


def test_a_baseline_of_next_to_nothing_is_nothing():
    base, other = np.full((3, 2), 1e-200), np.ones((3, 2))
    assert statistics.is_nothing(base).all()
    assert np.isinf(improvements(base, other)).all()
    assert improvements(base, base).tolist() == [0.0, 0.0]
    base[:, 1] = 0.5
    assert improvements(base, other)[1] == pytest.approx(1.0)
    assert statistics.is_nothing(base).tolist() == [True, False]


def test_an_estimate_over_33_tasks_lies_in_its_interval():
    rng = np.random.default_rng(6)
    base, other = rng.normal(1.0, 0.3, (2, 5, 33))
    found = estimate(statistics.iqm_difference, base, other, paired=True)
    assert found.low < found.value < found.high


def test_large_gains_are_written_as_multiples():
    assert Estimate(0.5, -0.25, 99.0).show("+.1%") == "+50.0% [-25.0%, +9900.0%]"
    assert Estimate(5.52e30, 100.0, 1e31).show("+.1%") == "+5.52e+30× [+100×, +1e+31×]"
    assert Estimate(250.0, float("nan"), float("nan")).show(".3g") == "250"
    assert Estimate(float("nan"), float("nan"), float("nan")).show("+.1%") == "–"


def test_what_is_rounded_to_zero_keeps_its_sign():
    assert Estimate(2e-4, -3e-7, 0.0).show("+.3f") == "+0.000 [-0.000, 0.000]"
    assert Estimate(0.0, -1e-9, 0.5).show(".2f") == "0.00 [0.00, 0.50]"


def coverage_page():
    """(quantity, scores) → how often our intervals hold the truth, as docs/statistics.md says."""
    text = (ROOT / "docs" / "statistics.md").read_text(encoding="utf-8")
    table = text.partition("<!-- coverage -->")[2].partition("<!-- end -->")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.strip().splitlines()[2:]]
    return {(row[0], row[1]): [int(share) for share in row[-1].split(" / ")] for row in rows}


@pytest.fixture(scope="module")
def simulated():
    return SimpleNamespace(**runpy.run_path(str(ROOT / "benchmarks" / "coverage.py")))


def test_the_page_has_the_whole_simulation_and_its_intervals_cover(simulated):
    page = coverage_page()
    assert set(page) == {(name, scores) for name in simulated.QUANTITIES for scores in simulated.SCORES}
    for (name, scores), shares in page.items():
        skewed = name == "IQM of differences" and scores == "log-normal, σ = 1"
        assert min(shares) >= (90 if skewed or name == "probability of improvement, one task" else 93), (name, scores)


@pytest.mark.slow
def test_our_intervals_cover_no_less_than_the_percentile_bootstrap(simulated, monkeypatch):
    monkeypatch.setattr(intervals, "RESAMPLES", 100)
    for name in simulated.QUANTITIES:
        found = simulated.covered(name, 0.5, 5, True, 10, 0)
        assert found["ours"] >= found["percentile"], name


def test_runs_in_other_rows_are_not_paired():
    base, other = (np.array(rows)[:, None] for rows in ([1.0, np.nan, 100.0, 50.0], [2.0, 3.0, np.nan, 51.0]))
    with pytest.raises(UserError, match="3 and 3 runs of task 0, in other rows"):
        estimate(statistics.mean_difference, base, other, paired=True)
    assert np.isfinite(estimate(statistics.mean_difference, base, other).low)


def test_a_profile_that_all_runs_agree_on_is_not_certain():
    value, low, high = statistics.profile_band(np.array([[1.0], [2.0], [3.0], [4.0], [5.0]]), np.array([0.5, 9.0]))
    assert value.tolist() == [1.0, 0.0]
    assert low[0] < 0.6
    assert high[0] == 1.0
    assert low[1] == 0.0
    assert high[1] > 0.4


def test_two_seeds_on_two_tasks_do_not_settle_who_is_better():
    base = np.array([[1.0, 5.0], [2.0, 6.0]])
    other = np.array([[2.0, 6.0], [3.0, 5.5]])
    found = statistics.probability(base, other, True)
    assert found.value == pytest.approx(0.75)
    assert found.low < 0.5


def test_returns_of_other_libraries_are_compared_at_equal_lengths_only():
    """The late part of a shorter curve would pass for that of a whole one."""
    script = SimpleNamespace(**runpy.run_path(str(ROOT / "benchmarks" / "peers" / "compare_returns.py")))
    whole = {seed: {step: float(step) for step in range(0, 101, 10)} for seed in (0, 1)}
    values, steps = script.earned(whole, "whole")
    assert (values.tolist(), steps) == ([95.0, 95.0], 100)
    with pytest.raises(SystemExit, match=r"cut: its curves end at the steps \[50, 100\]"):
        script.earned(whole | {2: {step: float(step) for step in range(0, 51, 10)}}, "cut")
