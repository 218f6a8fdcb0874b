"""What a run is: one frozen record, from which the command line is made and which the manifest keeps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from itertools import product
from typing import Annotated, Any, Literal

import tyro

from bires import algorithms
from bires.errors import UserError


def whole(text: str) -> int:
    """A whole number, which may be written 1e6."""
    number = float(text)
    if not number.is_integer():
        raise ValueError(f"{text} is no whole number")
    return int(number)


Whole = Annotated[
    int,
    tyro.constructors.PrimitiveConstructorSpec(
        nargs=1,
        metavar="INT",
        instance_from_str=lambda words: whole(words[0]),
        is_instance=lambda value: isinstance(value, int),
        str_from_instance=lambda value: [str(value)],
    ),
]


@dataclass(frozen=True)
class Config:
    """A population on one task. Several values in a tuple make a grid; every combination is a member.

    Numbers are the paper's and its authors' code's (see docs/paper.md).
    """

    task: tyro.conf.Positional[str]
    """A Gymnasium id (`dm_control/walker-stand-v0`), a short name (`walker-stand`), or MODULE:ID of your own."""
    algorithm: tuple[str, ...] = ("bi-res-ddpg",)
    """See `bires list algorithms`."""
    rule: tuple[str, ...] = ()
    """Critic rules in place of the algorithms' own: see `bires list rules`."""
    eta: tuple[float, ...] = (0.05,)
    """η, the weight of the forward term, in [0, 1]; rules without that term ignore it."""
    seed: tuple[Whole, ...] = (0,)
    """The members' seeds."""
    gamma: tuple[float, ...] = (0.99,)
    """γ, the discount."""
    tau: tuple[float, ...] = (1e-3,)
    """τ, how much of the online network the target network takes in at each update."""
    actor_lr: tuple[float, ...] = (1e-4,)
    """Adam's learning rate for the actor."""
    critic_lr: tuple[float, ...] = (1e-3,)
    """Adam's learning rate for the critic."""
    noise: tuple[float, ...] = (0.2,)
    """σ of the Ornstein–Uhlenbeck exploration noise."""
    steps: Whole = 1_000_000
    """Environment steps of every member."""
    warmup: Whole = 10_000
    """First steps, with uniformly random actions and no update."""
    eval_every: Whole = 10_000
    """Steps between evaluations; there is one before the first step, too."""
    eval_episodes: Whole = 20
    """Noise-free episodes of an evaluation."""
    batch: Whole = 64
    """Transitions of an update."""
    replay: Whole = 1_000_000
    """Transitions each member remembers."""
    hidden: tuple[Whole, ...] = (400, 300)
    """Hidden layers of actor and critic."""
    protocol: Literal["modern", "paper"] = "modern"
    """`modern` bootstraps through time limits and scales actions; `paper` does neither, as its code did."""
    log_every: Whole = 1_000
    """Steps between rows of metrics.csv."""


@dataclass(frozen=True)
class Member:
    """One agent of a population."""

    member: int
    algorithm: str
    rule: str
    eta: float | None
    """None where the rule has no forward term."""
    seed: int
    gamma: float
    tau: float
    actor_lr: float
    critic_lr: float
    noise: float

    @property
    def label(self) -> str:
        """What figures and tables call this kind of member."""
        return self.algorithm if self.eta is None else f"{self.algorithm}({self.eta:g})"


GRID = ("gamma", "tau", "actor_lr", "critic_lr", "noise")
"""Fields whose values multiply the population, beside algorithm, rule, η and seed."""


def members(config: Config) -> list[Member]:
    """The grid of a configuration, seeds fastest; a rule without a forward term appears once for all η."""
    from bires import rules

    kinds: dict[tuple[str, str, float | None], None] = {}
    for name in config.algorithm:
        algorithm = algorithms.get(name)
        for rule in config.rule or (algorithm.rule,):
            label = algorithms.named(algorithm.agent, rule, algorithm.planner)
            for eta in config.eta if rules.get(rule).bidirectional else (None,):
                kinds[label, rule, eta] = None
    rows = product(kinds, *(getattr(config, name) for name in GRID), config.seed)
    return [
        Member(index, kind[0], kind[1], kind[2], seed, **dict(zip(GRID, values, strict=True)))
        for index, (kind, *values, seed) in enumerate(rows)
    ]


def validate(config: Config) -> None:
    """Refuses what cannot be meant, before anything is built."""
    from bires import rules

    for name in config.algorithm:
        algorithms.get(name)
    for name in config.rule:
        rules.get(name)
    require_finite(config)
    within("eta", config.eta, 0.0, 1.0, "0 is no forward term, 1 the full residual gradient; the paper uses 0.05")
    within("gamma", config.gamma, 0.0, 1.0, "the paper uses 0.99")
    within("tau", config.tau, 0.0, 1.0, "the paper uses 1e-3")
    require_counts(config)
    if len(config.hidden) < 2 or min(config.hidden) < 1:
        raise UserError(
            f"--hidden was given {list(config.hidden)}; accepted: two or more layer sizes, as the action enters at "
            "the second layer. The paper uses --hidden 400 300."
        )
    if min(config.seed) < 0 or max(config.seed) >= 2**32:
        raise UserError(f"--seed was given {list(config.seed)}; accepted: whole numbers from 0 to 2**32 - 1.")
    if len(set(config.seed)) < len(config.seed):
        raise UserError(f"--seed was given {list(config.seed)}, some of them twice; equal seeds are equal members.")
    if config.warmup >= config.steps:
        raise UserError(
            f"--warmup {config.warmup} leaves nothing to learn in --steps {config.steps}. "
            f"Give more steps, or a shorter warm-up such as --warmup {max(1, config.steps // 10)}."
        )
    if config.protocol not in ("modern", "paper"):
        raise UserError(f"--protocol was given {config.protocol!r}; accepted: modern, paper.")


def require_finite(config: Config) -> None:
    for field in fields(config):
        value = getattr(config, field.name)
        if isinstance(value, tuple) and not value and field.name != "rule":
            raise UserError(f"{flag(field.name)} was given no value; give one or more.")
        for number in value if isinstance(value, tuple) else (value,):
            if isinstance(number, float) and not math.isfinite(number):
                raise UserError(f"{flag(field.name)} was given {number}; accepted: finite numbers.")


def require_counts(config: Config) -> None:
    for name in ("steps", "warmup", "eval_every", "eval_episodes", "batch", "replay", "log_every"):
        if getattr(config, name) < 1:
            raise UserError(f"{flag(name)} was given {getattr(config, name)}; accepted: whole numbers from 1.")
    for name in ("actor_lr", "critic_lr", "noise"):
        if min(getattr(config, name)) < 0:
            raise UserError(f"{flag(name)} was given {min(getattr(config, name))}; accepted: numbers from 0.")


def within(name: str, values: Sequence[float], low: float, high: float, hint: str) -> None:
    for value in values:
        if not low <= value <= high:
            raise UserError(f"{flag(name)} was given {value:g}; accepted: numbers from {low:g} to {high:g} ({hint}).")


def flag(name: str) -> str:
    """A field as the command line spells it."""
    return "--" + name.replace("_", "-")


def to_json(config: Config) -> dict[str, Any]:
    """The configuration as plain data."""
    return {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(config).items()}


def from_json(data: dict[str, Any]) -> Config:
    """The configuration a manifest keeps."""
    known = {field.name for field in fields(Config)}
    values: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in data.items() if k in known}
    return Config(**values)


def difference(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """One line for each value in which two configurations differ."""
    return [
        f"{flag(key)}: {old.get(key)} there, {new.get(key)} now"
        for key in sorted(old.keys() | new.keys())
        if old.get(key) != new.get(key)
    ]
