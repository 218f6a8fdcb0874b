"""The members of a configuration: every combination of what has several values."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any, NamedTuple

from bires import rules
from bires.agents import registry
from bires.agents.base import Algorithm
from bires.errors import UserError
from bires.planning import registry as planners
from bires.planning.base import PlannerSpec
from bires.settings.config import Config
from bires.settings.values import flag


@dataclass(frozen=True)
class Member:
    """One agent of a population. A number that its rule or planner does not read is None."""

    member: int
    algorithm: str
    rule: str
    eta: float | None
    seed: int
    gamma: float
    own: Mapping[str, Any] = field(default_factory=dict)
    """The agent's numbers."""
    planner: str | None = None
    planning: Mapping[str, Any] = field(default_factory=dict)
    """The planner's numbers; None for those that it does not use."""
    schedule: Mapping[str, Any] = field(default_factory=dict)
    """Where η and the learning rates go: `eta_end` and `eta_until`, `lr_end` and `lr_until`; those that move."""

    @property
    def label(self) -> str:
        """What figures and tables call this kind of member."""
        return label(self.algorithm, self.eta, self.planning.get("planning_eta"), end=self.schedule.get("eta_end"))

    def row(self) -> dict[str, Any]:
        """All of it side by side: the columns of members.csv."""
        head = ("member", "algorithm", "rule", "eta", "seed", "gamma")
        mine = {name: getattr(self, name) for name in head}
        return {**mine, **self.own, "planner": self.planner, **self.planning, **self.schedule}


def label(algorithm: str, *etas: float | None, end: float | None = None) -> str:
    """A kind of member: its algorithm and the η it has; ``end``: where the first η goes."""
    there = [f"{eta:g}" for eta in etas if eta is not None and eta == eta]
    if there and end is not None and end == end:
        there[0] += f"→{end:g}"
    return f"{algorithm}({', '.join(there)})" if there else algorithm


def numbered(count: int) -> str:
    """The numbers of so many members, in a message."""
    return "member 0 alone" if count == 1 else f"members 0 to {count - 1}"


def require_few(config: Config) -> None:
    """Refuses a grid that is too large, before it is made."""
    lists = {name: getattr(config, name) for name in CROSSED}
    lists |= {name: value for name, value in config.own.items() if isinstance(value, tuple)}
    drawn = config.tuning.draws if config.tuning else {}
    sizes = [len(values) for name, values in lists.items() if name not in drawn]
    count = math.prod(max(1, size) for size in (*sizes, config.tuning.count if config.tuning else 1))
    if count > MOST_MEMBERS:
        longest = max(lists, key=lambda name: len(lists[name]))
        raise UserError(
            f"This grid has up to {count} members ({flag(longest)} has {len(lists[longest])} values); accepted: up to "
            f"{MOST_MEMBERS}. Give fewer values, or several runs."
        )


ETAS = ("eta", "eta_end", "eta_until")
RATES = ("lr_end", "lr_until")
"""Where learning rates go; not given: they stay."""
CROSSED = ("algorithm", "rule", "planner", *ETAS, "seed", "gamma", *RATES)
"""Settings of every run whose several values make members."""


class Kind(NamedTuple):
    """What distinguishes members beside the agent's numbers and the seed."""

    name: str
    rule: str
    eta: float | None
    planner: str | None
    planning: tuple[Any, ...]
    """The planner's numbers, in the order of the settings."""
    schedule: tuple[Any, ...] = ()
    """`eta_end` and `eta_until`, where η moves."""


MOST_MEMBERS = 100_000
"""Of one population; far more than any machine trains at once."""


def members(config: Config) -> list[Member]:
    """The grid of a configuration, seeds fastest; a rule without a forward term appears once for all η.

    Of a search it is the grid of each draw, one after the other; equal members are one.
    """
    require_few(config)
    if config.tuning is None:
        return combinations(config)
    drawn = [with_values(config, config.tuning.values(number)) for number in range(config.tuning.count)]
    found = {repr(replace(member, member=0)): member for one in drawn for member in combinations(one)}
    return [replace(member, member=number) for number, member in enumerate(found.values())]


def with_values(config: Config, values: Mapping[str, tuple[Any, ...]]) -> Config:
    """The configuration with other values of some settings that vary, and without a search."""
    common: dict[str, Any] = {name: value for name, value in values.items() if name not in config.own}
    own = {name: values.get(name, value) for name, value in config.own.items()}
    return replace(config, **common, own=own, tuning=None)


def combinations(config: Config) -> list[Member]:
    """Every combination of the lists."""
    kinds = dict.fromkeys(kind for name in config.algorithm for kind in kinds_of(config, registry.algorithm(name)))
    varying, planned = config.agent.varying, config.planned
    slowing = RATES if config.lr_end else ()
    slowed = product(*(getattr(config, name) for name in slowing))
    rows = product(kinds, config.gamma, *(config.own[name] for name in varying), slowed, config.seed)
    return [
        Member(
            index,
            kind.name,
            kind.rule,
            kind.eta,
            seed,
            gamma,
            dict(zip(varying, own, strict=True)),
            kind.planner,
            dict(zip(planned, kind.planning, strict=True)),
            dict(zip(ETAS[1:], kind.schedule, strict=False)) | dict(zip(slowing, slower, strict=True)),
        )
        for index, (kind, gamma, *own, slower, seed) in enumerate(rows)
    ]


def kinds_of(config: Config, algorithm: Algorithm) -> Iterator[Kind]:
    """The kinds of members of one algorithm. A number that a kind does not use makes no further kinds."""
    named = map(planners.named, config.planner or (algorithm.planner,))
    for rule, planner in product(config.rule or (algorithm.rule,), named):
        spec = planners.planner(planner) if planner is not None else None
        if spec is not None and spec.kind.slope is not None and rule != "td":
            raise UserError(
                f"--rule {rule} was given with planner {planner!r}, whose loss takes its place; use --rule td."
            )
        short = spec.name if spec else None
        name = registry.named(algorithm.agent, rule, short)
        etas = list(weights(config)) if rules.get(rule).weighted else [(None, *(None,) * len(moving(config)))]
        for (eta, *schedule), planning in product(etas, plannings(config, spec)):
            yield Kind(name, rule, eta, short, planning, tuple(schedule))


def moving(config: Config) -> tuple[str, ...]:
    """The settings of a schedule of η; none where η stays."""
    return ETAS[1:] if config.eta_end else ()


def weights(config: Config) -> Iterator[tuple[Any, ...]]:
    """Every combination of η and, where it moves, of where it goes and until when."""
    yield from product(config.eta, *(getattr(config, name) for name in moving(config)))


def plannings(config: Config, spec: PlannerSpec | None) -> Iterator[tuple[Any, ...]]:
    """Every combination of the numbers that a planner uses; None for the others."""
    used = spec.numbers if spec else ()
    if spec is not None and (spec.rule is None or not rules.get(spec.rule).weighted):
        used = tuple(name for name in used if name != "planning_eta")
    yield from product(*(config.own[name] if name in used else (None,) for name in config.planned))
