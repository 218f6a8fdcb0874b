"""Training: a new run, a comparison, more of an old run."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Literal, Unpack

from bires.analysis.live import logging
from bires.api.keywords import Names, Numbers, RunSettings, Settings, Whole, given, showing_settings
from bires.api.results import Run
from bires.api.spelling import as_typed, folder
from bires.errors import UserError
from bires.runs import run as reading
from bires.runs.trust import names_others
from bires.settings import config as configs
from bires.settings.comparison import compared, require_two
from bires.settings.config import Config
from bires.settings.keywords import make_config
from bires.settings.options import Cohorts, Options, Stopped, Viewer, require_every
from bires.settings.values import proper
from bires.studies.run import Following
from bires.training.callbacks import Callback, load_callback
from bires.training.display import Display
from bires.training.launch import lengthen
from bires.training.start import default_out, start


@as_typed
def train(
    task: str,
    *,
    algorithm: Names | None = None,
    rule: Names | None = None,
    planner: Names | None = None,
    eta: Numbers | None = None,
    eta_end: Numbers | None = None,
    eta_until: Numbers | None = None,
    seeds: Whole | None = None,
    seed: Numbers | None = None,
    gamma: Numbers | None = None,
    steps: Whole | None = None,
    warmup: Whole | None = None,
    eval_every: Whole | None = None,
    eval_episodes: Whole | None = None,
    batch: Whole | None = None,
    replay: Whole | None = None,
    update_every: Whole | None = None,
    update_times: Whole | None = None,
    hidden: Iterable[int] | int | None = None,
    lr_end: Numbers | None = None,
    lr_until: Numbers | None = None,
    protocol: Literal["modern", "paper"] | None = None,
    log_every: Whole | None = None,
    env_kwargs: Mapping[str, Any] | None = None,
    reward_scale: float | None = None,
    disturb: float | None = None,
    normalise_observations: bool | None = None,
    out: str | os.PathLike[str] | None = None,
    workers: int | None = None,
    cohorts: Cohorts = Options.cohorts,
    checkpoint_minutes: float = Options.checkpoint_minutes,
    keep_going: bool = False,
    keep_every: Whole | None = None,
    callback: Callback | str | None = None,
    log: Viewer | None = None,
    quiet: bool = False,
    **own: Any,
) -> Run:
    """Trains a population and returns its run; calling it again with the same ``out`` continues it.

        run = bires.train("walker-stand", algorithm=["ddpg", "bi-res-ddpg"], eta=0.05, seeds=5, steps=1e5, tau=5e-3)

    Arguments up to ``normalise_observations`` are the fields of `bires.settings.config.Config`; None is the default
    there. Several values of one make a grid, and every combination is a member. ``seeds=5`` is short for
    ``seed=range(5)``.

    ``own``: the settings of the agent, of planners and of the family of environments are keywords, too, such as
    ``tau=5e-3`` or ``model="learned"``. `bires list settings` names them; an agent of your own brings its own.

    ``out`` is the run's folder (default: runs/TASK-TIME). ``workers``, ``cohorts``, ``checkpoint_minutes``,
    ``keep_going`` and ``keep_every`` are those of `bires.settings.options.Options` and change no result; ``quiet``
    prints nothing.

    ``callback`` is called after each evaluation with a `bires.Evaluation`. It may return False to stop the run, or the
    numbers of members to stop. Stopped members are frozen; their status is ``stopped``. ``log="tensorboard"`` or
    ``"wandb"`` writes curves for these viewers while the run is under way.

    Ctrl-C, SIGTERM and SIGUSR1 stop the run at a step from which it can be continued, and raise `bires.Stopped`.
    """
    asked = locals()  # of the arguments above, those that `RunSettings` lists
    config = make_config(task, given({name: asked[name] for name in RunSettings.__annotations__} | own))
    options = make_options(workers, cohorts, checkpoint_minutes, keep_going, keep_every, callback)
    return carried_out(config, out, options, quiet, log)


@showing_settings
@as_typed
def compare(
    task: str,
    *,
    agent: str | None = None,
    out: str | os.PathLike[str] | None = None,
    workers: int | None = None,
    cohorts: Cohorts = Options.cohorts,
    checkpoint_minutes: float = Options.checkpoint_minutes,
    keep_going: bool = False,
    keep_every: Whole | None = None,
    callback: Callback | str | None = None,
    log: Viewer | None = None,
    quiet: bool = False,
    **settings: Unpack[Settings],
) -> Run:
    """`train` with an agent and its Bi-Res version on the same seeds (five, unless said otherwise).

        run = bires.compare("walker-stand", steps=1e5)
        run.summary()  # final returns, AUC, and the AUC improvement with its interval

    ``agent`` is ddpg, td3, sac, dqn or MODULE:NAME; without it, the first of these for the task's actions. ``settings``
    and all other arguments are those of `train`.
    """
    asked = given(settings)
    if "algorithm" not in asked:
        asked["algorithm"] = compared(task, agent, asked.get("env_kwargs"))
    elif agent is not None:
        raise UserError(
            "Both agent and algorithm were given; agent='td3' is short for algorithm=['td3', 'bi-res-td3']."
        )
    config = require_two(make_config(task, asked if "seed" in asked else {"seeds": 5, **asked}))
    options = make_options(workers, cohorts, checkpoint_minutes, keep_going, keep_every, callback)
    return carried_out(config, out, options, quiet, log)


@as_typed
def resume(
    path: str | os.PathLike[str],
    *,
    steps: Whole | None = None,
    workers: int | None = None,
    cohorts: Cohorts = Options.cohorts,
    checkpoint_minutes: float = Options.checkpoint_minutes,
    keep_going: bool = False,
    keep_every: Whole | None = None,
    callback: Callback | str | None = None,
    log: Viewer | None = None,
    quiet: bool = False,
    trust: bool = False,
) -> Run:
    """Continues a run (its folder, or a `Run`) exactly where its newest checkpoint left it.

    It ends where it was to end, or after ``steps`` in all, as if it had begun so; a `Run` that was given has them as
    its `config`, too. A ``callback`` is called for the evaluations that are still to come. ``trust``: modules of your
    own that the run names (MODULE:NAME) are imported, and text among its ``env_kwargs`` is used; it is not needed where
    this process has done so already.
    """
    where = folder("path", path)
    options = make_options(workers, cohorts, checkpoint_minutes, keep_going, keep_every, callback)
    if steps is not None:
        Following(log=log).require()
        lengthen(where, proper("steps", steps, int), options, trust)
        if isinstance(path, reading.Run):
            path.read_again(trust)
    return carried_out(reading.Run(where, trust).config, where, options, quiet, log)


def make_options(
    workers: int | None,
    cohorts: Cohorts,
    checkpoint_minutes: float,
    keep_going: bool,
    keep_every: Whole | None,
    callback: Callback | str | None,
) -> Options:
    """How a run is carried out, checked."""
    processes = None if workers is None else proper("workers", workers, int)
    if processes is not None and processes < 0:
        raise UserError(f"--workers was given {workers}; accepted: whole numbers from 0, or None to choose by size.")
    minutes = proper("checkpoint_minutes", checkpoint_minutes, float)
    called = load_callback(callback) if isinstance(callback, str) else callback
    if called is not None and not callable(called):
        raise UserError(f"--callback was given {callback!r}; accepted: a function of one argument, or MODULE:FUNCTION.")
    every = require_every(None if keep_every is None else proper("keep_every", keep_every, int))
    where = proper("cohorts", cohorts, Cohorts)
    return Options(processes, where, minutes, keep_going, keep_every=every, callback=called)


def carried_out(
    config: Config, out: str | os.PathLike[str] | None, options: Options, quiet: bool, log: str | None
) -> Run:
    """Trains, and returns the run; if it is stopped, the error says how to go on."""
    path = default_out(config.task) if out is None else folder("out", out)
    try:
        with logging(log) as live:
            return Run(start(config, path, replace(options, log=live), Display(quiet=quiet)).path)
    except Stopped as stopped:
        trust = ", trust=True" if names_others(configs.to_json(config)) else ""
        stopped.args = (f"{stopped}; continue with bires.resume({str(path)!r}{trust})",)
        raise
