"""Real environments: construction, seeding, the true successor, workers."""

import errno
import os
import signal
import sys
import time
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from gymnasium import wrappers

from bires.envs import tasks
from bires.envs.helpers import Worker
from bires.envs.memory import memory
from bires.envs.pool import Pool
from bires.envs.recipe import recipe
from bires.envs.slots import ACTIVE, FAILED, IDLE, TRAIN, Start, episode_seed
from bires.errors import UserError
from bires.types import Space
from tests import environments
from tests.helpers import doomed

FEW = ["walker-stand", "reacher-easy", "finger-turn_hard", "HalfCheetah", "Hopper-v5"]
ALL = [*tasks.DMCONTROL, *tasks.MUJOCO]


def open_pool(task, slots=2, workers=0, protocol="modern"):
    made = recipe(task, protocol)
    environment = made.build()
    environment.close()
    return Pool(made, environment.space, [list(range(slots))], workers), environment.space


def roll(pool, steps, seed=0):
    rng = np.random.default_rng(seed)
    seen = []
    for _ in range(steps):
        pool.arrays.action[:] = rng.uniform(-1, 1, pool.arrays.action.shape)
        pool.send(0)
        pool.wait(0)
        seen.append((pool.arrays.next_observation.copy(), pool.arrays.reward.copy()))
    return seen


def same(a, b):
    return all(np.array_equal(x, y) for p, q in zip(a, b, strict=True) for x, y in zip(p, q, strict=True))


def check_task(task):
    """The same seed gives the same start and steps; another seed another start."""
    pool, space = open_pool(task, 3)
    try:
        pool.begin([Start(0, 7, TRAIN), Start(1, 7, TRAIN), Start(2, 8, TRAIN)])
        assert not pool.failures
        assert pool.arrays.observation.shape[1] == space.observation
        assert np.array_equal(pool.arrays.observation[0], pool.arrays.observation[1])
        assert not np.array_equal(pool.arrays.observation[0], pool.arrays.observation[2])
        pool.arrays.action[:] = 0.3
        for _ in range(5):
            pool.send(0)
            pool.wait(0)
        assert np.array_equal(pool.arrays.observation[0], pool.arrays.observation[1])
        assert np.all(np.isfinite(pool.arrays.reward))
    finally:
        pool.close()


@pytest.mark.parametrize("task", FEW)
def test_tasks_start_from_their_seed(task):
    check_task(task)


@pytest.mark.slow
@pytest.mark.parametrize("task", ALL)
def test_all_tasks_start_from_their_seed(task):
    check_task(task)


def check_shortcut(task):
    """A DMControl task as it is stepped here against the way through Gymnasium's wrappers: the same bits."""
    usual = wrappers.FlattenObservation(gymnasium.make(tasks.resolve(task), disable_env_checker=True))
    ours = recipe(task, "modern").build()
    rng = np.random.default_rng(0)
    for seed, steps in ((3, 20), (4, 1001)):
        assert np.array_equal(np.float32(usual.reset(seed=seed)[0]), ours.reset(seed))
        for step in range(1, steps):
            action = rng.uniform(-1, 1, ours.space.action).astype(np.float32)
            observation, reward, terminated, truncated, _ = usual.step(ours.scaled(action))
            outcome = ours.step(action)
            assert outcome.observation.dtype == np.float32
            assert np.array_equal(np.float32(observation), outcome.observation)
            assert (reward, terminated, truncated) == outcome[1:4]
            assert truncated == (step == 1000)


@pytest.mark.parametrize("task", ["reacher-easy", "cheetah-run"])
def test_the_shortcut_gives_the_same_bits(task):
    check_shortcut(task)


@pytest.mark.slow
@pytest.mark.parametrize("task", tasks.DMCONTROL)
def test_the_shortcut_gives_the_same_bits_on_all_tasks(task):
    check_shortcut(task)


def test_there_are_28_tasks_of_dmcontrol_and_5_of_mujoco():
    assert len(set(tasks.DMCONTROL)) == 28
    assert len(set(tasks.MUJOCO)) == 5


def test_short_names_become_the_ids_of_gymnasium():
    assert tasks.resolve("walker-stand") == "dm_control/walker-stand-v0"
    assert tasks.resolve("halfcheetah") == "HalfCheetah-v4"
    assert tasks.resolve("HalfCheetah-v5") == "HalfCheetah-v5"
    assert tasks.resolve("tests.environments:bires-test/Target-v0") == "bires-test/Target-v0"
    with pytest.raises(UserError, match="'walker-stand'"):
        tasks.resolve("walker-stnd")
    with pytest.raises(UserError, match=r"no_such_module.*cannot be imported"):
        tasks.resolve("no_such_module:X-v0")


@pytest.mark.parametrize("task", ["Walker-Stand", "dm_control/dog-run-v0"])
def test_without_dmcontrol_its_tasks_say_what_to_type(task, monkeypatch):
    monkeypatch.setitem(sys.modules, "dm_control", None)
    with pytest.raises(UserError, match=f"Type: pip install --no-deps {tasks.SUITE}"):
        tasks.resolve(task)
    assert tasks.resolve("Hopper") == "Hopper-v4"


def test_one_version_of_dmcontrol_is_installed_everywhere():
    root = Path(__file__).parents[2]
    assert f'"{tasks.SUITE};' in (root / "pyproject.toml").read_text()
    assert f"SUITE := {tasks.SUITE}\n" in (root / "Makefile").read_text()
    assert f"{tasks.SUITE}\n" in (root / "constraints.txt").read_text()


def test_discrete_actions_are_indices():
    environment = recipe("CartPole-v1", "modern").build()
    assert environment.space == Space(4, 1, (0.0,), (1.0,), 2)
    assert environment.scaled(np.array([[1.0], [0.0]], np.float32)).tolist() == [1, 0]
    environment.close()


def test_a_time_limit_is_no_end_and_the_successor_is_the_true_one():
    pool, _ = open_pool("tests.environments:bires-test/Slides-v0", 1)
    try:
        pool.begin([Start(0, 0, TRAIN)])
        roll(pool, 5)
        assert pool.arrays.truncated[0]
        assert not pool.arrays.terminated[0]
        assert pool.arrays.first[0]
        assert pool.arrays.episode[0] == 1
        assert pool.arrays.next_observation[0] == 5.0, "where the episode was cut off"
        assert pool.arrays.observation[0] == 0.0, "where the next one starts"
    finally:
        pool.close()


def test_a_dmcontrol_episode_is_truncated_after_1000_steps_and_another_begins():
    pool, _ = open_pool("cartpole-balance", 1)
    try:
        pool.begin([Start(0, 0, TRAIN)])
        first = pool.arrays.observation[0].copy()
        seen = roll(pool, 1000)
        assert pool.arrays.truncated[0]
        assert not pool.arrays.terminated[0]
        assert np.array_equal(pool.arrays.next_observation[0], seen[-1][0][0])
        assert not np.array_equal(pool.arrays.observation[0], pool.arrays.next_observation[0])
        assert not np.array_equal(pool.arrays.observation[0], first)
    finally:
        pool.close()


@pytest.mark.parametrize(("protocol", "received"), [("modern", 0.4), ("paper", 1.0)])
def test_modern_scales_actions_to_the_bounds(protocol, received):
    """`paper` passes on what the agent, which clips to the bounds, gives it."""
    pool, space = open_pool("tests.environments:bires-test/Wide-v0", 1, protocol=protocol)
    try:
        pool.begin([Start(0, 0, TRAIN)])
        pool.arrays.action[:] = 1.0
        pool.send(0)
        pool.wait(0)
        assert pool.arrays.reward[0] == pytest.approx(received)
        assert space.high == ((1.0,) if protocol == "modern" else (pytest.approx(0.4),))
    finally:
        pool.close()


def test_workers_give_what_this_process_gives():
    streams = []
    for workers in (0, 2):
        pool, _ = open_pool("walker-stand", 3, workers)
        try:
            pool.begin([Start(i, i, TRAIN) for i in range(3)])
            streams.append(roll(pool, 20))
        finally:
            pool.close()
    assert same(*streams)


def test_a_running_episode_is_rebuilt_from_its_seed_and_actions():
    pool, _ = open_pool("finger-turn_hard", 1)
    try:
        pool.begin([Start(0, 3, TRAIN)])
        roll(pool, 25)
        again = pool.running(0)
        straight = roll(pool, 10, seed=1)
        pool.begin([again])
        assert same(straight, roll(pool, 10, seed=1))
    finally:
        pool.close()


@pytest.mark.parametrize("under_way", [False, True], ids=["between steps", "in a step"])
def test_a_killed_worker_is_replaced_and_nothing_changes(under_way):
    streams = []
    for kill in (False, True):
        pool, _ = open_pool("reacher-easy", 4, 2)
        try:
            pool.begin([Start(i, i, TRAIN) for i in range(4)])
            seen = roll(pool, 15)
            if kill and not under_way:
                os.kill(pool.worker_pids()[0], signal.SIGKILL)
            pool.send(0)
            if kill and under_way:
                os.kill(pool.worker_pids()[0], signal.SIGKILL)
            pool.wait(0)
            seen.append((pool.arrays.next_observation.copy(), pool.arrays.reward.copy()))
            streams.append(seen + roll(pool, 10, seed=1))
            assert pool.healed == kill
        finally:
            pool.close()
    assert same(*streams)


def lost_after(monkeypatch, method, times):
    """Lets workers die around some calls of a method of theirs; the others are as always."""
    calls, real = [], getattr(Worker, method)

    def call(worker, *arguments):
        calls.append(method)
        if len(calls) not in times:
            return real(worker, *arguments)
        if method == "launch":
            real(worker, *arguments)
        else:
            time.sleep(0.3)  # what it was asked for is done, but nobody hears of it
        worker.process.kill()
        worker.process.wait()
        if method == "ask_to_begin":
            worker.pending.append(None)
        if method == "reply":
            raise EOFError
        return None

    monkeypatch.setattr(Worker, method, call)


@pytest.mark.parametrize(
    ("method", "times"),
    [("launch", (1, 3)), ("ask_to_begin", (2,)), ("reply", (5,)), ("reply", (7, 8)), ("reply", (9,))],
    ids=["starting, twice", "before a begin", "after a step", "after an end and again", "after another step"],
)
def test_a_worker_lost_between_steps_and_begins_changes_nothing(method, times, monkeypatch):
    """Episodes of two steps: the lost process may have begun the next one, or not even the first."""
    streams = []
    for disturbed in (False, True):
        if disturbed:
            lost_after(monkeypatch, method, times)
        pool, _ = open_pool("tests.environments:bires-test/TwoSteps-v0", 2, 1)
        try:
            pool.begin([Start(0, 3, TRAIN), Start(1, 4, TRAIN, episode=2, stride=3, limit=6)])
            seen = roll(pool, 4)
            pool.begin([Start(1, 5, TRAIN, episode=1)])
            seen.append((pool.arrays.episode.copy(), pool.arrays.status.copy()))
            seen += roll(pool, 5)
            seen.append((pool.arrays.episode.copy(), pool.arrays.status.copy()))
            streams.append(seen)
            assert (pool.healed > 0) == disturbed
        finally:
            pool.close()
    assert same(*streams)


def test_an_idle_slot_is_not_begun_again_when_its_worker_is_lost():
    pool, _ = open_pool("tests.environments:bires-test/Raises-v0", 4, 2)
    try:
        pool.begin([Start(i, i, TRAIN) for i in range(4)])
        roll(pool, 5)
        pool.forget(0)
        for pid in pool.worker_pids():
            os.kill(pid, signal.SIGKILL)
        roll(pool, 3)
        assert pool.healed == 2
        assert pool.arrays.status.tolist() == [IDLE, ACTIVE, ACTIVE, ACTIVE]
        assert len(pool.running(1).actions) == 8
        assert pool.running(0).actions == []
    finally:
        pool.close()


def test_memory_is_shared_where_there_is_room(tmp_path, monkeypatch):
    tried = []

    def fallocate(file, begin, size):
        tried.append(size)
        if len(tried) in full:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", fallocate)
    full = [1]
    memory(10**6, tmp_path).close()
    assert tried == [10**6, 10**6]
    memory(10**6, Path("/proc")).close()  # where no file can be made at all
    tried, full = [], [1, 2]
    with pytest.raises(UserError, match=r"share 1 MB of memory.*No space left.*--shm-size"):
        memory(10**6, tmp_path)


def test_workers_that_cannot_start_are_given_up(monkeypatch):
    lost_after(monkeypatch, "launch", range(1, 100))
    with pytest.raises(UserError, match="was lost 3 times in a row"):
        open_pool("tests.environments:bires-test/TwoSteps-v0", 1, 1)


def test_an_environment_that_raises_fails_alone():
    pool, _ = open_pool("tests.environments:bires-test/Raises-v0", 8)
    try:
        pool.begin([Start(i, i, TRAIN) for i in range(8)])
        doomed = pool.arrays.observation[:, 0] < 0
        assert 0 < doomed.sum() < 8
        roll(pool, 30)
        assert np.array_equal(pool.arrays.status == FAILED, doomed)
        assert all("the motor came off" in text for text in pool.failures.values())
    finally:
        pool.close()


def test_what_a_failed_environment_leaves_does_not_depend_on_the_steps_before():
    """A run that was resumed at the start of the episode knows nothing of them."""

    def left(start, steps):
        pool, _ = open_pool("tests.environments:bires-test/Sticks-v0", 1)
        try:
            pool.begin([start])
            roll(pool, steps)
            assert list(pool.failures) == [0]
            arrays = pool.arrays
            flags = (arrays.terminated, arrays.truncated, arrays.first, arrays.status)
            return [row.tolist() for row in (arrays.reward, arrays.next_observation, arrays.observation, *flags)]
        finally:
            pool.close()

    def sticks(seed, episode):
        probe = environments.Sticks()
        probe.reset(seed=episode_seed(seed, TRAIN, episode))
        return probe.start < -0.5

    seed = next(seed for seed in range(99) if not sticks(seed, 0) and sticks(seed, 1))
    assert left(Start(0, seed, TRAIN), 4) == left(Start(0, seed, TRAIN, episode=1), 1)


def test_episode_seeds_differ_by_member_stream_and_episode():
    seeds = {episode_seed(m, s, e) for m in range(5) for s in range(2) for e in range(20)}
    assert len(seeds) == 200
    assert episode_seed(1, 0, 2) == episode_seed(1, 0, 2)


def test_an_environment_that_ends_its_process_every_time_ends_its_slot_only(monkeypatch):
    """Its worker is replaced some times; a simulator that crashes in a certain state would end every one of them."""
    monkeypatch.setattr("bires.envs.pool.ATTEMPTS", 2)
    bad, good = (next(seed for seed in range(99) if doomed(seed, TRAIN) == is_bad) for is_bad in (True, False))
    starts = [Start(0, bad, TRAIN), Start(1, good, TRAIN)]
    pool, _ = open_pool("tests.environments:bires-test/Raises-v0", 2, 0)
    try:
        pool.begin(starts)
        expected = roll(pool, 35)
    finally:
        pool.close()
    pool, _ = open_pool("tests.environments:bires-test/Leaves-v0", 2, 1)
    try:
        pool.begin(starts)
        seen = roll(pool, 35)
        assert list(pool.failures) == [0]
        assert "lost 2 times in the same step (exit code 5)" in pool.failures[0]
        assert pool.arrays.status.tolist() == [FAILED, ACTIVE]
        assert same([(a[1], b[1]) for a, b in seen], [(a[1], b[1]) for a, b in expected])
        assert not pool.arrays.busy.any()
    finally:
        pool.close()
