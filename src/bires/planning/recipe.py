"""The order of a planned update: critic, actor, imagined updates of the critic, targets. It owns no maths."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from bires.agents.base import Diagnostics, Hyper, Learner, Slope
from bires.planning import dyna, mve
from bires.planning.base import Imagination, Model, Planner
from bires.types import Transition


def imagine(
    planner: Planner, model: Model, key: jax.Array, learner: Learner, hyper: Hyper, batch: Transition
) -> Imagination:
    """What one member's model imagines around a real batch."""
    assert hyper.planning is not None
    nearby = rollout = None
    if planner.steps:
        action = dyna.proposals(planner.parts, key, batch.action, hyper.planning.noise, planner.steps)
        nearby = dyna.imagine(model, batch.observation, action)
    if planner.horizon:
        rollout = mve.imagine(model, planner.parts, learner, batch.next_observation, planner.horizon)
    return Imagination(nearby, rollout)


def update(
    planner: Planner, learner: Learner, hyper: Hyper, batch: Transition, imagination: Imagination, alive: jax.Array
) -> tuple[Learner, Diagnostics, jax.Array]:
    """One real update with everything that the member's planner adds; the last result is the imagined loss."""
    parts = planner.parts
    learner, seen = parts.critic(learner, hyper, real_slope(planner, learner, hyper, batch, imagination), alive)
    learner, ok = parts.actor(learner, hyper, batch, seen.alive)
    loss = jnp.zeros(())
    for step in range(planner.steps):
        assert imagination.nearby is not None
        imagined = dyna.transition(batch, imagination.nearby, step)
        learner, ok, found = dyna.update(planner, learner, hyper, imagined, step, ok)
        loss += found
    return parts.targets(learner, hyper, ok), seen._replace(alive=ok), loss


def real_slope(planner: Planner, learner: Learner, hyper: Hyper, batch: Transition, imagination: Imagination) -> Slope:
    """The critic's gradient on the real batch: the member's rule, or value expansion in its place."""
    parts = planner.parts
    if imagination.rollout is None:
        return parts.slope(learner, hyper, batch, planner.real)
    expanded = mve.slope(planner, learner, hyper, batch, imagination.rollout)
    if planner.everyone_expands:
        return expanded
    assert hyper.planning is not None
    expands = hyper.planning.expands
    plain = parts.slope(learner, hyper, batch, planner.real)
    chosen: Slope = jax.tree.map(lambda a, b: jnp.where(expands, a, b), expanded, plain)
    return chosen
