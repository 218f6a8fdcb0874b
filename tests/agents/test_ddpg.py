"""The DDPG agent against a plain transcription of the paper with Optax."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from bires import rules
from bires.agents import ddpg as agent_module
from bires.agents import optimisers
from bires.agents.base import Design, Hyper
from bires.agents.exploration import ornstein_uhlenbeck
from bires.agents.networks import actor, critic, init_actor, init_critic
from bires.rules import PAPER, RULES
from tests.helpers import DDPG_HIDDEN, DDPG_SPACE, ddpg_batch, ddpg_learner

update = jax.jit(agent_module.update, static_argnums=4)


def hyper_of(rule, eta=0.3):
    own = {"tau": 0.01, "actor_lr": 1e-2, "critic_lr": 1e-3, "noise": 0.2}
    numbers = {name: jnp.float32(x) for name, x in own.items()}
    return Hyper(rule, jnp.float32(eta), jnp.float32(0.9), numbers)


@partial(jax.jit, static_argnames="rule")
def reference(state, rule, eta, batch, gamma=0.9, tau=0.01, actor_lr=1e-2, critic_lr=1e-3):
    """The paper's equations, one pass per value, gradients written out as in REFERENCE form."""
    d = gamma * batch.discount
    a_online, a_target = actor(state.actor, batch.next_observation), actor(state.target_actor, batch.next_observation)

    def q(p, s, a):
        return critic(p, s, a)

    pred, succ = q(state.critic, batch.observation, batch.action), q(state.critic, batch.next_observation, a_online)
    pred_, succ_ = (
        q(state.target_critic, batch.observation, batch.action),
        q(state.target_critic, batch.next_observation, a_target),
    )
    r = batch.reward
    deltas = {
        "td": (r + d * succ_ - pred, None),
        "res": (r + d * succ - pred, r + d * succ - pred),
        "to": (r + d * succ_ - pred, r + d * succ_ - pred),
        "ot": (r + d * succ - pred_, r + d * succ - pred_),
        "tt": (r + d * succ_ - pred_, r + d * succ_ - pred_),
        "bi": (r + d * succ_ - pred, r + d * succ - pred_),
    }
    delta_b, delta_f = deltas[rule]
    n = len(r)
    _, pull_pred = jax.vjp(lambda p: q(p, batch.observation, batch.action), state.critic)
    _, pull_succ = jax.vjp(lambda p: q(p, batch.next_observation, a_online), state.critic)
    (gradient,) = pull_pred(-delta_b / n)
    if delta_f is not None:
        (forward,) = pull_succ(eta * d * delta_f / n)
        gradient = jax.tree.map(jnp.add, gradient, forward)
    new = {}
    for name, g, lr, params in (("critic", gradient, critic_lr, state.critic),):
        u, _ = optax.adam(lr).update(g, optax.adam(lr).init(params))
        new[name] = optax.apply_updates(params, u)
    slope = jax.grad(lambda p: -jnp.mean(q(new["critic"], batch.observation, actor(p, batch.observation))))(state.actor)
    u, _ = optax.adam(actor_lr).update(slope, optax.adam(actor_lr).init(state.actor))
    new["actor"] = optax.apply_updates(state.actor, u)
    new["target_actor"] = optax.incremental_update(new["actor"], state.target_actor, tau)
    new["target_critic"] = optax.incremental_update(new["critic"], state.target_critic, tau)
    return new


@pytest.mark.parametrize("mixed", [False, True], ids=["alone", "among all rules"])
@pytest.mark.parametrize("rule", PAPER)
def test_update_is_the_papers(rule, mixed):
    rng = np.random.default_rng(1)
    state, batch = ddpg_learner(rng), ddpg_batch(rng)
    needs = rules.needs([RULES[name] for name in (PAPER if mixed else [rule])])
    array_rule = jax.tree.map(jnp.asarray, RULES[rule])
    found, seen = update(state, hyper_of(array_rule), batch, jnp.array(True), needs)
    for name, expected in reference(state, rule, 0.3, batch).items():
        for a, b in zip(jax.tree.leaves(getattr(found, name)), jax.tree.leaves(expected), strict=True):
            np.testing.assert_allclose(a, b, atol=2e-6, err_msg=name)
    assert seen.alive


def test_adam_is_optax_adam():
    rng = np.random.default_rng(0)
    params = {"w": jnp.asarray(rng.normal(size=(4, 3)), jnp.float32)}
    ours, state, theirs = params, optimisers.init(params), params
    descend = jax.jit(optimisers.descend)
    their_state = optax.adam(3e-3).init(params)
    for _ in range(50):
        gradient = {"w": jnp.asarray(rng.normal(size=(4, 3)), jnp.float32)}
        ours, state = descend(gradient, state, ours, jnp.float32(3e-3), jnp.array(True))
        change, their_state = optax.adam(3e-3).update(gradient, their_state)
        theirs = optax.apply_updates(theirs, change)
    np.testing.assert_allclose(ours["w"], theirs["w"], rtol=2e-5)


def test_a_member_that_is_not_finite_keeps_what_it_had():
    rng = np.random.default_rng(2)
    state, batch = ddpg_learner(rng), ddpg_batch(rng)
    broken = batch._replace(reward=batch.reward.at[0].set(jnp.inf))
    found, seen = update(state, hyper_of(RULES["bi"]), broken, jnp.array(True), rules.needs([RULES["bi"]]))
    assert not seen.alive
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(state), strict=True):
        np.testing.assert_array_equal(a, b)


def test_values_beyond_the_bound_count_as_diverged():
    rng = np.random.default_rng(2)
    state, batch = ddpg_learner(rng), ddpg_batch(rng)
    huge = batch._replace(reward=batch.reward * 0 + 1e13)
    _, seen = update(state, hyper_of(RULES["td"]), huge, jnp.array(True), rules.needs([RULES["td"]]))
    assert not seen.alive


def test_networks_have_the_papers_shape_and_initialisation():
    rng = np.random.default_rng(0)
    a, c = init_actor(rng, 24, 6, (400, 300)), init_critic(rng, 24, 6, (400, 300))
    assert [layer.weight.shape for layer in a.layers] == [(24, 400), (400, 300), (300, 6)]
    assert [layer.weight.shape for layer in c.layers] == [(24, 400), (400, 300), (300, 1)]
    assert c.action.shape == (6, 300)
    joint = np.concatenate([c.layers[1].weight, c.action])  # orthogonal as one matrix
    np.testing.assert_allclose(joint.T @ joint, np.eye(300), atol=1e-5)
    np.testing.assert_allclose(a.layers[0].weight @ a.layers[0].weight.T, np.eye(24), atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(a.layers[2].weight, axis=0), 1e-3, rtol=1e-4)
    assert all(np.all(np.asarray(layer.bias) == 0) for layer in (*a.layers, *c.layers))


def test_the_actors_gradient_climbs_q():
    rng = np.random.default_rng(3)
    agent = agent_module.make(Design(DDPG_SPACE, DDPG_HIDDEN, {}, rules.needs([RULES["td"]])))
    state = agent.init(rng)
    batch = ddpg_batch(rng, 64)
    before = critic(state.critic, batch.observation, actor(state.actor, batch.observation)).mean()
    hyper = hyper_of(RULES["td"])
    hyper = hyper._replace(own={**hyper.own, "critic_lr": jnp.float32(0.0)})
    step = jax.jit(agent.update)
    for _ in range(20):
        state, _ = step(jax.random.key(0), state, hyper, batch, jnp.array(True))
    assert critic(state.critic, batch.observation, actor(state.actor, batch.observation)).mean() > before


def test_ornstein_uhlenbeck_moments():
    """After many steps the process has mean 0 and variance σ² dt / (1 − (1 − θ dt)²) = σ² / (2 θ) nearly."""
    keys = jax.random.split(jax.random.key(0), 20_000)
    step = jax.jit(lambda x, k: (ornstein_uhlenbeck(k, x, jnp.array(False), jnp.float32(0.2)),) * 2)
    _, xs = jax.lax.scan(step, jnp.zeros(8), keys)
    assert abs(float(xs[4000:].mean())) < 0.1
    assert float(xs[4000:].var()) == pytest.approx(0.2**2 / (2 * 0.15), rel=0.3)
    restarted = ornstein_uhlenbeck(keys[0], jnp.full(8, 100.0), jnp.array(True), jnp.float32(0.2))
    assert float(jnp.abs(restarted).max()) < 0.2
