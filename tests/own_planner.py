"""A planner in one file, as a user would write it: Dyna with rollouts of several steps. Nothing in `src/` knows it.

`bires train TASK --algorithm ddpg --planner tests.own_planner:walk` finds it by its module.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from bires.planning import dyna
from bires.planning.base import PlannerKind, PlannerSpec
from bires.types import Setting, Transition


def extra(planning, learner, hyper, batch, imagined, alive):
    """One imagined update for each step of the rollout, from where the step before it ended."""
    observation, loss = batch.observation, jnp.zeros(())
    for step in range(len(imagined.reward)):
        made = Transition(
            observation,
            imagined.action[step, 0],
            imagined.reward[step, 0],
            jnp.ones_like(batch.discount),
            imagined.next_observation[step, 0],
        )
        used = alive & (step < hyper.planning.numbers["walk_steps"])
        learner, ok, found = dyna.update(planning, learner, hyper, made, used)
        alive, loss = jnp.where(used, ok, alive), loss + found
        observation = made.next_observation
    return learner, alive, loss


KIND = PlannerKind(
    name="walk",
    start="before",
    size=lambda numbers: (1, numbers["walk_steps"]),
    first=dyna.first,
    extra=extra,
)

WALK = PlannerSpec(
    "walk",
    KIND,
    "td",
    ("walk_steps", "planning_noise"),
    "imagined updates along rollouts of several steps",
    (Setting("walk_steps", 2, "Steps of a rollout.", low=1, varies=True),),
)

FAR = PlannerSpec(
    "far",
    PlannerKind(
        name="far",
        start="before",
        size=lambda numbers: (numbers["planning_steps"], 1),
        first=lambda parts, key, learner, hyper, batch, width: parts.clip(
            jax.random.normal(key, (width, *batch.action.shape))
        ),
        extra=dyna.extra,
    ),
    "td",
    ("planning_steps",),
    "Dyna's updates, from actions far from those of the batch",
)

SWERVE = PlannerSpec(
    "swerve",
    dyna.KIND,
    "ortho",
    ("planning_steps", "planning_noise", "planning_eta"),
    "Dyna by a rival of the paper's rules",
)
