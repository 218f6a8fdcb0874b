"""What the paper claims, as functions of the curves: each gives our number, its interval and a verdict.

The verdicts: **yes**, the interval lies wholly on the claim's side; **no**, wholly on the other; **open**, it holds
both; **no data**, the runs that would tell are not there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from bires.analysis import statistics, summary
from bires.analysis.curves import Curves, Panel
from bires.analysis.statistics import Estimate, auc, estimate

Answer = Literal["yes", "no", "open", "no data"]
MARGIN = 0.2
"""Two algorithms perform alike if their AUCs differ by less than this share."""
FAILURE = -0.5
"""An algorithm fails if it loses more than half of the AUC."""


@dataclass(frozen=True)
class Finding:
    """Our side of a claim."""

    value: Estimate | None
    answer: Answer
    unit: Literal["share", "count", "number"] = "share"


@dataclass(frozen=True)
class Claim:
    """The paper's side: a statement, its number where it gives one, and how to measure it here."""

    statement: str
    paper: str
    measure: Callable[[Sequence[Panel]], Finding]


NO_DATA = Finding(None, "no data")


def above(found: Estimate, level: float) -> Answer:
    """Whether a number is larger than a level."""
    return "yes" if found.low > level else "no" if found.high < level else "open"


def below(found: Estimate, level: float) -> Answer:
    return above(Estimate(-found.value, -found.high, -found.low), -level)


def within(found: Estimate, margin: float) -> Answer:
    """Whether a number is within ± margin."""
    if -margin < found.low and found.high < margin:
        return "yes"
    return "no" if found.low > margin or found.high < -margin else "open"


def median_gain(label: str, paper: float) -> Claim:
    """The headline: the median over tasks of the AUC improvement."""
    return over_tasks(f"{label} improves the AUC of its baseline (median over tasks)", label, paper, "median")


def mean_gain(label: str, paper: float) -> Claim:
    return over_tasks(f"{label} improves the AUC of its baseline (mean over tasks)", label, paper, "mean")


def over_tasks(statement: str, label: str, paper: float, which: Literal["median", "mean"]) -> Claim:
    statistic = statistics.median_improvement if which == "median" else statistics.mean_improvement

    def measure(panels: Sequence[Panel]) -> Finding:
        base, other = summary.scores(panels, label)
        if not other.size:
            return NO_DATA
        found = estimate(statistic, base, other)
        return Finding(found, above(found, 0.0))

    return Claim(statement, f"{paper:+.0%}", measure)


def gain(panels: Sequence[Panel], label: str, over: str, task: str | None) -> Estimate | None:
    """The improvement of one kind over another, on one task or the mean over all that have both."""
    pairs = [
        (base, kind)
        for panel in panels
        if task in (None, panel.task) and (base := panel.kind(over)) and (kind := panel.kind(label))
    ]
    if not pairs or not all(kind.returns.size for pair in pairs for kind in pair):
        return None
    areas = [statistics.matrix([auc(pair[i].returns) for pair in pairs]) for i in (0, 1)]
    return estimate(statistics.mean_improvement, *areas)


def compared(statement: str, label: str, over: str, task: str | None, judge: Callable[[Estimate], Answer]) -> Claim:
    def measure(panels: Sequence[Panel]) -> Finding:
        found = gain(panels, label, over, task)
        return NO_DATA if found is None else Finding(found, judge(found))

    return Claim(statement + (f" ({task})" if task else ""), "", measure)


def better(label: str, over: str, task: str | None = None) -> Claim:
    return compared(f"{label} has a larger AUC than {over}", label, over, task, lambda found: above(found, 0.0))


def not_better(label: str, over: str, task: str | None = None) -> Claim:
    return compared(f"{label} does not outperform {over}", label, over, task, lambda found: below(found, 0.0))


def similar(label: str, over: str, task: str | None = None) -> Claim:
    return compared(f"{label} performs like {over} (±{MARGIN:.0%})", label, over, task, lambda f: within(f, MARGIN))


def fails(label: str, over: str, task: str | None = None) -> Claim:
    statement = f"{label} fails (less than half the AUC of {over})"
    return compared(statement, label, over, task, lambda found: below(found, FAILURE))


def best_eta(algorithm: str, eta: float) -> Claim:
    """How often, over resampled runs, that η has the largest mean AUC of all that were tried."""

    def measure(panels: Sequence[Panel]) -> Finding:
        kinds = [k for panel in panels for k in panel.kinds if k.algorithm == algorithm and k.returns.size]
        mine = [i for i, kind in enumerate(kinds) if kind.eta == eta]
        if not mine or len(kinds) < 2:
            return NO_DATA
        areas = statistics.matrix([auc(kind.returns) for kind in kinds])
        drawn = statistics.resample(areas, np.random.default_rng(0), statistics.CHUNK)
        share = float(np.mean(np.argmax(statistics.mean_over_runs(drawn), axis=-1) == mine[0]))
        answer: Answer = "yes" if share > 0.95 else "no" if share < 0.05 else "open"
        return Finding(Estimate(share, float("nan"), float("nan")), answer)

    return Claim(f"{algorithm} is best at η = {eta:g} (share of resamples in which it is)", "", measure)


def steadier(label: str, over: str) -> Claim:
    """The spread of the final return over seeds, as a ratio of standard deviations."""

    def spread(kind: Curves) -> np.ndarray:
        return np.asarray(kind.returns[:, -1:])

    def ratio(base: np.ndarray, other: np.ndarray) -> np.ndarray:
        deviations = [statistics.without_nan(np.nanstd, sample[..., 0]) for sample in (base, other)]
        return np.asarray(deviations[1] / np.where(deviations[0] == 0, np.nan, deviations[0]))

    def measure(panels: Sequence[Panel]) -> Finding:
        pairs = [(base, kind) for p in panels if (base := p.kind(over)) and (kind := p.kind(label))]
        if not pairs or not all(kind.returns.size for kind in pairs[0]):
            return NO_DATA
        found = estimate(ratio, spread(pairs[0][0]), spread(pairs[0][1]))
        return Finding(found, below(found, 1.0), "number")

    return Claim(f"{label} is steadier than {over} (ratio of standard deviations over seeds)", "", measure)


def wins(label: str, paper: int, tasks: int) -> Claim:
    """On how many tasks the interval of the AUC improvement over the baseline lies above zero."""

    def measure(panels: Sequence[Panel]) -> Finding:
        rows = [row for panel in panels for row in summary.summarise(panel) if row.kind == label and row.improvement]
        if not rows:
            return NO_DATA
        surely = sum(row.improvement.low > 0 for row in rows if row.improvement)
        perhaps = sum(not row.improvement.high < 0 for row in rows if row.improvement)
        answer: Answer = "no" if not surely <= paper <= perhaps else "yes" if surely == perhaps else "open"
        return Finding(Estimate(surely, surely, perhaps), answer if len(rows) == tasks else "open", "count")

    return Claim(f"{label} improves on DDPG in {paper} of {tasks} tasks", f"{paper}", measure)
