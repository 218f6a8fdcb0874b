"""The rivals of the paper's rules in every agent: estimates of the error, orthogonal gradients, mixed populations."""

from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bires
from bires import rules
from bires.agents import ddpg, dqn, optimisers
from bires.agents.base import Design, Hyper, PlanningNumbers
from bires.agents.networks import actor, choices, critic, init_critic
from bires.agents.optimisers import descend
from bires.agents.slopes import ESTIMATE_DECAY, Estimating, added, estimate_slope
from bires.planning import dyna
from bires.planning.base import Planning, Use
from bires.rules import PAPER, RULES
from bires.types import Space
from tests.helpers import DDPG_HIDDEN, DDPG_SPACE, ddpg_batch

RIVALS = [name for name in RULES if name not in PAPER]
GAMMA, ETA = 0.9, 0.3
CHOICES = Space(3, 1, (0.0,), (3.0,), choices=4)
DQN_OWN = {"optimiser": "adam", "max_grad_norm": 0.0, "double_q": False}


def hyper_of(name, **own):
    numbers = {key: jnp.float32(x) for key, x in own.items()}
    return Hyper(jax.tree.map(jnp.asarray, RULES[name]), jnp.float32(ETA), jnp.float32(GAMMA), numbers)


def learner_of(*names, seed=1):
    """DDPG's learner for some rules, with targets of their own; the first weights are those of the plain learner."""
    estimated = rules.needs(RULES[name] for name in names).estimated
    state = ddpg.init(np.random.default_rng(seed), DDPG_SPACE, DDPG_HIDDEN, estimated=estimated)
    other = ddpg.init(np.random.default_rng(seed + 1), DDPG_SPACE, DDPG_HIDDEN)
    scaled = jax.tree.map(lambda leaf: 30 * leaf, (state.critic, other.critic, other.actor))
    state = state._replace(critic=scaled[0], target_critic=scaled[1], target_actor=scaled[2])
    return state if state.estimate is None else state._replace(estimate=jax.tree.map(lambda x: 30 * x, state.estimate))


def flat(tree):
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(tree)])


def slope_of(name, *among):
    names = (name, *among)
    batch = ddpg_batch(np.random.default_rng(3))
    needs = rules.needs(RULES[one] for one in names)
    return ddpg.critic_slope(learner_of(*names), hyper_of(name), batch, needs), batch


@pytest.mark.parametrize("name", RIVALS)
def test_a_rival_is_the_same_alone_and_among_all_rules(name):
    alone, among = slope_of(name)[0], slope_of(name, *RULES)[0]
    np.testing.assert_allclose(flat(alone.gradient), flat(among.gradient), atol=1e-5)


def test_imagined_updates_leave_the_estimate_of_the_real_rules_error_alone():
    """Dyna's rule is another one, so its error is not what h(s, a) learns."""
    state, batch = learner_of("qrc"), ddpg_batch(np.random.default_rng(3))
    numbers = {"planning_steps": jnp.int32(1), "planning_noise": jnp.float32(0.1)}
    planned = PlanningNumbers(
        jax.tree.map(jnp.asarray, RULES["td"]), jnp.float32(ETA), numbers, {"dyna": jnp.array(True)}
    )
    hyper = hyper_of("qrc", critic_lr=1e-3)._replace(planning=planned)
    needs = rules.needs([RULES["qrc"]]), rules.needs([RULES["td"]])
    planning = Planning(lambda key: ddpg.PARTS, *needs, (Use(dyna.KIND, 1, 1, True),), ())
    moved, alive, _ = jax.jit(dyna.update, static_argnums=0)(planning, state, hyper, batch, jnp.array(True))
    assert alive
    assert not np.array_equal(flat(moved.critic), flat(state.critic))
    np.testing.assert_array_equal(flat(moved.estimate), flat(state.estimate))


def test_orthogonal_gradients_are_bis_without_what_lies_along_the_backward_one():
    bi, ortho, backward = (flat(slope_of(name)[0].gradient) for name in ("bi", "ortho", "td"))
    forward = bi - backward
    assert abs(forward @ backward) > 1e-3 * np.linalg.norm(forward) * np.linalg.norm(backward)
    left = ortho - backward
    assert abs(left @ backward) < 1e-4 * np.linalg.norm(left) * np.linalg.norm(backward)
    expected = forward - (forward @ backward) / (backward @ backward) * backward
    assert np.linalg.norm(left - expected) < 1e-4 * np.linalg.norm(expected)


@pytest.mark.parametrize("flag", ["orthogonal", "adaptive"])
def test_without_a_forward_term_there_is_nothing_to_project_or_to_weigh(flag, monkeypatch):
    raised: dict[str, Any] = {flag: True}
    monkeypatch.setitem(RULES, "odd", replace(RULES["td"], **raised))
    odd, plain = (flat(slope_of(name)[0].gradient) for name in ("odd", "td"))
    np.testing.assert_array_equal(odd, plain)


def test_a_zero_backward_gradient_makes_no_division_by_zero():
    found = added({"w": jnp.zeros(3)}, {"w": jnp.ones(3)}, jnp.array(True))
    np.testing.assert_array_equal(found["w"], np.ones(3))


def test_bairds_weight_is_the_least_that_does_not_raise_the_residuals():
    """g_b and g_b + g_f are the gradients of `res` with η = 0 and 1; φ > 0 only where they point apart.

    They do where successors are the same states, further out: w→2w, in a network.
    """
    plain = ddpg_batch(np.random.default_rng(3))
    stretched = plain._replace(next_observation=3 * plain.observation, discount=jnp.ones_like(plain.discount))
    state, found = learner_of("baird"), []

    @partial(jax.jit, static_argnames="name")
    def slope(name, eta, batch):
        hyper = hyper_of(name)._replace(eta=jnp.float32(eta))
        return ddpg.critic_slope(state, hyper, batch, rules.needs([RULES[name]]))

    for batch in (plain, stretched):
        backward, whole = (flat(slope("res", eta, batch).gradient) for eta in (0.0, 1.0))
        adapted, along = slope("baird", 0.0, batch), backward @ whole
        phi = along / (along - whole @ whole) if along < 0 else 0.0
        assert adapted.eta == pytest.approx(phi, abs=1e-4)
        error = np.linalg.norm(flat(adapted.gradient) - backward - phi * (whole - backward))
        assert error < 1e-3 * np.linalg.norm(backward)
        found.append(float(adapted.eta))
    assert found[0] == 0.0 < found[1] < 1.0


def test_qrc_corrects_by_its_estimate_which_learns_the_error():
    """Against a transcription: g = mean [−δ ∇Q(s, a) + γ h ∇Q(s', a')], and h's gradient, its last layer decayed."""
    state, (found, batch) = learner_of("qrc"), slope_of("qrc")
    d = GAMMA * batch.discount
    action = actor(state.actor, batch.next_observation)
    h = critic(state.estimate, batch.observation, batch.action)
    error = (
        batch.reward
        + d * critic(state.critic, batch.next_observation, action)
        - critic(state.critic, batch.observation, batch.action)
    )
    np.testing.assert_allclose(found.delta, error, rtol=1e-5)

    def pseudo(params):
        pred = critic(params, batch.observation, batch.action)
        return jnp.mean(-error * pred + d * h * critic(params, batch.next_observation, action))

    np.testing.assert_allclose(flat(found.gradient), flat(jax.grad(pseudo)(state.critic)), atol=1e-5)

    def regression(params):
        loss = 0.5 * (error - critic(params, batch.observation, batch.action)) ** 2
        return jnp.mean(loss) + 0.5 * ESTIMATE_DECAY * jnp.sum(params.layers[-1].weight ** 2)

    np.testing.assert_allclose(flat(found.estimate), flat(jax.grad(regression)(state.estimate)), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("size", [0.1, 1.0])
def test_the_estimate_learns_errors_of_the_size_that_agents_have(size):
    """Weight decay of all layers made it a constant, whatever the error."""
    rng = np.random.default_rng(0)
    s, a = (jnp.asarray(rng.normal(size=(512, n)), jnp.float32) for n in (6, 2))
    error = size * jnp.tanh(2 * s[:, 0] - s[:, 1])
    params = init_critic(rng, 6, 2, (32, 32))

    def step(carry, key):
        params, adam = carry
        at = jax.random.randint(key, (64,), 0, 512)
        slope = estimate_slope(Estimating(params, lambda p: critic(p, s[at], a[at])), error[at])
        return descend(slope, adam, params, jnp.float32(1e-3), jnp.array(True)), None

    keys = jax.random.split(jax.random.key(0), 1500)
    (params, _), _ = jax.lax.scan(step, (params, optimisers.init(params)), keys)
    left = np.mean((np.asarray(critic(params, s, a)) - error) ** 2) / np.mean(error**2)
    assert left < 0.15


def test_minto_for_choices_takes_the_minimum_before_the_maximum():
    design = Design(CHOICES, (8, 8), DQN_OWN, rules.needs([RULES["minto"]]))
    rng = np.random.default_rng(0)
    state = dqn.init(rng, design)._replace(target=dqn.init(rng, design).online)
    batch = ddpg_batch(rng)._replace(action=jnp.asarray(rng.integers(0, 4, (8, 1)), jnp.float32))
    found = dqn.gradient(state, hyper_of("minto"), batch, design)
    online, target = (choices(p, CHOICES, batch.next_observation) for p in (state.online, state.target))
    pred = choices(state.online, CHOICES, batch.observation)[np.arange(8), np.asarray(batch.action[:, 0], int)]
    least = np.minimum(online, target).max(-1)
    assert not np.allclose(least, np.minimum(np.max(online, -1), np.max(target, -1)))
    np.testing.assert_allclose(found.delta, batch.reward + GAMMA * batch.discount * least - pred, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "agent", ["td3", "dqn", *(pytest.param(name, marks=pytest.mark.slow) for name in ("ddpg", "sac"))]
)
def test_rivals_train_in_one_population_by_name(agent, tmp_path, quick):
    """Each has a name; those that read η have one; the estimates are there only where a member reads them."""
    task = "CartPole-v1" if agent == "dqn" else "Pendulum-v1"
    names = [f"{name}-{agent}" for name in RIVALS]
    run = bires.train(task, algorithm=[agent, *names], out=tmp_path / "run", **quick)
    assert run.members["algorithm"].tolist() == [agent, *names]
    etas = dict(zip(run.members["algorithm"].tolist(), run.members["eta"].tolist(), strict=True))
    weighted = {f"{name}-{agent}" for name in ("ortho", "fr", "baird")}
    assert {name for name, eta in etas.items() if eta == eta and eta != ""} == weighted
    used = {row["member"]: row["eta_used"] for row in run.metrics.rows()}
    assert used[0] == 0.0
    assert 0.05 - 1e-6 <= used[1 + RIVALS.index("baird")] <= 1.0
    assert [row["status"] for row in run.members.rows()] == ["finished"] * len(etas)
