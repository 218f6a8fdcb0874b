"""The members of a cohort on their device: what a step changes."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from bires.agents.base import Learner
from bires.machine.hostcalls import shape
from bires.population import replay
from bires.population.program import Program, member_shapes
from bires.population.streams import WARMUP, stream
from bires.types import Params


class CohortState(NamedTuple):
    """A cohort: every array has the members in front."""

    learner: Learner
    storage: Any
    observation: jax.Array
    first: jax.Array
    """Whether the observation starts an episode."""
    action: jax.Array
    noise: Params
    key: jax.Array
    """The member's own key (raw data); every random number is a function of it and the step's number."""
    alive: jax.Array
    diverged_at: jax.Array
    sums: jax.Array
    """`Program.sums` since the last log."""
    model: Any = None
    """Learned models; None in a population without them."""


def init(program: Program, learner: Learner, seeds: jax.Array, observation: jax.Array, model: Any) -> CohortState:
    agent, count = program.agent, seeds.shape[0]
    keys = jax.vmap(lambda seed: jax.random.key_data(jax.random.key(seed)))(seeds)
    return CohortState(
        learner=learner,
        storage=replay.init(program.space, count, program.capacity),
        observation=observation,
        first=jnp.ones(count, bool),
        action=jax.vmap(lambda key: agent.random(stream(key, WARMUP)))(keys),
        noise=jax.vmap(lambda _: agent.init_noise())(keys),
        key=keys,
        alive=jnp.ones(count, bool),
        diverged_at=jnp.full(count, -1, jnp.int32),
        sums=jnp.zeros((count, len(program.sums))),
        model=model,
    )


def shapes(program: Program, count: int) -> CohortState:
    """What `init` makes of ``count`` members, as shapes."""
    learner, learned = jax.tree.map(lambda x: shape((count, *x.shape), x.dtype), member_shapes(program))
    observation = shape((count, program.space.observation), program.space.dtype)
    made: CohortState = jax.eval_shape(
        partial(init, program), learner, shape((count,), np.uint32), observation, learned
    )
    return made


def noticed(state: CohortState, alive: jax.Array, clock: jax.Array) -> CohortState:
    """Records members that are no longer alive: they diverged in step ``clock``."""
    return state._replace(alive=alive, diverged_at=jnp.where(state.alive & ~alive, clock + 1, state.diverged_at))
