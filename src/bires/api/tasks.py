"""Several tasks: a run for each, several at the same time."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Unpack

from bires.api.keywords import Settings, Whole, given, showing_settings
from bires.api.results import Run
from bires.api.spelling import as_typed, folder
from bires.api.training import make_options
from bires.errors import UserError
from bires.settings.keywords import make_config
from bires.settings.options import Cohorts, Options, Stopped, Viewer
from bires.studies import several
from bires.studies.run import Following
from bires.studies.together import at_once as so_many
from bires.training.display import Display


@showing_settings
@as_typed
def train_each(
    tasks: Iterable[str],
    *,
    at_once: int | None = None,
    minutes: float | None = None,
    out: str | os.PathLike[str] | None = None,
    workers: int | None = None,
    cohorts: Cohorts = Options.cohorts,
    checkpoint_minutes: float = Options.checkpoint_minutes,
    keep_going: bool = False,
    keep_every: Whole | None = None,
    callback: str | None = None,
    log: Viewer | None = None,
    quiet: bool = False,
    **settings: Unpack[Settings],
) -> list[Run]:
    """`train` on several tasks with the same settings: a run for each, in folders under ``out``.

        runs = bires.train_each(["walker-walk", "cheetah-run"], algorithm=["ddpg", "bi-res-ddpg"], seeds=5, steps=1e5)
        bires.report(runs).totals  # what all tasks say together

    ``at_once`` of them are trained at the same time, each in a process of its own with its share of the cores (default:
    as many as fill the machine), for at most so many ``minutes``. Called again with the same ``out``, it goes on where
    it was stopped. One that cannot run does not stop the others.

    All other arguments are those of `train`. A ``callback`` is MODULE:FUNCTION, as it is called in other processes.
    Accelerators are left to these processes: this one uses the CPU from then on.
    """
    names = list(tasks) if isinstance(tasks, Iterable) and not isinstance(tasks, str) else [None]
    if not all(isinstance(one, str) for one in names):
        raise UserError(f"tasks was given {tasks!r}; accepted: names of tasks, such as ['walker-walk', 'cheetah-run'].")
    if callback is not None and not isinstance(callback, str):
        raise UserError(
            f"--callback was given {callback!r}; it is called in other processes. Accepted: MODULE:FUNCTION."
        )
    kept = {name: list(value) if isinstance(value, Iterator) else value for name, value in given(settings).items()}
    configs = [make_config(str(task), kept) for task in names]
    if not configs:
        raise UserError("tasks was given no name; give one or more.")
    options = make_options(workers, cohorts, checkpoint_minutes, keep_going, keep_every, None)
    way, where = so_many(at_once, minutes, Following(callback, log)), out or several.default_out(configs)
    try:
        outcome = several.train_each(configs, folder("out", where), options, Display(quiet=quiet), way)
    except Stopped as stopped:
        stopped.args = (f"{stopped}; the same call with out={str(where)!r} goes on",)
        raise
    several.require_all(outcome)
    return [Run(run.path) for run in outcome.runs]
