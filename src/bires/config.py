"""What a run is: one frozen record, from which the command line is made and which the manifest keeps."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import product
from typing import Annotated, Any, Literal, NamedTuple

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
    planner: tuple[str, ...] = ()
    """Planners in place of the algorithms' own: see `bires list planners`."""
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
    model: Literal["oracle", "learned"] = "oracle"
    """What planners imagine with: the simulator itself, or networks trained beside the agent."""
    planning_steps: tuple[Whole, ...] = (1,)
    """P, the imagined updates that Dyna adds to every update; 0 is none."""
    planning_noise: tuple[float, ...] = (0.1,)
    """σ of the Gaussian noise on imagined actions."""
    planning_eta: tuple[float, ...] = (0.2,)
    """η of the imagined updates, in [0, 1]; rules without a forward term ignore it."""
    horizon: tuple[Whole, ...] = (3,)
    """k, the steps that MVE looks ahead."""
    mve_loss: Literal["paper", "original"] = "paper"
    """`original`: TD(k)'s, squared; `paper`: its appendix's, with a term for the real transition, Huber."""
    model_scale: Literal["paper", "small"] = "paper"
    """The learned model: `paper` needs an accelerator, `small` suits a CPU."""
    ensemble: Whole = 1
    """Learned models per member; they predict their mean, and their disagreement is logged."""


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
    planner: str | None = None
    """None: no planning; so are the numbers below that the planner does not use."""
    planning_steps: int | None = None
    planning_noise: float | None = None
    planning_eta: float | None = None
    horizon: int | None = None

    @property
    def label(self) -> str:
        """What figures and tables call this kind of member."""
        return label(self.algorithm, self.eta, self.planning_eta)


PLANNING_NUMBERS = ("planning_steps", "planning_noise", "horizon")
"""Numbers of planners that tell kinds of members apart beside η."""


def label(algorithm: str, *etas: float | None) -> str:
    """A kind of member: its algorithm and the η it has."""
    there = ", ".join(f"{eta:g}" for eta in etas if eta is not None and eta == eta)
    return f"{algorithm}({there})" if there else algorithm


GRID = ("gamma", "tau", "actor_lr", "critic_lr", "noise")
"""Fields whose values multiply the population, beside algorithm, rule, η and seed."""


def members(config: Config) -> list[Member]:
    """The grid of a configuration, seeds fastest; a rule without a forward term appears once for all η."""
    kinds = dict.fromkeys(kind for name in config.algorithm for kind in kinds_of(config, algorithms.get(name)))
    rows = product(kinds, *(getattr(config, name) for name in GRID), config.seed)
    return [
        Member(index, name, rule, eta, seed, **dict(zip(GRID, values, strict=True)), **planning._asdict())
        for index, (((name, rule, eta), planning), *values, seed) in enumerate(rows)
    ]


class Planning(NamedTuple):
    """A member's planner and the numbers it uses."""

    planner: str | None
    planning_steps: int | None = None
    planning_noise: float | None = None
    planning_eta: float | None = None
    horizon: int | None = None


class Kind(NamedTuple):
    """What distinguishes members beside the numbers of `GRID` and the seed."""

    critic: tuple[str, str, float | None]
    """Name, rule and η."""
    planning: Planning


def kinds_of(config: Config, algorithm: algorithms.Algorithm) -> Iterator[Kind]:
    """The kinds that one algorithm stands for; a number that a kind does not use does not split it."""
    from bires import rules

    for rule, planner in product(config.rule or (algorithm.rule,), config.planner or (algorithm.planner,)):
        if planner is not None and algorithms.planner(planner).kind == "mve" and rule != "td":
            raise UserError(
                f"--rule {rule} was given with planner {planner!r}, whose loss takes its place; use --rule td."
            )
        name = algorithms.named(algorithm.agent, rule, planner)
        etas = config.eta if rules.get(rule).bidirectional else (None,)
        for eta, planning in product(etas, plannings(config, planner)):
            yield Kind((name, rule, eta), planning)


def plannings(config: Config, planner: str | None) -> Iterator[Planning]:
    """A planner with every combination of the numbers it uses."""
    from bires import rules

    if planner is None:
        yield Planning(None)
        return
    record = algorithms.planner(planner)
    if record.rule is None:
        yield from (Planning(planner, horizon=k) for k in config.horizon)
        return
    etas = config.planning_eta if rules.get(record.rule).bidirectional else (None,)
    for steps, noise, eta in product(config.planning_steps, config.planning_noise, etas):
        yield Planning(planner, steps, noise, eta)


def validate(config: Config) -> None:
    """Refuses what cannot be meant, before anything is built."""
    from bires import rules

    for name in config.algorithm:
        algorithms.get(name)
    for name in config.rule:
        rules.get(name)
    for name in config.planner:
        algorithms.planner(name)
    require_finite(config)
    within("eta", config.eta, 0.0, 1.0, "0 is no forward term, 1 the full residual gradient; the paper uses 0.05")
    within("planning_eta", config.planning_eta, 0.0, 1.0, "the paper uses 0.2")
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
    for name, accepted in CHOICES.items():
        if getattr(config, name) not in accepted:
            raise UserError(f"{flag(name)} was given {getattr(config, name)!r}; accepted: {', '.join(accepted)}.")


CHOICES: dict[str, tuple[str, ...]] = {
    "protocol": ("modern", "paper"),
    "model": ("oracle", "learned"),
    "mve_loss": ("paper", "original"),
    "model_scale": ("paper", "small"),
}


def require_finite(config: Config) -> None:
    for field in fields(config):
        value = getattr(config, field.name)
        if isinstance(value, tuple) and not value and field.name not in ("rule", "planner"):
            raise UserError(f"{flag(field.name)} was given no value; give one or more.")
        for number in value if isinstance(value, tuple) else (value,):
            if isinstance(number, float) and not math.isfinite(number):
                raise UserError(f"{flag(field.name)} was given {number}; accepted: finite numbers.")


def require_counts(config: Config) -> None:
    for name in ("steps", "warmup", "eval_every", "eval_episodes", "batch", "replay", "log_every", "ensemble"):
        if getattr(config, name) < 1:
            raise UserError(f"{flag(name)} was given {getattr(config, name)}; accepted: whole numbers from 1.")
    if min(config.horizon) < 1:
        raise UserError(f"--horizon was given {min(config.horizon)}; accepted: whole numbers from 1.")
    for name in ("actor_lr", "critic_lr", "noise", "planning_steps", "planning_noise"):
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
