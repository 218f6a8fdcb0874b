"""Successive halving: at some evaluations of a search the worse half of its trials is stopped.

Karnin, Koren & Somekh (2013); for hyper-parameters Jamieson & Talwalkar (2016). Each decision is a function of the
configuration and of evaluations.csv up to its step, so a resumed search decides as an undisturbed one.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from bires.runs.run import tail
from bires.runs.tables import Table
from bires.settings import grid
from bires.settings.config import Config
from bires.settings.searching import Trial, trials_of
from bires.training.callbacks import Callback, Evaluation


def halving(config: Config) -> Callback | None:
    """The callback of a search that stops trials; None for every other run."""
    if config.tuning is None or not config.tuning.rungs:
        return None
    rungs, trials = config.tuning.rungs, trials_of(grid.members(config))

    def worse_half(evaluation: Evaluation) -> list[int] | None:
        if evaluation.step not in rungs:
            return None
        left = [trial for trial in trials if any(one.member in evaluation.members for one in trial.members)]
        ranked = rank(left, evaluation.run.evaluations, evaluation.members)
        worse = ranked[(len(ranked) + 1) // 2 :]
        return [one.member for trial in worse for one in trial.members if one.member in evaluation.members]

    return worse_half


def rank(trials: Sequence[Trial], evaluations: Table, whole: Collection[int]) -> list[Trial]:
    """Trials from the best to the worst, by their mean return; those with a member that is not ``whole`` are last."""
    found = returns(evaluations)

    def place(trial: Trial) -> tuple[bool, float, int]:
        broken = any(one.member not in whole for one in trial.members)
        return broken, -mean([found.get(one.member, -np.inf) for one in trial.members]), trial.number

    return sorted(trials, key=place)


def mean(values: Sequence[float]) -> float:
    """Of returns; one that is not a number counts as the worst."""
    found = float(np.mean(values))
    return found if found == found else -np.inf


def returns(evaluations: Table) -> dict[int, float]:
    """Member → mean return of the last tenth of its evaluations."""
    members, values = evaluations["member"], evaluations["return_mean"]
    found = {int(member): values[members == member] for member in np.unique(members)}
    return {member: float(curve[tail(len(curve))].mean()) for member, curve in found.items()}
