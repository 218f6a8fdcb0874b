"""What planners exchange with the rest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp

from bires import algorithms, rules
from bires.agents.base import Parts, Planning
from bires.config import Config, Member
from bires.errors import UserError
from bires.rules import RULES, Needs

Model = Callable[[jax.Array, jax.Array], tuple[jax.Array, jax.Array]]
"""observations, actions (batch) → rewards, next observations (batch): one deterministic step."""


class Imagined(NamedTuple):
    """What a model said: (rounds, batch, ·). A model knows no ends: imagined transitions have discount 1."""

    action: jax.Array
    reward: jax.Array
    next_observation: jax.Array


class Dreams(NamedTuple):
    """What a member imagines for one update; None: nobody in the population needs it."""

    nearby: Imagined | None = None
    """Dyna: P rounds from the batch's own states, with noise on its actions."""
    rollout: Imagined | None = None
    """MVE: k steps of the target policy from the batch's successors."""


@dataclass(frozen=True)
class Planner:
    """What the members of a population need, at most; nothing beyond it is computed."""

    parts: Parts
    """The agent's update, taken apart."""
    real: Needs
    """What the rules of real updates read."""
    imagined: Needs
    """What the rules of imagined updates read."""
    steps: int
    """The largest P; 0: nobody imagines transitions."""
    horizon: int
    """The largest k; 0: nobody expands values."""
    everyone_expands: bool
    """Whether all members expand values, so that no rule's gradient is needed for the real batch."""
    paper_loss: bool
    """The paper's MVE loss; else the original one."""


def planner_of(config: Config, members: Sequence[Member], parts: Parts | None) -> Planner | None:
    """The planner of a population; None: nobody plans."""
    imagined = [RULES[str(algorithms.planner(m.planner).rule)] for m in members if m.planner and m.planning_steps]
    steps = max(member.planning_steps or 0 for member in members)
    horizon = max(member.horizon or 0 for member in members)
    if steps == 0 and horizon == 0:
        return None
    if parts is None:
        raise UserError(f"{members[0].algorithm!r} was given a planner; accepted: agents of the DDPG family.")
    return Planner(
        parts=parts,
        real=rules.needs(rules.get(member.rule) for member in members),
        imagined=rules.needs(imagined),
        steps=steps,
        horizon=horizon,
        everyone_expands=all(member.horizon is not None for member in members),
        paper_loss=config.mve_loss == "paper",
    )


def plannings(members: Sequence[Member]) -> Planning:
    """The members' planning numbers, stacked."""
    records = [algorithms.planner(member.planner) if member.planner else None for member in members]

    def column(name: str, dtype: type) -> jax.Array:
        return jnp.asarray([getattr(member, name) or 0 for member in members], dtype)

    return Planning(
        rule=rules.stack(RULES[record.rule if record and record.rule else "td"] for record in records),
        eta=column("planning_eta", jnp.float32),
        steps=column("planning_steps", jnp.int32),
        noise=column("planning_noise", jnp.float32),
        expands=jnp.asarray([record is not None and record.kind == "mve" for record in records]),
        horizon=column("horizon", jnp.int32),
    )
