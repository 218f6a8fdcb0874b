"""What the members of a population need of planners, and their planning numbers."""

from __future__ import annotations

from collections.abc import Sequence

import jax.numpy as jnp

from bires import rules
from bires.agents.base import Agent, PlanningNumbers
from bires.errors import UserError
from bires.planning import registry as planners
from bires.planning.base import PlannerKind, Planning, Use
from bires.settings.config import Config
from bires.settings.grid import Member


def kind_of(member: Member) -> PlannerKind | None:
    """The kind of a member's planner; None: it does not plan."""
    return planners.planner(member.planner).kind if member.planner else None


def size_of(member: Member) -> tuple[int, int]:
    """Width and depth of a member's rollouts; zeros where it imagines nothing."""
    kind = kind_of(member)
    width, depth = kind.size(member.planning) if kind else (0, 0)
    return (width, depth) if width and depth else (0, 0)


def planning_of(config: Config, members: Sequence[Member], agent: Agent) -> Planning | None:
    """What a population needs of planners; None: none of its members imagines anything."""
    planned = [member for member in members if size_of(member) != (0, 0)]
    if not planned:
        return None
    if agent.parts is None:
        raise UserError(f"{planned[0].algorithm!r} was given a planner; planners need an agent such as DDPG.")
    if agent.parts(None).regress is None:
        for member in planned:
            if (kind := kind_of(member)) is not None and kind.regresses:
                raise UserError(
                    f"{member.algorithm!r} has the planner {member.planner!r}, whose loss {config.agent.title} cannot "
                    "take. Use another planner (`bires list planners`), or another agent."
                )
    kinds = {spec.kind.name: spec.kind for spec in planners.PLANNERS.values()}
    specs = [planners.planner(str(member.planner)) for member in planned]
    uses = []
    for kind in kinds.values():
        if mine := [member for member in planned if kind_of(member) is kind]:
            width, depth = (max(column) for column in zip(*map(size_of, mine), strict=True))
            doubts = config.own["model"] == "learned" and any(kind.doubts(member.planning) for member in mine)
            uses.append(Use(kind, width, depth, all(kind_of(member) is kind for member in members), doubts))
    settings = planners.settings_of(member.planner for member in members)
    return Planning(
        make_parts=agent.parts,
        real=rules.needs(rules.get(member.rule) for member in members),
        imagined=rules.needs(rules.get(spec.rule) for spec in specs if spec.rule),
        uses=tuple(uses),
        shared=tuple((one.name, config.own[one.name]) for one in settings if not one.varies),
        whole=frozenset(one.name for one in settings if one.varies and one.type is int),
        limits_end=config.protocol == "paper",
    )


def numbers_of(planning: Planning, members: Sequence[Member]) -> PlanningNumbers:
    """The planning numbers of some members of a population, stacked."""
    specs = [planners.planner(member.planner) if member.planner else None for member in members]
    columns = {
        name: jnp.asarray(
            [member.planning[name] or 0 for member in members],
            jnp.int32 if name in planning.whole else jnp.float32,
        )
        for name in members[0].planning
    }
    return PlanningNumbers(
        rule=rules.stack((rules.get(spec.rule if spec and spec.rule else "td") for spec in specs), planning.imagined),
        eta=columns.pop("planning_eta"),
        numbers=columns,
        uses={
            use.kind.name: jnp.asarray([spec is not None and spec.kind is use.kind for spec in specs])
            for use in planning.uses
        },
    )
