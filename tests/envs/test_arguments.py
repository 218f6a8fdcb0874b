"""Environments with arguments, from functions, with scaled rewards and with normalised observations."""

import json
import os
import sys

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces, wrappers

import bires
from bires.envs.recipe import recipe
from bires.errors import UserError
from bires.settings.keywords import make_config
from tests.helpers import command, typed, values_of

HERE = "tests.envs.test_arguments:"


class Far(gymnasium.Env):
    """Observations far from zero, a reward of ``bonus`` in each of five steps."""

    observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)

    def __init__(self, bonus=1.0, discrete=False):
        self.bonus = bonus
        self.action_space = spaces.Discrete(2) if discrete else spaces.Box(-1.0, 1.0, (1,), np.float32)

    def observe(self):
        return self.np_random.normal([500.0, -3.0], [20.0, 0.1]).astype(np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.observe(), {}

    def step(self, action):
        return self.observe(), self.bonus, False, False, {}


def limited(bonus=1.0, steps=5):
    """A factory with a wrapper."""
    return wrappers.TimeLimit(Far(bonus), steps)


def nothing():
    return 3


if "bires-test/Far-v0" not in gymnasium.registry:
    gymnasium.register("bires-test/Far-v0", entry_point=f"{HERE}Far", max_episode_steps=5)
TASK = f"{HERE}bires-test/Far-v0"


@pytest.mark.parametrize("chosen", [{}, {"algorithm": "ddpg"}], ids=["the-first-agent", "a-named-agent"])
def test_arguments_that_no_manifest_can_keep_are_refused_and_numbers_of_numpy_kept(chosen):
    for wrong, words in (([1], "accepted: names and values"), ({"bonus": object()}, "which JSON cannot hold")):
        with pytest.raises(UserError, match=words):
            make_config(TASK, {"env_kwargs": wrong, **chosen})
    config = make_config(TASK, {"env_kwargs": {"bonus": np.float32(2.5), "discrete": np.bool_(False)}, **chosen})
    assert config.env_kwargs == {"bonus": 2.5, "discrete": False}


@pytest.mark.parametrize("workers", [0, 1])
def test_arguments_reach_the_constructor_and_the_manifest(quick, tmp_path, workers):
    run = bires.train(TASK, out=tmp_path / "run", **quick | {"env_kwargs": {"bonus": 2.5}, "workers": workers})
    assert run.evaluations["return_mean"].tolist() == [12.5] * 3
    assert run.manifest["config"]["env_kwargs"] == {"bonus": 2.5}
    assert run.evaluate(episodes=1, workers=0)["return_mean"].tolist() == [12.5]
    with pytest.raises(UserError, match="env_kwargs"):
        bires.train(TASK, out=tmp_path / "run", **quick | {"env_kwargs": {"bonus": 3}})


def test_arguments_are_json_on_the_command_line(tmp_path):
    words = ["--steps", "60", "--warmup", "20", "--hidden", "16", "16", "--eval-episodes", "1", "--seeds", "1"]
    words += ["--workers", "0", "--quiet", "--out", str(tmp_path / "run"), "--env-kwargs"]
    said = typed("compare", TASK, *words, '{"discrete": true, "bonus": 2}')
    assert said.returncode == 0, said.stderr
    run = bires.load(tmp_path / "run")
    assert set(run.members["algorithm"]) == {"dqn", "bi-res-dqn"}, "the agent fits the actions of this environment"
    for given, message in (("[1]", "accepted: names and values"), ("{x: 1}", "JSON cannot hold")):
        said = typed("train", TASK, *words, given)
        assert said.returncode == 2
        assert message in said.stderr


@pytest.mark.parametrize(
    ("task", "kwargs", "message"),
    [
        (TASK, {"bonu": 1}, "unexpected keyword"),
        (TASK, {"bonus": object()}, "JSON cannot hold"),
        (TASK, {"render_mode": "human"}, "Leave it out"),
        ("tests.own_family:mine/Lamp-v0", {"lamps": 2}, "It has --lamps"),
        (f"{HERE}nothing", {}, "returned 3; accepted: a gymnasium.Env"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(task, kwargs, message):
    with pytest.raises(UserError, match=message):
        recipe(task, "modern", kwargs=make_config(task, {"env_kwargs": kwargs, "algorithm": "dqn"}).env_kwargs).build()


@pytest.mark.parametrize("workers", [0, 1])
def test_a_function_may_build_the_environment(quick, tmp_path, workers):
    settings = quick | {"env_kwargs": {"steps": 3}, "workers": workers}
    run = bires.train(f"{HERE}limited", out=tmp_path / "run", **settings)
    assert run.evaluations["length_mean"].tolist() == [3.0] * 3
    assert run.policy(0)(np.array([500.0, -3.0])).shape == (1,)


def test_a_module_in_the_current_folder_is_found(tmp_path):
    """As the installed command finds it: the folder is on no path, neither here nor in a worker."""
    text = "from tests.envs.test_arguments import Far\nimport gymnasium\n"
    text += "gymnasium.register('near/Far-v0', entry_point='near_by:Near', max_episode_steps=5)\n"
    (tmp_path / "near_by.py").write_text(f"{text}class Near(Far):\n    pass\n")
    words = ["train", "near_by:near/Far-v0", "--steps", "30", "--warmup", "20", "--hidden", "16", "16"]
    paths = os.pathsep.join(path for path in sys.path if path)
    environment = os.environ | {"PYTHONSAFEPATH": "1", "PYTHONPATH": paths + os.pathsep + os.getcwd()}
    done = command(*words, "--workers", "1", "--eval-episodes", "1", "--out", "run", cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "run" / "manifest.json").read_text())["end"]


def test_rewards_are_scaled_for_learners_only(quick, tmp_path):
    """Scaled by 1/4 with a bonus of 4, the learner's bits are those of a bonus of 1."""
    plain = bires.train(TASK, out=tmp_path / "plain", **quick | {"workers": 0})
    scaled = {"env_kwargs": {"bonus": 4}, "reward_scale": 0.25, "workers": 0}
    run = bires.train(TASK, out=tmp_path / "scaled", **quick | scaled)
    assert run.evaluations["return_mean"].tolist() == [20.0] * 3
    assert run.metrics["train_return_mean"].tolist() == pytest.approx((4 * plain.metrics["train_return_mean"]).tolist())
    np.testing.assert_array_equal(values_of(run, [500.0, -3.0]), values_of(plain, [500.0, -3.0]))
    assert run.evaluations["q_mean"] == pytest.approx(4 * plain.evaluations["q_mean"])
    assert run.evaluations["bellman_error"] == pytest.approx(16 * plain.evaluations["bellman_error"])
    with pytest.raises(UserError, match="numbers above 0"):
        bires.train(TASK, out=tmp_path / "none", **quick | {"reward_scale": 0})
