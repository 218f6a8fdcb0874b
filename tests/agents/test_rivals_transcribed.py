"""The gradient of every rival in every agent, against a plain transcription of its equation.

The networks are written again here, and each term of an update has a gradient of its own: JAX's, which finite
differences check.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bires import rules
from bires.agents import critics as stacked
from bires.agents import ddpg, dqn, sac, td3
from bires.agents.base import Design
from bires.rules import RULES
from tests.agents.test_actor_critics import MODULES, design_of, learner_of
from tests.agents.test_actor_critics import hyper_of as hyper_of_twins
from tests.agents.test_rivals import CHOICES, DQN_OWN, ETA, GAMMA, RIVALS, flat, hyper_of
from tests.agents.test_rivals import learner_of as ddpg_learner_of
from tests.helpers import ddpg_batch

BATCH = ddpg_batch(np.random.default_rng(2), 64)
KEY = jax.random.key(5)


class Written(NamedTuple):
    """What a transcription needs of an agent: (critics, batch) for pred and h, (batch,) for succ."""

    params: Any
    pred: Callable[[Any], jax.Array]
    succ: Callable[[Any], jax.Array]
    target_pred: jax.Array
    target_succ: jax.Array
    h: jax.Array | None
    found: Any
    """The gradient that the package computes."""
    least: jax.Array | None = None


def forward(params: Any, x: jax.Array) -> Any:
    for layer in params.layers[:-1]:
        x = jax.nn.relu(x @ layer.weight + layer.bias)
    return x @ params.layers[-1].weight + params.layers[-1].bias


def twins(agent: str, rule: str) -> Written:
    design = design_of(agent, rule)
    state, hyper, s = learner_of(agent, design), hyper_of_twins(agent, rule, ETA), BATCH.next_observation
    if agent == "td3":
        keys = jax.random.split(KEY, 3)
        same = rule in ("convergent", "minto")  # they compare two networks, so at the same noise

        def smoothed(actor: Any, key: jax.Array) -> Any:
            noise = jnp.clip(0.4 * jax.random.normal(key, BATCH.action.shape), -0.5, 0.5)
            return jnp.clip(jnp.tanh(forward(actor, s)) + noise, *map(jnp.array, (design.space.low, design.space.high)))

        theirs, ours = smoothed(state.target_actor, keys[0]), smoothed(state.actor, keys[0 if same else 1])
        bonus = jnp.zeros(())
    else:
        mean, log_std = jnp.split(forward(state.actor, s), 2, -1)
        z = jax.random.normal(jax.random.split(KEY)[0], mean.shape)
        u = mean + jnp.exp(log_std) * z
        density = -0.5 * z**2 - log_std - 0.5 * jnp.log(2 * jnp.pi) - jnp.log(1 - jnp.tanh(u) ** 2)
        theirs, ours, bonus = jnp.tanh(u), jnp.tanh(u), -0.3 * jnp.sum(density, -1)

    def q(params: Any, s: jax.Array, a: jax.Array) -> Any:
        both = jnp.concatenate([s, a], -1)
        return jnp.stack([forward(jax.tree.map(lambda x, i=i: x[i], params), both)[:, 0] for i in range(2)])

    here = (BATCH.observation, BATCH.action)
    estimate = state.critics.estimate
    return Written(
        state.critics.params,
        lambda params: q(params, *here),
        lambda params: q(params, s, ours).min(0) + bonus,
        q(state.target_critics, *here),
        q(state.target_critics, s, theirs).min(0) + bonus,
        None if estimate is None else q(estimate, *here),
        MODULES[agent].critic_slope(design, KEY, state, hyper, BATCH, design.needs).gradient,
    )


def single(rule: str) -> Written:
    state, s = ddpg_learner_of(rule), BATCH.next_observation

    def q(params: Any, s: jax.Array, a: jax.Array) -> Any:
        first, second, last = params.layers
        x = jax.nn.relu(s @ first.weight + first.bias)
        x = jax.nn.relu(x @ second.weight + a @ params.action + second.bias)
        return (x @ last.weight + last.bias)[:, 0]

    here = (BATCH.observation, BATCH.action)
    ours, theirs = (jnp.tanh(forward(actor, s)) for actor in (state.actor, state.target_actor))
    return Written(
        state.critic,
        lambda params: q(params, *here)[None],
        lambda params: q(params, s, ours),
        q(state.target_critic, *here)[None],
        q(state.target_critic, s, theirs),
        None if state.estimate is None else q(state.estimate, *here)[None],
        ddpg.critic_slope(state, hyper_of(rule), BATCH, rules.needs([RULES[rule]])).gradient,
    )


def discrete(rule: str) -> Written:
    rng, design = np.random.default_rng(0), Design(CHOICES, (8, 8), DQN_OWN, rules.needs([RULES[rule]]))
    batch = BATCH._replace(action=jnp.asarray(rng.integers(0, 4, (64, 1)), jnp.float32))
    state = dqn.init(rng, design)
    state = state._replace(target=dqn.init(rng, design).online)
    s, rows, taken = batch.next_observation, jnp.arange(64), batch.action[:, 0].astype(int)
    best = forward(state.online, s).argmax(-1)

    def pred(params: Any) -> Any:
        return forward(params, batch.observation)[rows, taken][None]

    return Written(
        state.online,
        pred,
        lambda params: forward(params, s)[rows, best],
        pred(state.target),
        forward(state.target, s).max(-1),
        None if state.estimate is None else pred(state.estimate),
        dqn.gradient(state, hyper_of(rule), batch, design).gradient,
        jnp.minimum(forward(state.online, s), forward(state.target, s)).max(-1),
    )


def expected(rule: str, of: Written) -> Any:
    """The update of a rival: REFERENCE's equations, term by term."""
    r, d, eta = BATCH.reward, GAMMA * BATCH.discount, ETA
    pred, succ = of.pred(of.params), of.succ(of.params)
    semi, full = r + d * of.target_succ - pred, r + d * succ - pred

    def backward(error: jax.Array) -> Any:
        return flat(jax.grad(lambda params: jnp.sum(jnp.mean(-error * of.pred(params), -1)))(of.params))

    def ahead(push: jax.Array) -> Any:
        return flat(jax.grad(lambda params: jnp.sum(jnp.mean(push * d * of.succ(params), -1)))(of.params))

    if rule == "convergent":
        larger = abs(semi) < abs(full)
        assert 0.1 < larger.mean() < 0.9
        return backward(jnp.where(larger, full, semi)) + ahead(jnp.where(larger, full, 0.0))
    if rule == "online":
        return backward(full)
    if rule == "minto":
        least = jnp.minimum(succ, of.target_succ) if of.least is None else of.least
        return backward(r + d * least - pred)
    if rule == "fr":
        return backward(full + eta * (of.target_pred - pred))
    if rule == "qrc":
        assert of.h is not None
        return backward(full) + ahead(of.h)
    if rule == "ortho":
        b, f = backward(semi), ahead(eta * (r + d * succ - of.target_pred))
        return b + f - (b @ f) / (b @ b) * b
    assert rule == "baird"
    b, f = backward(full), ahead(full)
    along, whole = b @ (b + f), (b + f) @ (b + f)
    return b + min((along / (along - whole) if along < 0 else 0.0) + eta, 1.0) * f


@pytest.mark.parametrize("rule", RIVALS)
@pytest.mark.parametrize("agent", ["ddpg", "td3", "sac", "dqn"])
def test_the_gradient_is_the_equations(agent: str, rule: str) -> None:
    of = single(rule) if agent == "ddpg" else discrete(rule) if agent == "dqn" else twins(agent, rule)
    wanted, found = expected(rule, of), flat(of.found)
    assert np.linalg.norm(wanted) > 1e-3
    np.testing.assert_allclose(found, wanted, atol=1e-5 * abs(wanted).max())


@pytest.mark.parametrize("agent", ["td3", "sac"])
@pytest.mark.parametrize(("rule", "raised"), [("convergent", 1e-3), ("minto", -1e-3)])
def test_a_rule_that_compares_the_networks_does_so_at_the_same_action(agent: str, rule: str, raised: float) -> None:
    """The target network's values differ from the online ones by a constant that is smaller than what another noise
    makes of them. Then all samples have the semi-gradient: its error is the larger, or its successor the smaller."""
    design = design_of(agent, rule, "td")
    state = learner_of(agent, design)
    *layers, last = state.critics.params.layers
    target = state.critics.params._replace(layers=(*layers, last._replace(bias=last.bias + raised)))
    state = state._replace(target_critics=target)
    state = state._replace(target_actor=state.actor) if agent == "td3" else state
    module, batch = MODULES[agent], BATCH._replace(reward=BATCH.reward + 10)  # so that errors are positive
    found, plain = (
        module.critic_slope(design, KEY, state, hyper_of_twins(agent, name), batch, design.needs).gradient
        for name in (rule, "td")
    )
    np.testing.assert_allclose(flat(found), flat(plain), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("agent", ["td3", "sac"])
def test_c_dqn_with_each_critics_own_successor_takes_steps_of_a_loss(agent: str) -> None:
    """Where a sample has the full residual step, that is the gradient of ½ δ'² of the δ' that the forward term has."""
    design = design_of(agent, "convergent", successor="own")
    state, hyper, s = learner_of(agent, design), hyper_of_twins(agent, "convergent"), BATCH.next_observation
    if agent == "td3":
        key = jax.random.split(KEY, 3)[0]
        actors = (state.actor, state.target_actor)
        ours, theirs = (td3.smoothed(design, key, hyper, actor, s) for actor in actors)
    else:
        ours = theirs = sac.soft(state, jax.random.split(KEY)[0], s)
    target = stacked.smallest(state.target_critics, s, theirs.action) + theirs.bonus

    def errors(params: Any) -> tuple[jax.Array, jax.Array]:
        pred, succ = stacked.values(params, BATCH.observation, BATCH.action), stacked.values(params, s, ours.action)
        rest = BATCH.reward - pred, GAMMA * BATCH.discount
        return rest[0] + rest[1] * target, rest[0] + rest[1] * (succ + ours.bonus)

    def loss(params: Any) -> jax.Array:
        semi, full = errors(params)
        return jnp.sum(jnp.mean(0.5 * jnp.maximum(semi**2, full**2), -1))

    semi, full = errors(state.critics.params)
    assert 0.1 < np.mean(abs(semi) < abs(full)) < 0.9
    wanted = flat(jax.grad(loss)(state.critics.params))
    found = MODULES[agent].critic_slope(design, KEY, state, hyper, BATCH, design.needs).gradient
    np.testing.assert_allclose(flat(found), wanted, atol=1e-5 * abs(wanted).max())


@pytest.mark.parametrize("agent", ["ddpg", "dqn"])
@pytest.mark.parametrize("rule", [name for name in RULES if name in rules.PAPER])
def test_single_critics_follow_finite_differences(agent: str, rule: str) -> None:
    """The pseudo-loss with both errors held constant, in float64 and by differences, along random directions."""
    of = single(rule) if agent == "ddpg" else discrete(rule)
    r, d, kind = BATCH.reward, GAMMA * BATCH.discount, RULES[rule]
    pred, succ = of.pred(of.params)[0], of.succ(of.params)

    def error(delta: Any) -> Any:
        return r + d * (succ if delta.succ else of.target_succ) - (pred if delta.pred else of.target_pred[0])

    back = np.asarray(error(kind.backward), np.float64)
    push = np.asarray(ETA * error(kind.forward), np.float64) if kind.bidirectional else np.zeros(64)

    def loss(params: Any) -> float:
        with jax.enable_x64(True):
            wide = jax.tree.map(lambda x: jnp.asarray(x, jnp.float64), params)
            return float(np.mean(-back * of.pred(wide)[0] + push * np.asarray(d, np.float64) * of.succ(wide)))

    leaves, tree = jax.tree.flatten(jax.tree.map(lambda x: np.asarray(x, np.float64), of.params))
    rng = np.random.default_rng(0)
    for _ in range(3):
        direction = [rng.normal(size=leaf.shape) for leaf in leaves]
        ends = [
            loss(jax.tree.unflatten(tree, [leaf + step * way for leaf, way in zip(leaves, direction, strict=True)]))
            for step in (1e-6, -1e-6)
        ]
        along = flat(of.found) @ np.concatenate([np.ravel(way) for way in direction])
        assert (ends[0] - ends[1]) / 2e-6 == pytest.approx(along, rel=2e-3, abs=1e-4)
