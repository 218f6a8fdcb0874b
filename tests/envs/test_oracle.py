"""The oracle: the simulator set to a stored state does what the environment did, bit for bit."""

import os
import signal
from contextlib import closing

import numpy as np
import pytest

from bires.envs import tasks
from bires.envs.oracle import check
from bires.envs.pool import OracleNeeds, Pool
from bires.envs.recipe import recipe
from bires.envs.slots import TRAIN, Start
from bires.errors import UserError
from tests import environments  # noqa: F401

FEW = ["walker-stand", "finger-turn_hard", "Humanoid", "Hopper-v5"]
ALL = [*tasks.DMCONTROL, *tasks.MUJOCO, *(f"{name}-v5" for name in tasks.MUJOCO)]
SLOTS, STEPS = 3, 40


def physics_size(task, protocol="modern"):
    made = recipe(task, protocol)
    with closing(made.build()) as environment:
        return check(made, environment)


def open_pool(task, workers=0, protocol="modern"):
    made = recipe(task, protocol)
    environment = made.build()
    environment.close()
    needs = OracleNeeds(physics_size(task, protocol), SLOTS * STEPS)
    return Pool(made, environment.space, [list(range(SLOTS))], workers, needs), environment.space


def experience(pool, space, steps=STEPS, seed=0):
    """Transitions with their physics states: (slot, before, action, reward, successor observation, after)."""
    rng = np.random.default_rng(seed)
    rows = []
    arrays = pool.arrays
    for _ in range(steps):
        arrays.action[:] = rng.uniform(space.low, space.high, arrays.action.shape)
        pool.send(0)
        pool.wait(0)
        assert not pool.failures
        for slot in range(SLOTS):
            kept = (arrays.physics, arrays.action, arrays.reward, arrays.next_observation, arrays.next_physics)
            rows.append((slot, *(array[slot].copy() for array in kept)))
    return [np.array(column) for column in zip(*rows, strict=True)]


def assert_oracle_repeats(pool, rows):
    owner, before, action, reward, observation, after = rows
    order = np.random.default_rng(1).permutation(len(owner))  # an answer must not depend on the question before it
    pool.ask(owner[order], before[order], action[order])
    found, count = pool.answers(), len(owner)
    assert found.reward[:count].tobytes() == reward[order].tobytes()
    assert found.observation[:count].tobytes() == observation[order].tobytes()
    assert found.successor[:count].tobytes() == after[order].tobytes()


def check_task(task, protocol="modern"):
    pool, space = open_pool(task, protocol=protocol)
    try:
        pool.begin([Start(i, 5 + i, TRAIN) for i in range(SLOTS)])
        rows = experience(pool, space)
        assert len(np.unique(rows[1], axis=0)) == SLOTS * STEPS
        assert_oracle_repeats(pool, rows)
    finally:
        pool.close()


@pytest.mark.parametrize("task", FEW)
def test_the_oracle_does_what_the_environment_did(task):
    check_task(task)


@pytest.mark.slow
@pytest.mark.parametrize("task", ALL)
def test_the_oracle_does_what_the_environment_did_on_all_tasks(task):
    check_task(task)
    check_task(task, protocol="paper")


def test_the_oracle_is_exact_where_episodes_end():
    """Hopper falls within a few dozen random steps: the stored successor is the fallen state, not the next start."""
    pool, space = open_pool("Hopper")
    try:
        pool.begin([Start(i, i, TRAIN) for i in range(SLOTS)])
        rows = experience(pool, space, STEPS)
        assert pool.arrays.episode.max() > 0
        assert_oracle_repeats(pool, rows)
    finally:
        pool.close()


@pytest.mark.parametrize("killed", [False, True], ids=["workers", "a worker killed while it answers"])
def test_workers_answer_as_this_process_does(killed):
    pool, space = open_pool("reacher-easy", workers=2)
    try:
        pool.begin([Start(i, i, TRAIN) for i in range(SLOTS)])
        owner, before, action, reward, observation, _ = experience(pool, space)
        pool.ask(owner, before, action)
        if killed:
            os.kill(pool.worker_pids()[1], signal.SIGKILL)
        found = pool.answers()
        assert pool.healed == killed
        assert found.reward.tobytes() == reward.tobytes()
        assert found.observation.tobytes() == observation.tobytes()
        again = experience(pool, space, 3, seed=2)  # the episodes go on undisturbed
        assert np.all(np.isfinite(again[3]))
    finally:
        pool.close()


def test_an_oracle_that_raises_fails_the_member_that_asked():
    pool, space = open_pool("walker-stand")
    try:
        pool.begin([Start(i, i, TRAIN) for i in range(SLOTS)])
        owner, before, action, reward, _, _ = experience(pool, space, 1)
        before[1, 10:19] = 9e9  # velocities: MuJoCo takes them, and its next step is invalid
        pool.ask(owner, before, action)
        found = pool.answers()
        assert list(pool.failures) == [1]
        assert found.reward[[0, 2]].tobytes() == reward[[0, 2]].tobytes()
    finally:
        pool.close()


def test_a_task_without_a_physics_state_is_refused_with_what_is_needed():
    with pytest.raises(UserError, match=r"cannot be set.*set_physics_state.*--model learned"):
        physics_size("MountainCarContinuous-v0")


def test_an_environment_may_bring_its_own_methods():
    assert physics_size("tests.environments:bires-test/Settable-v0") == 2


def test_a_state_that_does_not_decide_the_next_step_is_refused():
    with pytest.raises(UserError, match=r"gave another reward.*--model learned"):
        physics_size("tests.environments:bires-test/HalfSettable-v0")
