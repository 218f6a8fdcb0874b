"""Many tasks as one number: each kind of member against its baseline, over groups of tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bires.analysis import scores, statistics
from bires.analysis.curves import Curves, Panel
from bires.analysis.intervals import Estimate, Statistic, estimate
from bires.analysis.scores import Compared, Measure


@dataclass(frozen=True)
class Total:
    """One kind of member over all tasks of a group where it and the baseline ran, each task once."""

    tasks: str
    """Which tasks: all, those of a model, or a kind of task."""
    kind: str
    count: int
    """How many tasks."""
    interval: str
    """`paired`, `unpaired`, or on how many tasks which."""
    probability: Estimate | None
    """Of a run being better than a run of the baseline; None, like all that compares, for the baseline itself."""
    mean_difference: Estimate | None
    """Of normalised scores, over tasks; so are the next two."""
    median_difference: Estimate | None
    iqm_difference: Estimate | None
    final_difference: Estimate | None
    """The mean over tasks of differences of normalised final returns."""
    learned: int
    """Tasks that some algorithm learned: the paper's ratio is taken over these."""
    median_improvement: Estimate | None
    mean_improvement: Estimate | None
    median_of_all: Estimate | None
    """The median of the ratio over every task, learned or not, as the paper's is."""
    left_out: str
    """The other tasks, by name."""
    overestimation: float | None
    """The median over tasks of q − q_expected, in units of what a return of the scale is worth in 1000 steps."""
    divergence: Estimate


def between(statistic: Statistic, found: Compared) -> Estimate:
    return estimate(statistic, found.base, found.other, paired=found.paired)


def totals(panels: Sequence[Panel]) -> list[Total]:
    """One record per group of tasks and kind of member, in the order in which they first appear."""
    found = []
    for name, group in groups(panels).items():
        labels = dict.fromkeys(kind.label for panel in group for kind in panel.kinds)
        found += [total for label in labels if (total := total_of(name, group, label))]
    return found


def groups(panels: Sequence[Panel]) -> dict[str, list[Panel]]:
    """Panels that may be counted together: of one noise and model; then by kind of task, where there are several."""
    noises = sorted({world_of(panel)[1] for panel in panels})
    models = {noise: dict.fromkeys(model_of(p) for p in panels if world_of(p)[1] == noise) for noise in noises}
    if len(noises) > 1 or any(len(some) > 1 for some in models.values()):
        return {
            worded(noise if len(noises) > 1 else None, model, len(models[noise]) > 1): once(
                [p for p in panels if (world_of(p)[1], model_of(p)) == (noise, model)]
            )
            for noise in noises
            for model in models[noise]
        }
    whole = once(panels)
    kinds = dict.fromkeys(scores.kind_of_task(panel.task) for panel in whole)
    if len(kinds) == 1:
        return {"all": whole}
    return {"all": whole} | {kind: [p for p in whole if scores.kind_of_task(p.task) == kind] for kind in kinds}


def worded(noise: float | None, model: str | None, several: bool) -> str:
    """The name of a group: its noise and its model, where other groups differ in them."""
    words = [] if noise is None else [f"disturb={noise:g}"]
    return ", ".join([*words, *([f"model={model}" if model else "no planner"] if several else [])])


def model_of(panel: Panel) -> str | None:
    """What the planners of a panel imagine with; None: it has none."""
    for run in panel.runs:
        if any(isinstance(row.get("planner"), str) and row["planner"] for row in run.members.rows()):
            return str(run.config.own["model"])
    return None


def once(panels: Sequence[Panel], protocol: str = "paper") -> list[Panel]:
    """Each world once: its panel under a protocol, with the longest curves, of the most members."""
    best: dict[tuple[str, float], Panel] = {}
    for panel in panels:
        world = world_of(panel)
        if world not in best or rank(panel, protocol) > rank(best[world], protocol):
            best[world] = panel
    return [panel for panel in panels if best[world_of(panel)] is panel]


def world_of(panel: Panel) -> tuple[str, float]:
    """The task, which may be named by its id, too, and the noise on its actions."""
    return scores.short(panel.task), panel.runs[0].config.disturb


def rank(panel: Panel, protocol: str) -> tuple[bool, int, int]:
    last = max((int(kind.steps[-1]) for kind in panel.kinds if len(kind.steps)), default=0)
    return panel.runs[0].config.protocol == protocol, last, sum(len(kind.returns) for kind in panel.kinds)


def scored(both: Sequence[Pair], measure: Measure = scores.score) -> Compared:
    """A measure of baseline and kind on each task, in units of the tasks' scales."""
    return scores.compared(curves_of(both), measure, [scores.scale_of(panel).value for panel, _, _ in both])


def total_of(name: str, panels: Sequence[Panel], label: str) -> Total | None:
    both = pairs(panels, label)
    if not both:
        return None
    itself = all(base is kind for _, base, kind in both)
    score, final = scored(both), scored(both, scores.final)
    learned = learned_by(both, score)
    ratio = None if itself else ratios(score, learned)
    beliefs = [
        (q - expected) / (scale.value / 1000 / (1 - kind.gamma))
        for panel, _, kind in both
        for scale, (q, expected) in [(scores.scale_of(panel), scores.values(panel, kind))]
        if scale.given and expected == expected  # episodes of 1000 steps, and Q of their rewards
    ]
    members = [kind for panel in panels for kind in panel.kinds if kind.label == label]

    def against(statistic: Statistic, found: Compared = score) -> Estimate | None:
        return None if itself else between(statistic, found)

    return Total(
        name,
        label,
        len(both),
        "" if itself else score.interval,
        None if itself else statistics.probability(score.base, score.other, score.paired),
        against(statistics.mean_difference),
        against(statistics.median_difference),
        against(statistics.iqm_difference),
        against(statistics.mean_difference, final),
        int(learned.sum()),
        *(ratio or (None, None)),
        None if itself else median_of_all(score),
        "; ".join(panel.title for (panel, _, _), there in zip(both, learned, strict=True) if not there),
        float(np.median(beliefs)) if beliefs else None,
        statistics.divergence_rate(sum(k.diverged for k in members), sum(len(k.returns) for k in members)),
    )


Pair = tuple[Panel, Curves, Curves]
"""A panel, its baseline and another kind."""


def pairs(panels: Sequence[Panel], label: str) -> list[Pair]:
    """The baseline and one kind, for the panels that have both; sorted: intervals do not depend on the runs' order."""
    kinds = [(panel, kind) for panel in sorted(panels, key=lambda p: p.title) if (kind := panel.kind(label))]
    return [(panel, base, kind) for panel, kind in kinds if (base := panel.base_of(kind)) and base.returns.size]


def curves_of(both: Sequence[Pair]) -> list[tuple[Curves, Curves]]:
    return [(base, kind) for _, base, kind in both]


def learned_by(both: Sequence[Pair], score: Compared) -> np.ndarray:
    """On which tasks a ratio has a meaning: some algorithm of the agent learned them, and the baseline's is not 0."""
    there = [scores.learned(panel, kind.agent) for panel, _, kind in both]
    return np.asarray(~statistics.is_nothing(score.base) & np.array(there, bool))


def median_of_all(score: Compared) -> Estimate | None:
    """The median of the paper's ratio over all tasks; None where the baseline is nothing on each of them.

    A ratio to nothing is infinite, or 0 where both are nothing. A median needs no more than its place among the others.
    """
    if statistics.is_nothing(score.base).all():
        return None
    return statistics.improvement(score.base, score.other, score.paired)


def ratios(score: Compared, learned: np.ndarray) -> tuple[Estimate | None, Estimate | None]:
    """Median and mean of the paper's ratio over the learned tasks (see `learned_by`); None: none is."""
    if not learned.any():
        return None, None
    base, other, paired = score.base[:, learned], score.other[:, learned], score.paired[learned]
    return statistics.improvement(base, other, paired), statistics.average_improvement(base, other, paired)
