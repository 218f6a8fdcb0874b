"""The updates of a step: which random numbers its parts are given."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np

from bires.agents.base import critic_metrics
from bires.population import state
from bires.population.program import hypers, make_program
from bires.population.updates import improve
from bires.settings import grid
from bires.settings.keywords import make_config
from bires.types import Space

SPACE = Space(3, 1, (-1.0,), (1.0,))


def test_the_delayed_part_of_an_update_shares_no_random_numbers_with_the_rest():
    """An update may split its key: folding the same key with 0, 1 … gives what splitting it does."""

    def update(key, learner, hyper, batch, alive):
        zero = jnp.zeros(())
        mine = jnp.concatenate([jax.random.key_data(key)[None], jax.random.key_data(jax.random.split(key, 4))])
        return learner | {"update": mine}, critic_metrics(alive, zero, zero)

    def delayed(key, learner, hyper, batch, alive):
        return learner | {"delayed": jax.random.key_data(key)}, alive

    config = make_config("Pendulum-v1", {"algorithm": "ddpg", "steps": 10, "warmup": 1, "batch": 2, "hidden": (4, 4)})
    members = grid.members(config)
    program = make_program(config, members, SPACE, 10)
    program = replace(program, agent=replace(program.agent, update=update, delayed=delayed))
    learner = {"update": jnp.zeros((1, 5, 2), jnp.uint32), "delayed": jnp.zeros((1, 2), jnp.uint32)}
    begun = state.init(program, learner, jnp.zeros(1, jnp.uint32), jnp.zeros((1, 3)), None)
    found = improve(program, begun, hypers(program, members), jnp.int32(5)).learner
    same = (np.asarray(found["update"][0]) == np.asarray(found["delayed"][0])).all(-1)
    assert found["delayed"].any()
    assert not same.any()
