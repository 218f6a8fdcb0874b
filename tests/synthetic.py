"""Run folders with invented curves, written by the code that training writes them with."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from bires.analysis.curves import collect
from bires.runs.folder import Folder
from bires.runs.run import Run
from bires.settings import grid
from bires.settings.config import Config
from bires.settings.grid import Member
from bires.settings.keywords import changed, make_config

PAIR = Config("walker-stand", algorithm=("ddpg", "bi-res-ddpg"), seed=(0, 1, 2), steps=400, warmup=10, eval_every=100)


def rising(member: Member, step: int, steps: int) -> float:
    """A curve that rises with the steps, faster with a forward term, by an amount that its seed decides."""
    luck = np.random.default_rng([member.seed, int(1000 * (member.eta or 0))]).normal(1.0, 0.2)
    return float(luck * (500.0 if member.eta is None else 500.0 + 800.0 * member.eta) * step / steps)


def make_run(
    path: Path,
    config: Config,
    curve: Callable[[Member, int, int], float] = rising,
    diverged: dict[int, int] | None = None,
    upto: int | None = None,
    without: tuple[int, ...] = (),
) -> Run:
    """A run of ``config`` up to a step: diverged members have no points after their step, some have none at all."""
    ends, last = diverged or {}, config.steps if upto is None else upto
    members = grid.members(config)
    path.mkdir(parents=True, exist_ok=True)
    folder = Folder(path)
    folder.create(config, members, {"platform": "cpu"})
    evaluations, metrics = folder.open(None, config.agent.metrics)
    with evaluations, metrics:
        for step in range(0, last + 1, config.eval_every):
            rows = []
            for member in members:
                if member.member in without or step >= ends.get(member.member, step + 1):
                    continue
                value = curve(member, step, config.steps)
                rows.append((member.member, step, 1, value, 0.0, value, value, 1000.0, 0.0, 0.0))
            evaluations.write(rows)
            metrics.write([(member.member, step, 1, 0.0, step, 0.5, 1.0, 0.1) for member in members])
    done = last >= config.steps
    folder.write_members(config, members, ends, end=done)
    if done:
        folder.finish()
    return Run(path)


def three_runs(folder: Path) -> list[Run]:
    """Runs of `PAIR` on three tasks; a member of the second diverges."""
    tasks = ("walker-stand", "walker-walk", "walker-run")
    ends = {"walker-walk": {4: 250}}
    return [make_run(folder / task, changed(PAIR, task=task), diverged=ends.get(task)) for task in tasks]


def panels_of(tmp_path, level, tasks=("walker-stand", "walker-walk"), seeds=5, **settings):
    """Panels in which a kind's curve rises at once from 100 by 100 times ``level(member)``, and a little luck."""
    given: dict[str, Any] = {
        "algorithm": ("ddpg", "bi-res-ddpg"),
        "steps": 40,
        "warmup": 1,
        "eval_every": 10,
    } | settings
    runs = [
        make_run(
            tmp_path / task,
            make_config(task, {"seed": tuple(range(seeds)), **given}),
            lambda member, step, steps: 100.0 + (step > 0) * (100.0 * level(member) + luck(member)),
        )
        for task in tasks
    ]
    return collect(runs)


def luck(member):
    return np.random.default_rng([member.seed, int(1000 * (member.eta or 0))]).normal(0.0, 2.0)
