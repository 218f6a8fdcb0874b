"""Atari games: preprocessing, seeds, ids, and populations that learn from pixels and resume bit for bit."""

from collections import Counter
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bires
from bires.agents.networks import choices, init_choices
from bires.envs import atari
from bires.envs.recipe import recipe
from bires.settings.keywords import make_config
from bires.settings.options import Options, Stopped
from bires.settings.recipes import recipe_of
from bires.training.launch import begin_or_continue
from bires.types import Pixels, Space
from tests.helpers import arrays, asked, assert_same_moment, contents

pytest.importorskip("ale_py")
GAME = Space(4 * 84 * 84, 1, (0.0,), (3.0,), choices=4, pixels=Pixels(4, 84, 84))


def play(environment, seed, steps):
    rng = np.random.default_rng(0)
    seen = [environment.reset(seed).copy()]
    outcomes = []
    for _ in range(steps):
        outcome = environment.step(np.array([rng.integers(environment.space.choices)], np.float32))
        seen.append(outcome.observation.copy())
        outcomes.append(outcome)
        if outcome.terminated:
            break
    return np.array(seen), outcomes


@pytest.mark.parametrize(("task", "protocol"), [("Breakout", "paper"), ("Seaquest", "modern")])
def test_an_episode_depends_on_its_seed_and_actions_alone(task, protocol):
    environment = recipe(task, protocol).build()
    first, _ = play(environment, 5, 150)
    play(environment, 6, 40)
    again, _ = play(environment, 5, 150)
    np.testing.assert_array_equal(first, again)
    others = [environment.reset(seed).copy() for seed in range(8)]
    assert len({other.tobytes() for other in others}) > 1
    environment.close()


def test_breakout_gives_stacks_of_four_grey_frames():
    environment = recipe("Breakout", "paper").build()
    seen, outcomes = play(environment, 1, 1000)
    assert seen.dtype == np.uint8
    stacks = seen.reshape(-1, 4, 84, 84)
    np.testing.assert_array_equal(stacks[0, 0], stacks[0, 3])  # the first frame stands for those before it
    np.testing.assert_array_equal(stacks[1:, :3], stacks[:-1, 1:])
    assert outcomes[-1].terminated
    assert sum(outcome.life_lost for outcome in outcomes) == 5
    assert np.std(stacks[0, 3]) > 10
    environment.close()


def test_ids_decide_sticky_actions_and_action_sets():
    def build(task, **settings):
        config = make_config(task, {"algorithm": "dqn", **settings})
        environment = recipe_of(config).build()
        environment.close()
        return environment._env._sticky, environment.space.choices

    assert recipe("Breakout", "paper").id == "BreakoutNoFrameskip-v4"
    assert recipe("breakout", "modern").id == "ALE/Breakout-v5"
    assert build("Breakout", protocol="paper") == (0.0, 4)
    assert build("Breakout") == (0.25, 4)
    assert build("ALE/Breakout-v5", sticky=0.0, full_actions=True) == (0.0, 18)
    assert build("BreakoutNoFrameskip-v4", sticky=0.1) == (0.1, 4)


def test_sticky_actions_repeat_the_last_action():
    made = recipe("Breakout", "paper")
    streams = [play(replace(made, settings={**made.settings, "sticky": p}).build(), 1, 60)[0] for p in (0.0, 0.0, 0.9)]
    np.testing.assert_array_equal(streams[0], streams[1])
    assert not np.array_equal(streams[0], streams[2])


def test_shrinking_averages_areas():
    rows = atari.shrink(210)
    np.testing.assert_allclose(rows.sum(1), 1.0, rtol=1e-5)
    np.testing.assert_allclose(rows[0, :4], np.array([1, 1, 0.5, 0]) / 2.5, rtol=1e-5)


def test_the_network_is_natures():
    """The convolutions over squares as channels are those of Mnih et al. with the stride written out."""
    params = init_choices(np.random.default_rng(0), GAME, (512,))
    assert sum(x.size for x in jax.tree.leaves(params)) == 1_686_180
    seen = jnp.asarray(np.random.default_rng(1).integers(0, 256, (2, GAME.observation), np.uint8))
    x = jnp.moveaxis(seen.reshape(2, 4, 84, 84), 1, -1).astype(jnp.float32) / 255
    for layer, (kernel, stride, outputs) in zip(params.convolutions, Pixels(4, 84, 84).convolutions, strict=True):
        small, channels = kernel // stride, x.shape[-1]
        weight = layer.weight.reshape(small, small, stride, stride, channels, outputs)
        weight = weight.transpose(0, 2, 1, 3, 4, 5).reshape(kernel, kernel, channels, outputs)
        x = jax.lax.conv_general_dilated(
            x, weight, (stride, stride), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
        x = jax.nn.relu(x)
    assert x.shape == (2, 7, 7, 64)
    hidden, last = params.layers
    expected = jax.nn.relu(x.reshape(2, -1) @ hidden.weight) @ last.weight
    np.testing.assert_allclose(choices(params, GAME, seen), expected, atol=1e-4)


QUICK: dict[str, Any] = {
    "steps": 60,
    "warmup": 24,
    "eval_every": 1000,
    "eval_episodes": 1,
    "batch": 4,
    "replay": 40,
    "hidden": (16,),
    "log_every": 20,
    "update_every": 4,
    "target_every": 3,
    "epsilon_steps": 20,
    "algorithm": ["dqn", "bi-res-dqn"],
}


@pytest.mark.slow
def test_breakout_resumes_bit_for_bit(tmp_path, optimised, whole, stepwise, monkeypatch):
    """Stopped at several moments, over a wrap of the ring and from within episodes."""
    monkeypatch.setattr(
        "bires.training.loop.TrainingLoop._evaluate", lambda self, stop: None
    )  # a random game takes a while
    config = make_config("Breakout", QUICK | {"protocol": "paper"})
    begin_or_continue(config, tmp_path / "straight", Options(workers=0))
    for moment in (9, 28, 15):
        with pytest.raises(Stopped):
            begin_or_continue(
                config, tmp_path / "stopped", Options(workers=0), stop=partial(asked, iter(range(99)), moment)
            )
    begin_or_continue(config, tmp_path / "stopped", Options(workers=0))
    assert contents(tmp_path / "straight") == contents(tmp_path / "stopped")
    assert_same_moment(tmp_path / "straight", tmp_path / "stopped", capacity=40)


def test_rewards_are_clipped_in_training_and_not_in_evaluation(tmp_path, optimised, whole, monkeypatch):
    """Each game ends after 40 steps, and each step gives a reward of 20."""
    step, steps = atari.Atari.step, Counter[Any]()

    def rewarded(self, action):
        observation, _, ended, _, info = step(self, action)
        steps[self] += 1
        return observation, 20.0, ended, steps[self] % 40 == 0, info

    monkeypatch.setattr(atari.Atari, "step", rewarded)
    run = bires.train("Seaquest", out=tmp_path / "run", quiet=True, workers=0, **(QUICK | {"algorithm": "dqn"}))
    assert run.evaluations["return_max"].tolist() == [800.0]
    rings = [ring for name, ring in arrays(run.path).items() if name.endswith("/numbers")]
    assert {reward for ring in rings for reward in ring[..., 1].flat} == {1.0}
    assert run.policy(0)(np.zeros((4, 84, 84), np.uint8)).shape == ()
