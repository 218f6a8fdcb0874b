"""What an agent is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import numpy as np

from bires.rules import Rule
from bires.types import Params, Transition


class Hyper(NamedTuple):
    """The numbers of one member that may vary inside one compiled population: all of them are arrays there."""

    rule: Rule
    eta: jax.Array
    gamma: jax.Array
    tau: jax.Array
    actor_lr: jax.Array
    critic_lr: jax.Array
    noise: jax.Array


class Diagnostics(NamedTuple):
    """What one update reports of itself."""

    alive: jax.Array
    """False from the update on in which a value, the loss or a gradient is not finite or exceeds the stated bound."""
    critic_loss: jax.Array
    """½ mean δ_b²."""
    q_mean: jax.Array
    """Mean of pred over the batch."""
    delta: jax.Array
    """Mean |δ_b| over the batch."""


Learner = Any
"""An agent's parameters, targets and optimiser state: a pytree of arrays."""


@dataclass(frozen=True)
class Agent:
    """Pure functions for one member. They know nothing of populations, environments or clocks."""

    init: Callable[[np.random.Generator], Learner]
    """Random numbers → learner."""
    init_noise: Callable[[], Params]
    """The state of the exploration noise before the first episode."""
    explore: Callable[..., tuple[jax.Array, Params]]
    """key, learner, hyper, observation, noise, first → action, noise."""
    random: Callable[[jax.Array], jax.Array]
    """key → an action of the warm-up."""
    greedy: Callable[[Learner, jax.Array], jax.Array]
    """learner, observations (batch) → noise-free actions (batch)."""
    value: Callable[[Learner, jax.Array, jax.Array], jax.Array]
    """learner, observations, actions → Q (batch)."""
    update: Callable[[Learner, Hyper, Transition, jax.Array], tuple[Learner, Diagnostics]]
    """learner, hyper, batch, alive → learner, diagnostics: one learning step, or none once the member diverged."""
