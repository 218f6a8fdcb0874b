"""Stochastic worlds: noise on actions inside the simulator, and second successors."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bires
from bires import rules
from bires.agents import ddpg, sac, td3
from bires.agents.base import Hyper, Second
from bires.agents.networks import Critic, Dense, actor, critic
from bires.envs.memory import Layout
from bires.envs.oracle import Oracle, Questions, check
from bires.envs.recipe import recipe
from bires.rules import RULES
from bires.types import Transition
from tests.agents.test_actor_critics import design_of, hyper_of, learner_of
from tests.helpers import configured, ddpg_batch, ddpg_learner, straight_and_stopped, typed
from tests.planning.test_planning import S1, S2, two_states

WORLD = replace(recipe("reacher-easy", "modern"), disturb=0.5)


def episode(made, seed, steps=20):
    environment = made.build()
    environment.reset(seed)
    return np.stack([environment.step(np.full(2, 0.3, np.float32)).observation for _ in range(steps)])


def test_noise_is_a_function_of_the_episodes_seed():
    np.testing.assert_array_equal(episode(WORLD, 3), episode(WORLD, 3))
    assert not np.array_equal(episode(WORLD, 3), episode(WORLD, 4))
    assert not np.array_equal(episode(WORLD, 3), episode(replace(WORLD, disturb=0.0), 3))


def test_disturbed_actions_stay_within_the_bounds():
    environment = replace(WORLD, disturb=50.0).build()
    seen, step = [], environment._env.step

    def watched(action):
        seen.append(action)
        return step(action)

    environment._env.step = watched
    environment.reset(0)
    for _ in range(20):
        environment.step(np.zeros(2, np.float32))
    assert np.abs(seen).max() == 1.0


def test_the_oracle_draws_fresh_noise_which_is_the_same_in_the_same_step():
    environment = WORLD.build()
    size = check(WORLD, environment)
    environment.reset(5)
    physics = environment.physics()
    assert physics is not None
    state, action = physics.read().copy(), np.full(2, 0.1, np.float32)
    happened = environment.step(action).observation
    needed = Layout()
    Questions(needed, 2, environment.space, size)
    questions = Questions(Layout(bytearray(needed.nbytes)), 2, environment.space, size)
    questions.state[:], questions.action[:] = state, [action, action + 0.001]
    found = []
    for moment in (7, 7, 8):
        questions.asked[0], questions.moment[0] = 2, moment
        assert not Oracle(WORLD).answer(questions, 0, 1)
        found.append(questions.observation.copy())
    np.testing.assert_array_equal(found[0], found[1])
    assert not np.array_equal(found[1], found[2]), "in another step it is drawn anew"
    assert not np.array_equal(found[0][0], happened)
    assert np.abs(found[0][0] - found[0][1]).max() > 1e-3  # another question, other noise


def test_a_run_in_a_stochastic_world_stopped_in_the_middle_ends_as_if_undisturbed(tmp_path, quick, stepwise):
    quick |= {"disturb": 0.3, "model": "oracle", "planning_eta": [0.2]}
    config = configured(quick, "Hopper", algorithm=["ddpg", "double-res-ddpg"])
    straight_and_stopped(config, tmp_path, 35)


def test_noise_on_choices_or_below_zero_is_refused(tmp_path):
    said = typed("train", "CartPole-v1", "--algorithm", "dqn", "--disturb", "0.1", "--out", str(tmp_path / "a"))
    assert (said.returncode, "--disturb was given 0.1; it needs a task with continuous" in said.stderr) == (2, True)
    said = typed("train", "reacher-easy", "--disturb", "-1", "--out", str(tmp_path / "b"))
    assert (said.returncode, "--disturb" in said.stderr) == (2, True)


def linear_critic(*values):
    """Q of two states that are unit vectors, whatever the action."""
    eye = Dense(jnp.eye(2), jnp.zeros(2))
    return Critic((eye, eye, Dense(jnp.array(values)[:, None], jnp.zeros(1))), jnp.zeros((1, 2)))


def slope_with(second_of):
    rng = np.random.default_rng(1)
    state, batch = ddpg_learner(rng), ddpg_batch(rng)
    rule = jax.tree.map(jnp.asarray, RULES["res"])
    hyper = hyper_of("sac", "res")._replace(rule=rule)
    needs = rules.needs([RULES["res"]])
    return ddpg.critic_slope(state, hyper, batch, needs, second_of(batch)), state, hyper, batch


def test_a_second_successor_equal_to_the_first_is_the_rule_itself():
    plain = slope_with(lambda batch: None)[0]
    twice = slope_with(lambda batch: Second(batch.next_observation, batch.discount))[0]
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6), plain.gradient, twice.gradient)


def test_the_error_is_the_first_successors_and_the_gradient_the_seconds():
    ends = jnp.asarray(np.arange(8) % 2, jnp.float32)
    found, state, hyper, batch = slope_with(lambda batch: Second(batch.next_observation[::-1] + 1.0, ends))
    second, d = batch.next_observation[::-1] + 1.0, hyper.gamma * batch.discount
    succ = critic(state.critic, batch.next_observation, actor(state.actor, batch.next_observation))
    delta = batch.reward + d * succ - critic(state.critic, batch.observation, batch.action)

    def pseudo(params):
        forward = hyper.eta * delta * hyper.gamma * ends * critic(params, second, actor(state.actor, second))
        return jnp.mean(-delta * critic(params, batch.observation, batch.action) + forward)

    expected = jax.grad(pseudo)(state.critic)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6), found.gradient, expected)


@pytest.mark.parametrize("agent", ["td3", "sac"])
def test_td3_and_sac_take_second_successors(agent):
    module, design = {"td3": td3, "sac": sac}[agent], design_of(agent, "res", fresh=True)
    batch, state, hyper = ddpg_batch(np.random.default_rng(2)), learner_of(agent, design), hyper_of(agent, "res")
    slope = partial(module.critic_slope, design, jax.random.key(1), state, hyper, batch, design.needs)
    same, other = (slope(Second(batch.next_observation + more, batch.discount)) for more in (0.0, 1.0))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6), slope().gradient, same.gradient)
    np.testing.assert_array_equal(same.delta, other.delta)
    first = same.gradient.layers[0].weight, other.gradient.layers[0].weight
    assert not np.allclose(*first)
    ended = slope(Second(batch.next_observation, jnp.zeros_like(batch.discount)))
    semi = module.critic_slope(design, jax.random.key(1), state, hyper._replace(eta=jnp.zeros(())), batch, design.needs)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6), ended.gradient, semi.gradient)


def test_where_ends_are_random_two_samples_are_unbiased_and_one_is_not():
    """s ends with probability ½ or leads to s₂. At the true value of s, E[δ ∇Q(s₂)] must be 0."""
    gamma, count, rng = 0.5, 50_000, np.random.default_rng(0)
    state = two_states()._replace(critic=linear_critic(0.5 * gamma * 5.0, 5.0))
    first, second = (jnp.asarray(rng.integers(0, 2, count), jnp.float32) for _ in range(2))
    zeros, successor = jnp.zeros(count), jnp.tile(S2, (count, 1))
    batch = Transition(jnp.tile(S1, (count, 1)), zeros[:, None], zeros, first, successor)
    hyper = Hyper(jax.tree.map(jnp.asarray, RULES["res"]), jnp.float32(1.0), jnp.float32(gamma), {})
    slope = partial(ddpg.critic_slope, state, hyper, batch, rules.needs([RULES["res"]]))

    def moves(found):  # the value of s₂
        return float(found.gradient.layers[-1].weight[1, 0])

    error = gamma * np.asarray(first) * 5.0 - 1.25
    expected = np.mean(error * gamma * np.asarray(second))
    assert abs(expected) < 4 * 1.25 * gamma / np.sqrt(count)
    assert moves(slope(Second(successor, second))) == pytest.approx(expected, abs=1e-4)
    assert moves(slope()) == pytest.approx(1.25 * gamma / 2, rel=0.05), "one sample: E[δ m] γ is not 0"


def test_the_oracle_says_where_it_came_to_an_end():
    """Hopper, thrown over: the episode ends; set upright again, it does not."""
    made = recipe("Hopper", "modern")
    environment = made.build()
    size = check(made, environment)
    environment.reset(0)
    physics = environment.physics()
    assert physics is not None
    upright, ended = physics.read().copy(), False
    while not ended:
        before = physics.read().copy()
        ended = environment.step(np.ones(3, np.float32)).terminated
    needed = Layout()
    Questions(needed, 2, environment.space, size)
    questions = Questions(Layout(bytearray(needed.nbytes)), 2, environment.space, size)
    questions.state[:], questions.action[:], questions.asked[0] = [upright, before], 1.0, 2
    assert not Oracle(made).answer(questions, 0, 1)
    assert questions.terminated.tolist() == [False, True]


@pytest.mark.slow
def test_without_noise_double_sampling_is_res(tmp_path, quick):
    """The simulator's second successor is then the first; the weights agree up to rounding."""
    plain = bires.train("Hopper", algorithm="res-ddpg", eta=0.2, out=tmp_path / "a", **quick)
    double = bires.train("Hopper", algorithm="double-res-ddpg", planning_eta=0.2, out=tmp_path / "b", **quick)
    q = [run.evaluations["q_mean"].tolist()[-1] for run in (plain, double)]
    assert q[0] == pytest.approx(q[1], rel=1e-3)
