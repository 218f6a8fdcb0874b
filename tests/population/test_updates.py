"""The updates of a step: which random numbers its parts are given."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np

from bires.agents.base import critic_metrics
from bires.population import state
from bires.population.program import hypers, make_program
from bires.population.updates import delayed_due, improve
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


def test_updates_of_one_step_have_batches_and_random_numbers_of_their_own():
    """The first of several is the one that would be alone."""

    def update(key, learner, hyper, batch, alive):
        zero = jnp.zeros(())
        return {"key": jax.random.key_data(key), "batch": batch.reward}, critic_metrics(alive, zero, zero)

    settings = {"algorithm": "ddpg", "steps": 90, "warmup": 1, "batch": 8, "hidden": (4, 4)}
    members = grid.members(make_config("Pendulum-v1", settings))
    learner = {"key": jnp.zeros((1, 2), jnp.uint32), "batch": jnp.zeros((1, 8))}
    found = []
    for times, turns in ((1, [0]), (3, [jnp.int32(0), jnp.int32(1), jnp.int32(2)])):
        program = make_program(make_config("Pendulum-v1", settings | {"update_times": times}), members, SPACE, 90)
        program = replace(program, agent=replace(program.agent, update=update))
        begun = state.init(program, learner, jnp.zeros(1, jnp.uint32), jnp.zeros((1, 3)), None)
        numbered = begun.storage.at[..., 4].set(jnp.arange(90.0))  # each reward is the number of its step
        begun = begun._replace(storage=numbered)
        found += [improve(program, begun, hypers(program, members), jnp.int32(80), turn).learner for turn in turns]
    for name in learner:
        np.testing.assert_array_equal(found[0][name], found[1][name])
        assert len({bytes(np.asarray(one[name])) for one in found[1:]}) == 3


def test_the_delayed_part_counts_every_update_of_a_step():
    config = make_config("Pendulum-v1", {"algorithm": "td3", "steps": 90, "warmup": 10, "update_times": 3})
    program = make_program(config, grid.members(config), SPACE, 90)
    due = [bool(delayed_due(program, jnp.int32(clock), turn)) for clock in range(10, 14) for turn in range(3)]
    assert due == [False, True] * 6
