"""What a run is: one frozen record, from which the command line is made and which the manifest keeps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, fields
from functools import cache
from itertools import product
from numbers import Real
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

import tyro

from bires.errors import UserError
from bires.settings import algorithms, defaults
from bires.settings.defaults import BY_AGENT, VALUES_BY_AGENT, Omitted, OmittedValues


def whole(text: str) -> int:
    """A whole number, which may be written 1e6."""
    number = float(text)
    if not number.is_integer():
        raise ValueError(f"{text} is no whole number")
    return int(number)


def number_type(parse: Callable[[str], Any], metavar: str) -> Any:
    """How the command line reads a number, and shows one that was left out."""
    return tyro.constructors.PrimitiveConstructorSpec(
        nargs=1,
        metavar=metavar,
        instance_from_str=lambda words: parse(words[0]),
        is_instance=lambda value: isinstance(value, int | float),
        str_from_instance=lambda value: ["by agent" if value is BY_AGENT else str(value)],
    )


Whole = Annotated[int, number_type(whole, "INT")]
Number = Annotated[float, number_type(float, "FLOAT")]


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
    tau: tuple[float, ...] = VALUES_BY_AGENT
    """τ, how much of the online networks DDPG's target networks take in at each update."""
    actor_lr: tuple[float, ...] = VALUES_BY_AGENT
    """Learning rate of DDPG's actor."""
    critic_lr: tuple[float, ...] = VALUES_BY_AGENT
    """Learning rate of the critic; DQN's only one."""
    noise: tuple[float, ...] = VALUES_BY_AGENT
    """σ of DDPG's Ornstein–Uhlenbeck exploration noise."""
    epsilon_start: tuple[float, ...] = VALUES_BY_AGENT
    """DQN's share of random actions after the warm-up …"""
    epsilon_end: tuple[float, ...] = VALUES_BY_AGENT
    """… which falls linearly to this one …"""
    epsilon_steps: tuple[Number, ...] = VALUES_BY_AGENT
    """… in this many steps."""
    target_every: tuple[Number, ...] = VALUES_BY_AGENT
    """Updates between copies of DQN's network to its target network."""
    steps: Whole = BY_AGENT
    """Environment steps of every member."""
    warmup: Whole = BY_AGENT
    """First steps, with uniformly random actions and no update."""
    eval_every: Whole = BY_AGENT
    """Steps between evaluations; there is one before the first step, too."""
    eval_episodes: Whole = 20
    """Noise-free episodes of an evaluation."""
    batch: Whole = BY_AGENT
    """Transitions of an update."""
    replay: Whole = BY_AGENT
    """Transitions each member remembers."""
    update_every: Whole = BY_AGENT
    """Environment steps from one update to the next."""
    hidden: tuple[Whole, ...] = VALUES_BY_AGENT
    """Hidden layers of the networks (behind the convolutions, where there are pixels)."""
    optimiser: Literal["by-agent", "adam", "rmsprop"] = "by-agent"
    """DQN's optimiser: `adam`, or `rmsprop` (centred, as in the authors' code for Atari)."""
    max_grad_norm: Number = BY_AGENT
    """DQN's gradients are scaled down to this norm; 0: never."""
    double_q: bool = False
    """Double DQN: the online network chooses the action that the target network values."""
    sticky: float = -1.0
    """Atari: the probability that the emulator repeats the last action instead; -1: as the id says (v5 0.25, v4 0)."""
    full_actions: bool = False
    """Atari: all 18 actions, also those without effect in the game."""
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

    def __post_init__(self) -> None:
        """Fills in what was left out: a configuration is always whole, and so is what the manifest keeps."""
        given = {f.name: getattr(self, f.name) for f in fields(self)}
        omitted = [n for n, v in given.items() if isinstance(v, Omitted | OmittedValues) or v == "by-agent"]
        settings = defaults.settings_for(self.task, self.algorithm) if omitted else {}
        for name in omitted:
            object.__setattr__(self, name, settings.get(name, ()))
        if "eval_every" in omitted and self.eval_every > self.steps > 0:  # a short run is evaluated at its end
            object.__setattr__(self, "eval_every", self.steps)

    @property
    def agent(self) -> str:
        """The one agent of all algorithms."""
        return defaults.agent_of(self.algorithm)


@dataclass(frozen=True)
class Member:
    """One agent of a population. What its agent does not have, or its rule does not read, is None."""

    member: int
    algorithm: str
    rule: str
    eta: float | None
    seed: int
    gamma: float
    tau: float | None
    actor_lr: float | None
    critic_lr: float
    noise: float | None
    epsilon_start: float | None = None
    epsilon_end: float | None = None
    epsilon_steps: float | None = None
    target_every: float | None = None
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


GRID = (
    "gamma",
    "tau",
    "actor_lr",
    "critic_lr",
    "noise",
    "epsilon_start",
    "epsilon_end",
    "epsilon_steps",
    "target_every",
)
"""Fields whose values multiply the population, beside algorithm, rule, η and seed."""


def members(config: Config) -> list[Member]:
    """The grid of a configuration, seeds fastest; a rule without a forward term appears once for all η."""
    kinds = dict.fromkeys(kind for name in config.algorithm for kind in kinds_of(config, algorithms.get(name)))
    rows = product(kinds, *(getattr(config, name) or (None,) for name in GRID), config.seed)
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


def flag(name: str) -> str:
    """A field as the command line spells it."""
    return "--" + name.replace("_", "-")


def to_json(config: Config) -> dict[str, Any]:
    """The configuration as plain data."""
    return {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(config).items()}


def from_json(data: dict[str, Any]) -> Config:
    """The configuration a manifest keeps."""
    return Config(**{name: settled(name, value) for name, value in data.items() if name in types()})


@cache
def types() -> dict[str, Any]:
    """The type of every setting."""
    return get_type_hints(Config)


def settled(name: str, value: Any) -> Any:
    """A setting as `Config` has it: of Python's own types, and a tuple where several values are allowed."""
    kind = types()[name]
    if get_origin(kind) is not tuple:
        return proper(name, value, kind)
    several = value if isinstance(value, Iterable) and not isinstance(value, str) else (value,)
    return tuple(proper(name, one, get_args(kind)[0]) for one in several)


def proper(name: str, value: Any, kind: Any) -> Any:
    """One value: whole numbers may be 1e6, and numbers NumPy's."""
    number = isinstance(value, Real) and not isinstance(value, bool)
    if number and (kind is float or (kind is int and float(value).is_integer())):
        return kind(value)
    accepted = {int: "whole numbers", float: "numbers", bool: "True or False", str: "text"}
    if get_origin(kind) is Literal:
        if value not in get_args(kind):
            raise UserError(f"{flag(name)} was given {value!r}; accepted: {', '.join(get_args(kind))}.")
        return value
    if isinstance(value, kind) and not number:
        return value
    raise UserError(f"{flag(name)} was given {value!r}; accepted: {accepted[kind]}.")


def difference(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """One line for each value in which two configurations differ."""
    return [
        f"{flag(key)}: {old.get(key)} there, {new.get(key)} now"
        for key in sorted(old.keys() | new.keys())
        if old.get(key) != new.get(key)
    ]
