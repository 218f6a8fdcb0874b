"""What an agent is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from bires.rules import Needs, Rule
from bires.types import Params, Transition


class Planning(NamedTuple):
    """How one member plans: arrays inside a population, which computes what its most demanding member needs."""

    rule: Rule
    """The critic rule of imagined updates (Dyna)."""
    eta: jax.Array
    steps: jax.Array
    """P; 0 for who does not imagine transitions."""
    noise: jax.Array
    """σ of the noise on imagined actions."""
    expands: jax.Array
    """Whether the critic learns by value expansion (MVE) instead of its rule."""
    horizon: jax.Array
    """k of the value expansion."""


class Hyper(NamedTuple):
    """The numbers of one member that may vary inside one compiled population: all of them are arrays there."""

    rule: Rule
    eta: jax.Array
    gamma: jax.Array
    tau: jax.Array
    actor_lr: jax.Array
    critic_lr: jax.Array
    noise: jax.Array
    epsilon_start: Any = 0.0
    epsilon_end: Any = 0.0
    epsilon_steps: Any = 0.0
    target_every: Any = 1.0
    planning: Planning | None = None
    """None where nobody plans."""


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


VALUE_BOUND = 1e12
"""A member whose values exceed this has diverged."""

Learner = Any
"""An agent's parameters, targets and optimiser state: a pytree of arrays."""


class Slope(NamedTuple):
    """A critic's gradient, and what it was computed from."""

    gradient: Params
    pred: jax.Array
    """Q(s, a) over the real batch."""
    delta: jax.Array
    """δ_b over the real batch."""


@dataclass(frozen=True)
class Parts:
    """An update taken apart, for planners that put something between: critic, actor, then targets."""

    slope: Callable[[Learner, Hyper, Transition, Needs], Slope]
    """The critic's gradient under a rule (hyper's), with which values that rule may need."""
    regress: Callable[..., Slope]
    """learner, observations, actions, loss → the gradient of a loss of Q's values there, which also gives (pred, δ)."""
    critic: Callable[[Learner, Hyper, Slope, jax.Array], tuple[Learner, Diagnostics]]
    """learner, hyper, slope, alive → one step of the critic's optimiser."""
    actor: Callable[[Learner, Hyper, Transition, jax.Array], tuple[Learner, jax.Array]]
    """learner, hyper, batch, alive → one step of the actor's optimiser, with the critic as it is; alive."""
    targets: Callable[[Learner, Hyper, jax.Array], Learner]
    """learner, hyper, alive → the target networks follow."""
    target_action: Callable[[Learner, jax.Array], jax.Array]
    """learner, observations → the target policy's actions."""
    target_value: Callable[[Learner, jax.Array, jax.Array], jax.Array]
    """learner, observations, actions → the target network's values."""
    clip: Callable[[jax.Array], jax.Array] = lambda action: jnp.clip(action, -1.0, 1.0)
    """Actions → as they are taken and stored: within the task's bounds."""


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
    parts: Parts | None = None
    """The same step taken apart; None where planners have not been thought of."""
