"""What planners exchange with the rest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import jax

from bires.agents.base import Parts
from bires.rules import Needs

Model = Callable[[jax.Array, jax.Array], tuple[jax.Array, jax.Array]]
"""observations, actions (batch) → rewards, next observations (batch): one deterministic step."""


class Imagined(NamedTuple):
    """What a model said: (rounds, batch, ·). A model knows no ends: imagined transitions have discount 1."""

    action: jax.Array
    reward: jax.Array
    next_observation: jax.Array


class Imagination(NamedTuple):
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
