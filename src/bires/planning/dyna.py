"""Dyna, the paper's Algorithm 1: the critic also learns from transitions near the real ones, which a model imagines."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from bires.agents.base import Hyper, Learner, Parts
from bires.planning.base import Imagined, Model, Planner
from bires.types import Transition


def proposals(parts: Parts, key: jax.Array, action: jax.Array, noise: jax.Array, steps: int) -> jax.Array:
    """â = clip(a + N(0, σ²)) to the bounds of real actions, for each of P rounds: (P, batch, action)."""
    return parts.clip(action + noise * jax.random.normal(key, (steps, *action.shape)))


def imagine(model: Model, observation: jax.Array, action: jax.Array) -> Imagined:
    """r̂, ŝ' = M(s, â) for every round, in one call of the model."""
    rounds = action.shape[0]
    reward, following = model(jnp.tile(observation, (rounds, 1)), action.reshape(-1, action.shape[-1]))
    return Imagined(action, reward.reshape(rounds, -1), following.reshape(rounds, *observation.shape))


def transition(batch: Transition, imagined: Imagined, step: int) -> Transition:
    """Round ``step`` as a transition from the batch's states. It never ends an episode."""
    return Transition(
        batch.observation,
        imagined.action[step],
        imagined.reward[step],
        jnp.ones_like(batch.discount),
        imagined.next_observation[step],
    )


def update(
    planner: Planner, learner: Learner, hyper: Hyper, imagined: Transition, step: int, alive: jax.Array
) -> tuple[Learner, jax.Array, jax.Array]:
    """One imagined update of the critic alone, by the planning rule; nothing moves from the member's P-th round on."""
    assert hyper.planning is not None
    used = alive & (step < hyper.planning.steps)
    planning = hyper._replace(rule=hyper.planning.rule, eta=hyper.planning.eta)
    slope = planner.parts.slope(learner, planning, imagined, planner.imagined)
    learner, seen = planner.parts.critic(learner, hyper, slope, used)
    return learner, jnp.where(used, seen.alive, alive), jnp.where(used, seen.metrics["critic_loss"], 0.0)
