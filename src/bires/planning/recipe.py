"""The order of a planned update: critic, actor, what planners add, targets. It owns no maths."""

from __future__ import annotations

import zlib

import jax
import jax.numpy as jnp

from bires.agents.base import Diagnostics, Hyper, Learner, Parts, Slope
from bires.machine.branching import Due, when
from bires.planning import dyna
from bires.planning.base import EveryModel, Imagined, Model, PlannerKind, Planning
from bires.types import Transition

ACTIONS = 1_000
"""Keys from this number on are for the actions of rollouts."""
NOISE = 2_000
"""Keys from this number on are for the draws of a stochastic model."""


def key_of(kind: PlannerKind, key: jax.Array) -> jax.Array:
    """The random key of a kind of planner: each has its own. (Dyna's is the key itself, as it was the first.)"""
    return key if kind is dyna.KIND else jax.random.fold_in(key, zlib.crc32(kind.name.encode()))


def following_parts(planning: Planning, key: jax.Array, step: int) -> Parts:
    """The agent's parts for the actions of a rollout's step, with random numbers of their own."""
    return planning.make_parts(jax.random.fold_in(key, ACTIONS + step))


def imagine(
    planning: Planning,
    model: Model,
    key: jax.Array,
    learner: Learner,
    hyper: Hyper,
    batch: Transition,
    each: EveryModel | None = None,
) -> tuple[Imagined, ...]:
    """What one member's model imagines around a real batch, for every kind of planner.

    ``each``: what every model of an ensemble says.
    """
    found = []
    for use in planning.uses:
        kind, width = use.kind, use.width
        action = kind.first(following_parts(planning, key, 0), key_of(kind, key), learner, hyper, batch, width)
        start = batch.observation if kind.start == "before" else batch.next_observation
        observation = start if width == 1 else jnp.tile(start, (width, 1))
        flat, steps = action.reshape(-1, action.shape[-1]), []
        for step in range(use.depth):
            flat = kind.following(following_parts(planning, key, step), learner, observation) if step else flat
            every = each(observation, flat)[1:] if use.doubts and each is not None else ()
            reward, observation = model(jax.random.fold_in(key_of(kind, key), NOISE + step), observation, flat)
            steps.append((flat, reward, observation, *every))
        action, reward, observation, *others = (jnp.stack(part) for part in zip(*steps, strict=True))
        shape = (use.depth, width, -1)
        imagined = Imagined(*(x.reshape(*shape, *x.shape[2:]) for x in (action, reward, observation)))
        if others:
            models, size = others[0].shape[1], others[0].shape[-1]
            split = others[0].reshape(use.depth, models, width, -1, size)
            imagined = imagined._replace(each=jnp.moveaxis(split, 2, 1))
        found.append(imagined)
    return tuple(found)


def update(
    planning: Planning,
    learner: Learner,
    hyper: Hyper,
    batch: Transition,
    imagined: tuple[Imagined, ...],
    alive: jax.Array,
    due: Due = True,
) -> tuple[Learner, Diagnostics, dict[str, jax.Array]]:
    """One real update with everything that the member's planner adds; the last result is what planners report.

    ``due``: whether the actor and the targets move, too.
    """
    parts = planning.parts
    learner, seen = parts.critic(learner, hyper, real_slope(planning, learner, hyper, batch, imagined), alive)
    learner, ok = when(due, lambda carry: parts.actor(carry[0], hyper, batch, carry[1]), (learner, seen.alive))
    told: dict[str, jax.Array] = {"imagined_loss": jnp.zeros(())}
    for use, found in zip(planning.uses, imagined, strict=True):
        if use.kind.extra is None:
            continue
        # Others have numbers of the same names, perhaps, and nothing was imagined for them.
        mine = True if use.everybody else uses(hyper, use.kind)
        learner, done, more = use.kind.extra(planning, learner, hyper, batch, found, ok & mine)
        ok = jnp.where(mine, done, ok)
        for name, value in (more if isinstance(more, dict) else {"imagined_loss": more}).items():
            told[name] = told.get(name, 0.0) + jnp.where(mine, value, 0.0)
    learner = when(due, lambda learner: parts.targets(learner, hyper, ok), learner)
    return learner, seen._replace(alive=ok), told


def uses(hyper: Hyper, kind: PlannerKind) -> jax.Array:
    """Whether a member has a planner of this kind."""
    assert hyper.planning is not None
    return hyper.planning.uses[kind.name]


def real_slope(
    planning: Planning, learner: Learner, hyper: Hyper, batch: Transition, imagined: tuple[Imagined, ...]
) -> Slope:
    """The critic's gradient on the real batch: the member's rule, or that of a planner in its place."""
    slope: Slope | None = None
    for use, found in zip(planning.uses, imagined, strict=True):
        if use.kind.slope is None:
            continue
        own = use.kind.slope(planning, learner, hyper, batch, found)
        if use.everybody:
            return own
        slope = planning.parts.slope(learner, hyper, batch, planning.real) if slope is None else slope
        mine, own = uses(hyper, use.kind), own._replace(estimate=slope.estimate, eta=slope.eta)
        slope = jax.tree.map(lambda a, b, mine=mine: jnp.where(mine, a, b), own, slope)
    return planning.parts.slope(learner, hyper, batch, planning.real) if slope is None else slope
