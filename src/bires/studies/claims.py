"""What the paper claims, as functions of the curves: each gives our number, its interval and a verdict.

The verdicts: **yes**, the interval lies wholly on the claim's side; **no**, wholly on the other; **open**, it holds
both; **no data**, the runs that would tell are not there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from bires.analysis import intervals, scores, statistics, totals
from bires.analysis.curves import Panel
from bires.analysis.intervals import Estimate, estimate

Answer = Literal["yes", "no", "open", "no data"]
MARGIN = 0.2
"""Two algorithms perform alike if their AUCs differ by less than this share."""
FAILURE = 0.5
"""An algorithm fails if it learns less than this share of what another learns."""

APART = (
    "Two programs round differently, and after some thousand steps theirs are other runs: then this claim shows how"
    " far chance moves the same seeds, and checks nothing. In one program it would be a defect."
)


@dataclass(frozen=True)
class Finding:
    """Our side of a claim."""

    value: Estimate | None
    answer: Answer
    unit: Literal["share", "count", "number"] = "share"
    interval: str = ""
    """`paired`, `unpaired`, or on how many tasks which."""
    remark: str = ""
    """What a reader of the verdict should know of these runs."""


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
    """The headline: the median over tasks of the AUC improvement, over all of them as the paper's."""
    return over_tasks(
        f"{label} improves the AUC of its baseline (median over all tasks, learned or not)",
        paper,
        label,
        lambda score, learned: totals.median_of_all(score) if learned.any() else None,
    )


def mean_gain(label: str, paper: float) -> Claim:
    """The mean: over tasks that were learned, as a ratio to a baseline near zero decides over any mean."""
    return over_tasks(
        f"{label} improves the AUC of its baseline (mean over tasks that at least one algorithm learned)",
        paper,
        label,
        lambda score, learned: totals.ratios(score, learned)[1],
    )


def over_tasks(
    statement: str, paper: float, label: str, ratio: Callable[[scores.Compared, np.ndarray], Estimate | None]
) -> Claim:
    """The paper's ratio of one kind over many tasks; ``ratio`` knows on which of them something was learned."""

    def measure(panels: Sequence[Panel]) -> Finding:
        both = totals.pairs(panels, label)
        if not both:
            return NO_DATA
        score = totals.scored(both)
        found = ratio(score, totals.learned_by(both, score))
        return NO_DATA if found is None else Finding(found, above(found, 0.0), interval=score.interval)

    return Claim(statement, f"{paper:+.0%}", measure)


def gain(label: str) -> Claim:
    """The mean over tasks of the difference of normalised scores (curves' means) to the baseline."""

    def measure(panels: Sequence[Panel]) -> Finding:
        both = totals.pairs(panels, label)
        if not both:
            return NO_DATA
        return mean_difference(both, lambda found: above(found, 0.0))

    return Claim(f"{label} scores higher than its baseline (mean difference over tasks)", "", measure)


def mean_difference(
    pairs: Sequence[totals.Pair], judge: Callable[[Estimate], Answer], confidence: float = intervals.CONFIDENCE
) -> Finding:
    """The mean over tasks of the difference of normalised scores."""
    score = totals.scored(pairs)
    found = estimate(statistics.mean_difference, score.base, score.other, paired=score.paired, confidence=confidence)
    return Finding(found, judge(found), "number", score.interval)


def at_noise(level: float, claim: Claim) -> Claim:
    """A claim about runs whose actions are disturbed by so much."""

    def measure(panels: Sequence[Panel]) -> Finding:
        return claim.measure([panel for panel in panels if panel.runs[0].config.disturb == level])

    return Claim(f"{claim.statement}; noise {level:g}", claim.paper, measure)


def pairs_of(panels: Sequence[Panel], label: str, over: str, task: str | None) -> list[totals.Pair]:
    """Two kinds, on one task or on all that have both."""
    return [
        (panel, base, kind)
        for panel in panels
        if task in (None, scores.short(panel.task)) and (base := panel.kind(over)) and (kind := panel.kind(label))
        if base.returns.size and kind.returns.size
    ]


def compared(
    statement: str,
    label: str,
    over: str,
    task: str | None,
    judge: Callable[[Estimate], Answer],
    once_learned: bool = False,
    by_sign: bool = False,
) -> Claim:
    """One kind and another, on one task or the mean over all that have both: by default the improvement of the AUC.

    ``by_sign``: the (mean) difference of normalised scores, as a ratio to nothing would outweigh all, and the interval
    of a ratio need not exclude zero where that of its difference does.
    ``once_learned``: open as long as nobody has learned one of these tasks; untrained policies perform alike.
    """

    def measure(panels: Sequence[Panel]) -> Finding:
        pairs = pairs_of(panels, label, over, task)
        if not pairs:
            return NO_DATA
        if by_sign:
            return mean_difference(pairs, judge)
        score = totals.scored(pairs)  # what counts as nothing is a share of the scale
        several = statistics.improvement if len(pairs) == 1 else statistics.average_improvement
        found = several(score.base, score.other, score.paired)
        told = not once_learned or all(scores.learned(panel, kind.agent) for panel, _, kind in pairs)
        return Finding(found, judge(found) if told else "open", interval=score.interval)

    return Claim(statement + (f" ({task})" if task else ""), "", measure)


def better(label: str, over: str, task: str | None = None) -> Claim:
    statement = f"{label} has a larger AUC than {over} (difference of scores)"
    return compared(statement, label, over, task, lambda found: above(found, 0.0), by_sign=True)


def not_better(label: str, over: str, task: str | None = None) -> Claim:
    """A tie is not better, either."""

    def judge(found: Estimate) -> Answer:
        return "yes" if found.high <= 0 else "no" if found.low > 0 else "open"

    return compared(
        f"{label} does not outperform {over} (difference of scores)", label, over, task, judge, by_sign=True
    )


def similar(label: str, over: str, task: str | None = None, same: bool = False) -> Claim:
    """``same``: the two are one update by their equations, so this checks the program, and hardly can be "no"."""
    statement = f"{label} performs like {over} (±{MARGIN:.0%}{'; the same update: a check' if same else ''})"
    alike = compared(statement, label, over, task, lambda found: within(found, MARGIN), once_learned=True)

    def measure(panels: Sequence[Panel]) -> Finding:
        """A check only of curves that one program made, which agree in every digit."""
        found, pairs = alike.measure(panels), pairs_of(panels, label, over, task)
        if all(np.array_equal(base.returns, kind.returns) for _, base, kind in pairs):
            return found
        return replace(found, remark=f"{label} and {over} are the same update, but their curves differ. {APART}")

    return replace(alike, measure=measure) if same else alike


def fails(label: str, over: str, task: str | None = None) -> Claim:
    """Learns less than half of what another does; open while that one has learned nothing.

    What is learned is the curve's mean above the level before training: an untrained policy may have most of the AUC.
    """

    def measure(panels: Sequence[Panel]) -> Finding:
        pairs = pairs_of(panels, label, over, task)[:1]
        if not pairs:
            return NO_DATA
        (panel, _, _), warmup = pairs[0], scores.warmup_of(pairs[0][0])
        gain = scores.compared(totals.curves_of(pairs), lambda kind: scores.gained(kind, warmup))
        least = scores.FLOOR * scores.scale_of(panel).value
        theirs = estimate(statistics.mean, gain.base)
        if not (theirs.low > 0 and theirs.value >= least):
            share = float(statistics.mean(gain.other)) / theirs.value if theirs.value > 0 else float("nan")
            return Finding(Estimate(share, float("nan"), float("nan")), "open", interval=gain.interval)
        found = estimate(share_of, gain.base, gain.other, paired=gain.paired)
        return Finding(found, below(found, FAILURE), interval=gain.interval)

    statement = f"{label} fails (learns less than half of what {over} learns)"
    return Claim(statement + (f" ({task})" if task else ""), "", measure)


def share_of(base: np.ndarray, other: np.ndarray) -> np.ndarray:
    """The mean of other as a share of base's; nan, which widens the interval, if base's is not above zero."""
    reference = statistics.mean(base)
    return np.asarray(statistics.mean(other) / np.where(reference > 0, reference, np.nan))


def best_eta(algorithm: str, eta: float) -> Claim:
    """The difference of normalised scores to the best of the other η that were tried.

    It is best for certain only if the interval is above zero against each of them, and not if it is below against one.
    That is a test of each, so the intervals are as wide as all of them together need (Bonferroni).
    """

    def measure(panels: Sequence[Panel]) -> Finding:
        for panel in panels:
            kinds = [kind for kind in panel.kinds if kind.algorithm == algorithm and kind.returns.size]
            mine = [kind for kind in kinds if kind.eta == eta]
            others = [kind for kind in kinds if kind.eta != eta]
            if mine and others:
                level = 1 - (1 - intervals.CONFIDENCE) / len(others)
                pairs = [[(panel, other, mine[0])] for other in others]
                found = [mean_difference(pair, lambda one: above(one, 0.0), level) for pair in pairs]
                answers = {one.answer for one in found}
                answer: Answer = "no" if "no" in answers else "open" if "open" in answers else "yes"
                closest = min(found, key=lambda one: one.value.value if one.value else 0.0)
                return replace(closest, answer=answer)
        return NO_DATA

    return Claim(
        f"{algorithm} is best at η = {eta:g} (difference of scores to the best other η; an interval for all of them)",
        "",
        measure,
    )


def steadier(label: str, over: str) -> Claim:
    """The spread of the final return over seeds, as a ratio of standard deviations."""

    def ratio(base: np.ndarray, other: np.ndarray) -> np.ndarray:
        deviations = [intervals.without_nan(np.std, np.nanstd, sample[..., 0], -1) for sample in (base, other)]
        with np.errstate(divide="ignore", invalid="ignore"):  # resamples of one run alone do not vary
            return np.asarray(np.log(deviations[1]) - np.log(deviations[0]))

    def measure(panels: Sequence[Panel]) -> Finding:
        pairs = pairs_of(panels, label, over, None)[:1]
        if not pairs:
            return NO_DATA
        final = scores.compared(totals.curves_of(pairs), scores.final)
        logs = estimate(ratio, final.base, final.other, paired=final.paired)  # a ratio's error is one of its logarithm
        found = Estimate(*(float(np.exp(part)) for part in (logs.value, logs.low, logs.high)))
        return Finding(found, below(found, 1.0), "number", final.interval)

    return Claim(f"{label} is steadier than {over} (ratio of standard deviations over seeds)", "", measure)


def wins(label: str, paper: int, tasks: int) -> Claim:
    """On how many tasks the interval of the difference to the baseline lies above zero."""

    def measure(panels: Sequence[Panel]) -> Finding:
        both = totals.pairs(panels, label)
        if not both:
            return NO_DATA
        each = [scores.compared([pair], scores.score) for pair in totals.curves_of(both)]
        gains = [totals.between(statistics.mean_difference, one) for one in each]
        surely, perhaps = sum(gain.low > 0 for gain in gains), sum(not gain.high < 0 for gain in gains)
        answer: Answer = "no" if not surely <= paper <= perhaps else "yes" if surely == perhaps else "open"
        kind = scores.compared(totals.curves_of(both), scores.score).interval
        return Finding(Estimate(surely, surely, perhaps), answer if len(both) == tasks else "open", "count", kind)

    return Claim(f"{label} improves on DDPG in {paper} of {tasks} tasks", f"{paper}", measure)
