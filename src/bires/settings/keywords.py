"""A configuration from keyword arguments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from bires.errors import UserError
from bires.settings import config as configs
from bires.settings.comparison import default_algorithm
from bires.settings.config import Config
from bires.settings.grid import MOST_MEMBERS
from bires.settings.values import proper, shown


def make_config(task: str, settings: Mapping[str, Any]) -> Config:
    """A configuration from keyword arguments: single values become tuples of one where several are allowed."""
    given = dict(settings)
    if isinstance(task, Iterable) and not isinstance(task, str):
        raise UserError(f"task was given {task!r}; accepted: one task, as text. For several: bires.train_each([…]).")
    if "algorithm" not in given and isinstance(task, str):
        given["algorithm"] = default_algorithm(task, given.get("env_kwargs"))
    if "seeds" in given:
        if "seed" in given:
            raise UserError("Both seeds and seed were given; seeds=5 is short for seed=range(5).")
        given["seed"] = seeds(given.pop("seeds"))
    common = {name: value for name, value in {"task": task, **given}.items() if name in configs.types()}
    own = {name: value for name, value in given.items() if name not in common}
    return Config(**{name: configs.settled(name, value) for name, value in common.items()}, own=own)


def seeds(count: int) -> tuple[int, ...]:
    if isinstance(count, Iterable):
        raise UserError(f"--seeds was given {count!r}; accepted: how many, as a whole number. Which ones: seed=….")
    count = proper("seeds", count, int)
    if not 1 <= count <= MOST_MEMBERS:
        given = shown(count)
        raise UserError(f"--seeds was given {given}; accepted: whole numbers from 1 to {MOST_MEMBERS}.")
    return tuple(range(count))


def changed(config: Config, **settings: Any) -> Config:
    """The configuration with some settings changed; if the agent changes, settings of the old agent are dropped."""
    given = {**configs.to_json(config), **settings}
    task = given.pop("task")
    bare = Config(task, **{name: configs.settled(name, given[name]) for name in ("algorithm", "planner")})
    known = {*configs.types(), *settings, *(one.name for one in bare.own_settings)}
    return make_config(task, {name: value for name, value in given.items() if name in known})
