"""A search for settings."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Literal, Unpack

from bires.api.keywords import Settings, Whole, given, showing_settings
from bires.api.results import Run
from bires.api.spelling import as_typed
from bires.api.training import carried_out, make_options
from bires.errors import UserError
from bires.settings.keywords import make_config
from bires.settings.options import Cohorts, Options, Viewer
from bires.settings.searching import Search, searched
from bires.settings.tuning import ranges_of
from bires.settings.values import proper
from bires.training.callbacks import Callback

Limits = tuple[float, float] | tuple[float, float, Literal["log", "linear"]]


@showing_settings
@as_typed
def tune(
    task: str,
    *,
    ranges: Mapping[str, Limits] | None = None,
    trials: Whole = Search.trials,
    halvings: Whole = Search.halvings,
    search_seed: Whole = Search.search_seed,
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
    """Searches settings: trains all trials as one population, and stops the worse half of them again and again.

        run = bires.tune("walker-stand", algorithm="bi-res-ddpg", ranges={"critic_lr": (1e-4, 1e-2, "log")}, steps=2e5)
        run.trials()  # one row per trial, the best first
        bires.train(**run.best(), out="runs/best")  # the best, with other seeds

    ``ranges`` are settings that may vary inside a population, with the lowest and the highest value; ``"log"`` is for
    numbers of several magnitudes. ``trials`` are the draws from them, for each combination of ``settings`` that have
    several values. ``search_seed`` is the seed of the draws.

    ``halvings=3`` stops the worse half of the trials after 1/8, 1/4 and 1/2 of the steps, by their mean return; 0 stops
    none. ``settings`` and all other arguments are those of `train`; there are three seeds unless ``seeds`` or ``seed``
    is given.
    """
    asked = given(settings)
    for name, value in asked.items():
        if isinstance(value, tuple | list) and {"log", "linear"} & {one for one in value if isinstance(one, str)}:
            raise UserError(f"{name} was given {value!r}; a range is ranges={{{name!r}: {value!r}}}.")
    search = Search(
        ranges_of(ranges or {}),
        proper("trials", trials, int),
        proper("halvings", halvings, int),
        proper("search_seed", search_seed, int),
    )
    seeded = asked if "seed" in asked else {"seeds": 3, **asked}
    config = searched(make_config(task, seeded), search, asked)
    options = make_options(workers, cohorts, checkpoint_minutes, keep_going, keep_every, callback)
    return carried_out(config, out, options, quiet, log)
