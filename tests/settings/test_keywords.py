"""Settings as keywords: which types they may have."""

import jax.numpy as jnp
import numpy as np
import pytest

import bires
from bires.settings import config as configs
from bires.settings.config import Config
from bires.settings.keywords import make_config


def test_arrays_without_axes_are_numbers():
    given = {"eta": jnp.float32(0.5), "tau": np.array(0.25), "batch": np.array(8), "seed": jnp.int32(3)}
    config = make_config("pendulum-swingup", given | {"hidden": (16, 16)})
    assert (config.eta, config.own["tau"], config.batch, config.seed) == ((0.5,), (0.25,), 8, (3,))


def test_numbers_may_be_numpys_and_whole_ones_floats():
    given = {"steps": 6e1, "batch": 8.0, "seed": np.int64(3), "eta": np.float32(0.5), "hidden": np.array([16, 16])}
    config = make_config("pendulum-swingup", given)
    expected = Config("pendulum-swingup", steps=60, batch=8, seed=(3,), eta=(0.5,), hidden=(16, 16))
    assert configs.to_json(config) == configs.to_json(expected)
    assert make_config("pendulum-swingup", {"seeds": 3.0}).seed == (0, 1, 2)
    for name, value, words in (
        ("steps", 1.5, "--steps was given 1.5; accepted: whole numbers"),
        ("eta", "half", "--eta was given 'half'; accepted: numbers"),
        ("seed", [0, None], "--seed was given None; accepted: whole numbers"),
        ("double_q", 1, "--double-q was given 1; accepted: True or False"),
        ("seeds", "3", "--seeds was given '3'"),
        ("steps", True, "--steps was given True; accepted: whole numbers"),
        ("epsilon_end", {0.1: 0.2}, "--epsilon-end was given {0.1: 0.2}; accepted: numbers"),
        ("protocol", np.array(["paper"]), r"--protocol was given array\(\['paper'\].*; accepted: modern, paper"),
        ("optimiser", np.array(["adam", "rmsprop"]), "--optimiser was given array.*; accepted: adam, rmsprop"),
    ):
        with pytest.raises(bires.UserError, match=words):
            make_config("CartPole-v1", {"algorithm": "dqn", name: value})


@pytest.mark.parametrize("value", [float("inf"), float("-inf"), float("nan"), [0.1, float("inf")]], ids=str)
@pytest.mark.parametrize(
    ("algorithm", "name"), [("sac", "target_entropy"), ("ddpg", "noise"), ("dyna-ddpg", "planning_noise")]
)
def test_numbers_of_agents_and_planners_are_finite(algorithm, name, value):
    with pytest.raises(bires.UserError, match=f"--{name.replace('_', '-')} was given .*; accepted: finite numbers"):
        make_config("pendulum-swingup", {"algorithm": algorithm, name: value})
