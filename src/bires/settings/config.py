"""The configuration of a run: a frozen record. The command line is made from it, and the manifest keeps it.

Settings of all runs are fields of `Config`. Those of its agent, of planners and of its family of environments are
records of their own (`bires.types.Setting`); their values are in `Config.own`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from functools import cache
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import tyro

from bires.agents import registry
from bires.agents.base import AgentSpec
from bires.envs.families import family_of, settings_of
from bires.envs.tasks import known_as
from bires.errors import UserError, unknown
from bires.planning import registry as planners
from bires.settings import tuning as tunings
from bires.settings.arguments import Arguments, arguments
from bires.settings.foreign import FURTHER, instead_of
from bires.settings.tuning import Tuning
from bires.settings.values import (
    BY_AGENT,
    VALUES_BY_AGENT,
    Number,
    Omitted,
    OmittedValues,
    Whole,
    flag,
    proper,
    require_one,
    settled_own,
    several,
)
from bires.types import Setting, Sight


@dataclass(frozen=True)
class Config:
    """A population on one task. Several values in a tuple make a grid; every combination is a member.

    Numbers are the paper's and its authors' code's (see docs/paper.md).
    """

    task: Annotated[str, tyro.conf.arg(metavar="TASK"), tyro.conf.Positional]
    """A Gymnasium id, a short name (`walker-stand`), or MODULE:ID of your own; several for `train` and `compare`."""
    algorithm: tuple[str, ...] = ("bi-res-ddpg",)
    """See `bires list algorithms`; MODULE:NAME of your own."""
    rule: tuple[str, ...] = ()
    """Critic rules in place of the algorithms' own: see `bires list rules`."""
    planner: tuple[str, ...] = ()
    """Planners in place of the algorithms' own: see `bires list planners`; `none`: without one."""
    eta: tuple[float, ...] = (0.05,)
    """η, the weight of the forward term, in [0, 1]; rules without that term ignore it."""
    eta_end: tuple[float, ...] = ()
    """η from step `eta_until` on: it moves there in a line from its first value; not given: it stays."""
    eta_until: tuple[Whole, ...] = ()
    """The step at which η reaches `eta_end`."""
    seed: tuple[Whole, ...] = (0,)
    """Seeds of the members."""
    gamma: tuple[float, ...] = (0.99,)
    """γ, the discount."""
    steps: Whole = BY_AGENT
    """Environment steps of every member."""
    warmup: Whole = BY_AGENT
    """First steps, with random actions and without updates."""
    eval_every: Whole = BY_AGENT
    """Steps between evaluations; the first evaluation is before the first step."""
    eval_episodes: Whole = 20
    """Noise-free episodes of an evaluation."""
    batch: Whole = BY_AGENT
    """Transitions in the batch of an update."""
    replay: Whole = BY_AGENT
    """Transitions that the replay of each member holds."""
    update_every: Whole = BY_AGENT
    """Environment steps from one update to the next."""
    update_times: Whole = 1
    """Updates made each time, every one on a batch of its own: 4 is a replay ratio of 4."""
    hidden: tuple[Whole, ...] = VALUES_BY_AGENT
    """Hidden layers of the networks (after the convolutions, for pixels)."""
    lr_end: tuple[float, ...] = ()
    """The share of every learning rate from step `lr_until` on: it falls there in a line; not given: they stay."""
    lr_until: tuple[Whole, ...] = ()
    """The step at which learning rates reach `lr_end`."""
    protocol: Literal["modern", "paper"] = "modern"
    """`modern` bootstraps through time limits and scales actions; `paper` does neither, as its code did."""
    disturb: Number = 0.0
    """σ of Gaussian noise that the environment adds to every continuous action: a stochastic world; 0: none."""
    log_every: Whole = 1_000
    """Steps between rows of metrics.csv."""
    env_kwargs: Arguments = field(default_factory=dict)
    """Arguments of the environment's constructor, as JSON: '{"gravity": 9.8}'."""
    reward_scale: Number = 1.0
    """What learners see of a reward is this times it; returns and values are reported without it."""
    normalise_observations: bool = False
    """Whether each member sees observations in units of their running mean and standard deviation."""
    own: Annotated[Mapping[str, Any], tyro.conf.Fixed, tyro.conf.Suppress] = field(default_factory=dict)
    """Settings of the agent, of planners and of the family of environments, by name; a tuple where several may be."""
    tuning: Annotated[Tuning | None, tyro.conf.Fixed, tyro.conf.Suppress] = None
    """What `bires tune` drew, and when it stops trials; None in a run that is not a search."""

    def __post_init__(self) -> None:
        """Fills in what was not given, so that a configuration, and the manifest, are always complete."""
        object.__setattr__(self, "task", known_as(self.task) if isinstance(self.task, str) else self.task)
        omitted = [f.name for f in fields(self) if isinstance(getattr(self, f.name), Omitted | OmittedValues)]
        defaults = dict(self.agent.run.get(self.sight) or next(iter(self.agent.run.values())))
        defaults |= family.defaults if (family := family_of(self.task)) else {}
        for name in omitted:
            object.__setattr__(self, name, defaults[name])
        if "eval_every" in omitted and self.eval_every > self.steps > 0:  # a short run is evaluated at its end
            object.__setattr__(self, "eval_every", self.steps)
        known = {setting.name: setting for setting in self.own_settings}
        own = {name: settled_own(known[name], value) for name, value in self.own.items() if name in known}
        refuse_foreign(self, [name for name in self.own if name not in known])
        missing = {name: default_of(one, self.sight) for name, one in known.items() if name not in own}
        object.__setattr__(self, "own", {name: (own | missing)[name] for name in known})

    @property
    def agent(self) -> AgentSpec:
        """The one agent of all algorithms."""
        return registry.agent_of(self.algorithm)

    @property
    def sight(self) -> Sight:
        """The kind of observation of its task."""
        return "vector" if family_of(self.task) is None else "pixels"

    @property
    def own_settings(self) -> tuple[Setting, ...]:
        """The settings whose values are in `own`."""
        family = family_of(self.task)
        return (*self.agent_settings, *self.planner_settings, *(family.settings if family else ()))

    @property
    def agent_settings(self) -> tuple[Setting, ...]:
        """The agent's settings, with the defaults of the task's family."""
        return settings_of(self.agent.settings, family_of(self.task))

    @property
    def planner_settings(self) -> tuple[Setting, ...]:
        """The settings of planning, with those of planners of the user's own."""
        named: tuple[str | None, ...] = self.planner
        named = named or tuple(registry.algorithm(name).planner for name in self.algorithm)
        return planners.settings_of(named)

    @property
    def planned(self) -> tuple[str, ...]:
        """The settings of planning that may vary inside a population."""
        return tuple(one.name for one in self.planner_settings if one.varies)


def default_of(setting: Setting, sight: Sight) -> Any:
    value = setting.default_for(sight)
    return (value,) if setting.varies else value


def refuse_foreign(config: Config, names: Iterable[str]) -> None:
    """Refuses settings of another agent or family, and unknown ones."""
    agent = config.agent
    for name in names:
        mine = ", ".join(flag(one.name) for one in agent.settings)
        others = registry.owner_of(name)
        if others:
            owners = ", ".join(registry.AGENTS[other].title for other in others)
            raise UserError(
                f"{flag(name)} is not a setting of {agent.title}; it belongs to {owners}. {agent.title} has: {mine}."
            )
        if name in family_settings():
            raise UserError(
                f"{flag(name)} is a setting of {family_settings()[name]}; {config.task!r} does not belong to it."
            )
        known = [*types(), *(one.name for one in config.own_settings)]
        if (advice := instead_of(name, known)) is not None:
            raise UserError(advice)
        raise unknown("setting", name, [*known, *FURTHER], "")


def family_settings() -> dict[str, str]:
    """The settings of all families, with the family's name."""
    from bires.envs.families import FAMILIES

    owners: dict[str, str] = {}
    for family in FAMILIES.values():
        for one in family.settings:
            owners[one.name] = f"{owners[one.name]} and {family.name}" if one.name in owners else family.name
    return owners


def to_json(config: Config) -> dict[str, Any]:
    """The configuration as plain data: all settings side by side."""
    data = asdict(config)
    flat = {**{name: value for name, value in data.items() if name not in ("own", "tuning")}, **data["own"]}
    plain = {name: list(value) if isinstance(value, tuple) else value for name, value in flat.items()}
    return plain if config.tuning is None else plain | {"tuning": tunings.to_json(config.tuning)}


def from_json(data: dict[str, Any]) -> Config:
    """The configuration of a manifest. Settings that its agent does not have (in older manifests) are skipped."""
    common = {name: settled(name, value) for name, value in data.items() if name in types()}
    bare = Config(**{name: common[name] for name in ("task", "algorithm", "planner") if name in common})
    known = {setting.name for setting in bare.own_settings}
    own = {name: value for name, value in data.items() if name in known}
    return Config(**common, own=own, tuning=tunings.from_json(data.get("tuning")))


@cache
def types() -> dict[str, Any]:
    """The type of every setting of `Config`."""
    return {name: kind for name, kind in get_type_hints(Config).items() if name not in ("own", "tuning")}


def settled(name: str, value: Any) -> Any:
    """A value as `Config` stores it: of a built-in type, in a tuple where several values are allowed."""
    kind = types()[name]
    if name == "env_kwargs":
        return arguments(value)
    if get_origin(kind) is not tuple:
        require_one(name, value)
        return proper(name, value, kind)
    return tuple(proper(name, one, get_args(kind)[0]) for one in several(value))


def difference(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """One line for each value in which two configurations differ."""
    return [
        f"{flag(key)}: {old.get(key)} there, {new.get(key)} now"
        for key in sorted(old.keys() | new.keys())
        if old.get(key) != new.get(key)
    ]
