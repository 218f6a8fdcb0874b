"""From a configuration to a search, and from one of its trials back to a configuration."""

from __future__ import annotations

import json
import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count, islice, product
from typing import Any

from bires.errors import UserError, unknown
from bires.settings import config as configs
from bires.settings import grid
from bires.settings.config import Config
from bires.settings.foreign import instead_of
from bires.settings.grid import MOST_MEMBERS, Member
from bires.settings.tuning import EXAMPLE, Range, Tuning, draw, rungs
from bires.settings.validation import BOUNDS, require_count, validate
from bires.settings.values import flag, several
from bires.types import Setting

FRESH_SEEDS = 5
"""How many seeds the best trial is to be trained with again."""


@dataclass(frozen=True)
class Search:
    """What a user says of a search, beside the configuration."""

    ranges: Mapping[str, Range]
    trials: int = 16
    """Draws from the ranges, for each combination of the lists."""
    halvings: int = 3
    """How often the worse half of the trials is stopped; 0: never."""
    search_seed: int = 0
    """The seed of the draws."""


@dataclass(frozen=True)
class Trial:
    """Members that differ by their seeds alone."""

    number: int
    members: tuple[Member, ...]

    @property
    def first(self) -> Member:
        return self.members[0]


def searched(config: Config, search: Search, given: Collection[str] = ()) -> Config:
    """The configuration of a search; ``given`` are the settings that were given as lists or single values."""
    require_count("trials", search.trials, MOST_MEMBERS)
    for name in ("halvings", "search_seed"):
        if getattr(search, name) < 0:
            raise UserError(f"{flag(name)} was given {getattr(search, name)}; accepted: whole numbers from 0.")
    kinds = {name: kind_of(config, name) for name in search.ranges}
    for name in search.ranges:
        if name in given:
            raise UserError(f"Both {flag(name)} and --range {name} were given; give a list or a range.")
    whole = {name for name, kind in kinds.items() if kind is int}
    for name, one in search.ranges.items():
        ends = (one.low, one.high)
        validate(grid.with_values(config, {name: tuple(map(round, ends)) if name in whole else ends}))
    drawn = draw(search.ranges, whole, search.trials, search.search_seed)
    all_of_them = grid.with_values(config, {name: tuple(dict.fromkeys(values)) for name, values in drawn.items()})
    stops = rungs(config.steps, config.warmup, config.eval_every, search.halvings)
    made = replace(all_of_them, tuning=Tuning(drawn, stops))
    validate(made)
    if len(trials_of(grid.members(made))) < 2:
        raise UserError(f"There is nothing to search: one combination was given. Give a range, such as {EXAMPLE}.")
    return made


def kind_of(config: Config, name: str) -> type:
    """The type of a setting that may be drawn, or a refusal."""
    own = {one.name: one for one in config.own_settings}
    if name in ("eta", "gamma"):
        return float
    if name in own and own[name].varies and own[name].type in (int, float):
        return own[name].type
    accepted = ", ".join(["eta", "gamma", *(one.name for one in own.values() if numeric(one))])
    if name in own or name in configs.types():
        raise UserError(
            f"--range was given {name}, which cannot vary within one program, or is not a number. Ranges are accepted "
            f"for: {accepted}. To compare values of {flag(name)}, train one run for each and see `bires report`."
        )
    if (advice := instead_of(name, accepted.split(", "))) is not None:
        raise UserError(advice)
    raise unknown("setting in --range", name, accepted.split(", "), "")


def numeric(setting: Setting) -> bool:
    return setting.varies and setting.type in (int, float)


def trials_of(members: Sequence[Member]) -> list[Trial]:
    """Members by trial, in their order."""
    found: dict[str, list[Member]] = {}
    for member in members:
        found.setdefault(repr(replace(member, member=0, seed=0)), []).append(member)
    return [Trial(number, tuple(mine)) for number, mine in enumerate(found.values())]


def varied(trials: Sequence[Trial]) -> list[str]:
    """The columns in which trials differ."""
    rows = [{**trial.first.row(), "member": 0, "seed": 0} for trial in trials]
    return [name for name in rows[0] if len({repr(row[name]) for row in rows}) > 1]


def alone(config: Config, trial: Trial) -> Config:
    """One trial as a configuration of its own, with seeds that the search did not have."""
    row = trial.first.row()
    values = {name: value for name, value in row.items() if value is not None and name in config.own}
    own = {**config.own, **{name: (value,) for name, value in values.items()}}
    eta = Config.eta if row["eta"] is None else (row["eta"],)
    for algorithm, rule, planner in product(config.algorithm, config.rule or (None,), config.planner or (None,)):
        one = replace(
            config,
            algorithm=(algorithm,),
            rule=() if rule is None else (rule,),
            planner=() if planner is None else (planner,),
            eta=eta,
            eta_end=single_value(config.eta_end, row.get("eta_end")),
            eta_until=single_value(config.eta_until, row.get("eta_until")),
            lr_end=single_value(config.lr_end, row.get("lr_end")),
            lr_until=single_value(config.lr_until, row.get("lr_until")),
            gamma=(row["gamma"],),
            own=single(config, own),
            seed=fresh_seeds(config.seed),
            tuning=None,
        )
        if replace(grid.members(one)[0], member=0, seed=0) == replace(trial.first, member=0, seed=0):
            return one
    raise AssertionError(f"no configuration has the trial {trial.first}")


def fresh_seeds(used: Sequence[int]) -> tuple[int, ...]:
    """Those that follow the largest that was used; behind the last seed there is comes 0."""
    following = (seed % (int(BOUNDS["seed"].high) + 1) for seed in count(max(used) + 1))
    return tuple(islice((seed for seed in following if seed not in used), FRESH_SEEDS))


def single_value(values: tuple[Any, ...], chosen: Any) -> tuple[Any, ...]:
    """The value that a trial has of a list; the first where the trial uses none."""
    return values[:1] if chosen is None else (chosen,)


def single(config: Config, own: Mapping[str, Any]) -> dict[str, Any]:
    """One value of each setting: of those that a trial does not use, the default."""
    known = {one.name: one for one in config.own_settings}
    return {
        name: configs.default_of(known[name], config.sight) if known[name].varies and len(value) > 1 else value
        for name, value in own.items()
    }


def command_of(config: Config) -> str:
    """The `bires train` that has this configuration: its settings that are not the defaults."""
    # The planner decides which settings there are; it is not a default itself.
    usual = configs.to_json(Config(config.task, algorithm=config.algorithm, planner=config.planner)) | {"planner": []}
    words = ["bires", "train", config.task, "--algorithm", *config.algorithm]
    for name, value in configs.to_json(config).items():
        if name not in ("task", "algorithm", "tuning") and value != usual.get(name):
            words += flag_words(name, value)
    return shlex.join(words)


def flag_words(name: str, value: Any) -> list[str]:
    """A setting as it is typed."""
    if isinstance(value, bool):
        return [flag(name) if value else flag(f"no_{name}")]
    if isinstance(value, Mapping):
        return [flag(name), json.dumps(value)]
    return [flag(name), *(f"{one:.10g}" if isinstance(one, float) else str(one) for one in several(value))]
