"""What the members of a population need of planners, and their planning numbers."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp

from bires import rules
from bires.agents.base import Parts, Planning
from bires.errors import UserError
from bires.planning import registry as planners
from bires.planning.base import Planner
from bires.rules import RULES
from bires.settings.config import Config
from bires.settings.grid import Member


def planner_of(config: Config, members: Sequence[Member], parts: Parts | None) -> Planner | None:
    """The planner of a population; None: nobody plans."""
    imagined = [
        RULES[str(planners.planner(m.planner).rule)] for m in members if m.planner and m.planning["planning_steps"]
    ]
    steps = max(member.planning["planning_steps"] or 0 for member in members)
    horizon = max(member.planning["horizon"] or 0 for member in members)
    if steps == 0 and horizon == 0:
        return None
    if parts is None:
        raise UserError(
            f"{members[0].algorithm!r} was given a planner; accepted: agents that planners can use, such as DDPG."
        )
    return Planner(
        parts=parts,
        real=rules.needs(rules.get(member.rule) for member in members),
        imagined=rules.needs(imagined),
        steps=steps,
        horizon=horizon,
        everyone_expands=all(member.planning["horizon"] is not None for member in members),
        paper_loss=config.own["mve_loss"] == "paper",
    )


def plannings(members: Sequence[Member]) -> Planning:
    """The members' planning numbers, stacked."""
    records = [planners.planner(member.planner) if member.planner else None for member in members]

    def column(name: str, dtype: type) -> jax.Array:
        return jnp.asarray([member.planning[name] or 0 for member in members], dtype)

    return Planning(
        rule=rules.stack(RULES[record.rule if record and record.rule else "td"] for record in records),
        eta=column("planning_eta", jnp.float32),
        steps=column("planning_steps", jnp.int32),
        noise=column("planning_noise", jnp.float32),
        expands=jnp.asarray([record is not None and record.kind == "mve" for record in records]),
        horizon=column("horizon", jnp.int32),
    )
