"""Observations in units of their running mean and standard deviation, for any agent that sees vectors.

The numbers are a part of the learner, so checkpoints, evaluations and policies have them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from bires.agents.base import Agent, Diagnostics, Hyper, Learner
from bires.types import Params, Transition

LIMIT, EPSILON = 10.0, 1e-8
"""What is farther from the mean is clipped; what is added to a variance (both as in Stable-Baselines3)."""


class Moments(NamedTuple):
    """What one member has seen so far."""

    observations: Params
    """How many."""
    origin: Params
    """The first one. Means are counted from it, so that float32 is exact enough far from zero, too."""
    offset: Params
    """The mean less the origin."""
    variance: Params

    @property
    def mean(self) -> Params:
        return self.origin + self.offset


class Normalised(NamedTuple):
    """A learner behind its normalisation."""

    inner: Learner
    moments: Moments


def nothing_seen(size: int) -> Moments:
    """Before the first observation, which has ``size`` numbers."""
    origin, offset, variance = np.zeros((3, size), np.float32)
    return Moments(np.zeros((), np.float32), origin, offset, variance)


def counted(moments: Moments, observation: jax.Array) -> Moments:
    """One observation more (Welford): m' = m + (x − m) / n, v' = v + ((x − m)(x − m') − v) / n, from the origin."""
    count = moments.observations + 1.0
    origin = jnp.where(moments.observations == 0, observation, moments.origin)
    x = observation - origin
    away = x - moments.offset
    offset = moments.offset + away / count
    return Moments(count, origin, offset, moments.variance + (away * (x - offset) - moments.variance) / count)


def apply(moments: Moments, observation: jax.Array) -> jax.Array:
    """(x − m) / √(v + ε), clipped; as it is until two observations have been seen."""
    scaled = (observation - moments.origin - moments.offset) / jnp.sqrt(moments.variance + EPSILON)
    return jnp.where(moments.observations < 2, observation, jnp.clip(scaled, -LIMIT, LIMIT))


def seen(learner: Normalised, observation: jax.Array, alive: jax.Array) -> Normalised:
    """The learner after it has seen an observation; a frozen member counts nothing more."""
    more = counted(learner.moments, observation)
    return learner._replace(moments=jax.tree.map(lambda x, y: jnp.where(alive, x, y), more, learner.moments))


def normalised(agent: Agent, size: int) -> Agent:
    """The agent with its observations, of ``size`` numbers, normalised. Planners cannot use it."""

    def init(rng: np.random.Generator) -> Normalised:
        return Normalised(agent.init(rng), nothing_seen(size))

    def explore(
        key: jax.Array, learner: Normalised, hyper: Hyper, observation: jax.Array, noise: Params, first: jax.Array
    ) -> tuple[jax.Array, Params]:
        return agent.explore(key, learner.inner, hyper, apply(learner.moments, observation), noise, first)

    def greedy(learner: Normalised, observation: jax.Array) -> jax.Array:
        return agent.greedy(learner.inner, apply(learner.moments, observation))

    def value(learner: Normalised, observation: jax.Array, action: jax.Array) -> jax.Array:
        return agent.value(learner.inner, apply(learner.moments, observation), action)

    def scaled(learner: Normalised, batch: Transition) -> Transition:
        both = (apply(learner.moments, x) for x in (batch.observation, batch.next_observation))
        return batch._replace(**dict(zip(("observation", "next_observation"), both, strict=True)))

    def update(
        key: jax.Array, learner: Normalised, hyper: Hyper, batch: Transition, alive: jax.Array
    ) -> tuple[Normalised, Diagnostics]:
        inner, told = agent.update(key, learner.inner, hyper, scaled(learner, batch), alive)
        return learner._replace(inner=inner), told

    def delayed(
        key: jax.Array, learner: Normalised, hyper: Hyper, batch: Transition, alive: jax.Array
    ) -> tuple[Normalised, jax.Array]:
        assert agent.delayed is not None
        inner, alive = agent.delayed(key, learner.inner, hyper, scaled(learner, batch), alive)
        return learner._replace(inner=inner), alive

    return replace(
        agent,
        init=init,
        explore=explore,
        greedy=greedy,
        value=value,
        update=update,
        delayed=delayed if agent.delayed is not None else None,
        parts=None,
    )
