"""Observations that are numbers of choices: vectors to the networks, and policies take them as the task gives them."""

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.wrappers import TransformAction

import bires
from bires.envs.recipe import recipe
from tests.helpers import QUICK


class Shown(gymnasium.Env):
    """Shows one observation, then another; nothing else happens."""

    action_space = spaces.Discrete(2)

    def __init__(self, space, first, second):
        self.observation_space, self.first, self.second = space, first, second

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.first, {}

    def step(self, action):
        return self.second, 0.0, True, False, {}


def digits():
    return Shown(spaces.MultiDiscrete([3, 2]), np.array([2, 0]), np.array([0, 1]))


def lamps():
    return Shown(spaces.MultiBinary(2), np.array([1, 1], np.int8), np.array([0, 1], np.int8))


@pytest.mark.parametrize(("task", "seen"), [("digits", [1, 0, 0, 0, 1]), ("lamps", [0, 1])], ids=["digits", "lamps"])
def test_choices_become_zeros_and_ones(task, seen):
    environment = recipe(f"{__name__}:{task}", "modern").build()
    environment.reset(0)
    outcome = environment.step(np.zeros(1, np.float32))
    assert outcome.observation.dtype == np.float32
    assert outcome.observation.tolist() == seen


def test_the_square_of_a_lake_is_a_vector():
    environment = recipe("FrozenLake-v1", "modern").build()
    assert environment.reset(3).tolist() == np.eye(16)[0].tolist()
    assert environment.space.observation == 16


def test_a_policy_takes_the_numbers_of_the_task(tmp_path):
    lake = {"is_slippery": False}
    run = bires.train("FrozenLake-v1", env_kwargs=lake, out=tmp_path / "run", **QUICK)
    assert run.members["algorithm"] == ["bi-res-dqn"]
    policy = run.policy(0)
    observation, _ = gymnasium.make("FrozenLake-v1", **lake).reset(seed=0)
    assert policy(observation) == policy(np.eye(16)[observation])
    assert policy(5) == policy(np.int64(5)) == policy(np.eye(16)[5])
    assert policy(np.eye(16)).tolist() == [policy(square) for square in range(16)]


def narrow():
    """Its space promises two numbers."""
    return Shown(spaces.Box(-1.0, 1.0, (2,)), np.zeros(1, np.float32), np.zeros(1, np.float32))


def bare():
    """Its `reset` returns no info, as in old versions of Gym."""

    class Bare(Shown):
        def reset(self, *, seed=None, options=None):
            return self.first

    return Bare(spaces.Box(-1.0, 1.0, (2,)), np.zeros(2, np.float32), np.zeros(2, np.float32))


@pytest.mark.parametrize(
    ("task", "said"),
    [
        ("narrow", r"observation of shape \(1,\); its observation_space says \(2,\)"),
        ("bare", r"reset\(\) returned array"),
    ],
)
def test_what_a_space_does_not_promise_is_refused(task, said, tmp_path):
    with pytest.raises(bires.UserError, match=said):
        bires.train(f"{__name__}:{task}", out=tmp_path / "run", **QUICK)


def test_a_policy_refuses_a_choice_that_there_is_not(tmp_path):
    run = bires.train("FrozenLake-v1", out=tmp_path / "run", **QUICK)
    with pytest.raises(bires.UserError, match="was given 99; accepted: an observation of FrozenLake-v1"):
        run.policy(0)(99)
    assert run.policy(0).save(tmp_path / "new" / "folder" / "policy.safetensors").exists()


def test_a_policy_takes_dictionaries_that_are_not_quite_their_space(tmp_path):
    """DMControl's own observations have plain numbers where Gymnasium's space has arrays."""
    run = bires.train("cartpole-swingup", out=tmp_path / "run", **QUICK)
    seen, _ = gymnasium.make("dm_control/cartpole-swingup-v0").reset(seed=0)
    assert np.array_equal(run.policy(0)({name: value.tolist() for name, value in seen.items()}), run.policy(0)(seen))


def several():
    env: Any = digits()
    env.action_space = spaces.MultiDiscrete([3, 2])
    return env


def one_of_them():
    return TransformAction(several(), lambda action: np.array(np.unravel_index(action, (3, 2))), spaces.Discrete(6))


def test_several_choices_are_refused_with_what_makes_them_one():
    with pytest.raises(bires.UserError, match=r"unravel_index\(action, \(3, 2\)\)\), Discrete\(6\)\)\.$"):
        recipe(f"{__name__}:several", "modern").build()
    environment = recipe(f"{__name__}:one_of_them", "modern").build()
    assert environment.space.choices == 6
