"""The library's front door: the same things the command line does, as functions."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from bires.errors import UserError
from bires.runs.checkpoint import Store
from bires.runs.folder import Folder
from bires.runs.lock import Lock
from bires.runs.run import Run
from bires.settings.comparison import compared
from bires.settings.keywords import make_config
from bires.settings.options import Cohorts, Options
from bires.training.display import Display
from bires.training.launch import newest
from bires.training.plan import make_plan
from bires.training.start import start


def train(
    task: str,
    *,
    out: str | os.PathLike[str] | None = None,
    workers: int | None = None,
    cohorts: Cohorts = Options.cohorts,
    checkpoint_minutes: float = Options.checkpoint_minutes,
    keep_going: bool = False,
    quiet: bool = False,
    **settings: Any,
) -> Run:
    """Trains a population and returns its run; calling it again with the same ``out`` continues it.

    ``workers``, ``cohorts``, ``checkpoint_minutes`` and ``keep_going`` are those of `bires.settings.options.Options`.
    Settings are the fields of `bires.settings.config.Config`; one value or several of each, e.g.
    ``algorithm=["ddpg", "bi-res-ddpg"], eta=0.05``. ``seeds=5`` is short for ``seed=range(5)``.
    """
    options = Options(workers, cohorts, checkpoint_minutes, keep_going)
    return start(make_config(task, settings), out, options, Display(quiet=quiet))


def compare(task: str, *, agent: str | None = None, **settings: Any) -> Run:
    """`train` with an agent and its Bi-Res version on the same seeds (five, unless said otherwise).

    ``agent`` is ddpg, td3, sac, dqn or MODULE:NAME; without it, the first of these for the task's actions.
    """
    if "algorithm" not in settings:
        settings["algorithm"] = compared(task, agent)
    elif agent is not None:
        raise UserError(
            "Both agent and algorithm were given; agent='td3' is short for algorithm=('td3', 'bi-res-td3')."
        )
    if "seed" not in settings:
        settings.setdefault("seeds", 5)
    return train(task, **settings)


def resume(
    path: str | os.PathLike[str],
    *,
    steps: int | None = None,
    workers: int | None = None,
    cohorts: Cohorts = Options.cohorts,
    checkpoint_minutes: float = Options.checkpoint_minutes,
    keep_going: bool = False,
    quiet: bool = False,
) -> Run:
    """Continues a run exactly where its newest checkpoint left it, to its end or to more ``steps`` than it had."""
    if steps is not None:
        lengthen(Path(path), steps)
    options = Options(workers, cohorts, checkpoint_minutes, keep_going)
    return start(Run(path).config, path, options, Display(quiet=quiet))


def lengthen(path: Path, steps: int) -> None:
    """Sets the length of a run to ``steps``; `resume` then trains the missing steps, as if it had begun so."""
    run = Run(path)
    run.require_resumable()
    if steps < run.config.steps:
        raise UserError(
            f"--steps was given {steps}; {path} is a run of {run.config.steps} steps. Accepted: that many or more."
        )
    if not Store(path).steps():
        raise UserError(
            f"{path} has no checkpoint to continue from; nothing was changed. Train anew, with another --out."
        )
    if steps > run.config.steps:
        plan = make_plan(replace(run.config, steps=steps), Options(workers=0))
        with Lock(path, Options.patience):
            newest(plan, Folder(path))  # or it cannot go on, and is left as it is
            Folder(path).lengthen(steps, plan.members)
