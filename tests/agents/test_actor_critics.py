"""TD3 and SAC against a plain transcription in NumPy (float64, one critic at a time) and Optax."""

from functools import cache, partial
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from bires import rules
from bires.agents import critics as stacked
from bires.agents import sac, td3
from bires.agents.base import Design, Hyper
from bires.agents.critics import NextAction, NextActions
from bires.agents.networks import Dense, Mlp, critic, init_critic, init_mlp, mlp
from bires.rules import PAPER, RULES
from bires.types import Space
from tests.helpers import ddpg_batch

SPACE = Space(3, 2, (-1.0, -0.8), (0.9, 1.0))
HIDDEN = (7, 5)
GAMMA, ETA = 0.9, 0.3
OWN = {
    "td3": {"tau": 0.1, "actor_lr": 1e-2, "critic_lr": 1e-3, "noise": 0.1, "smoothing": 0.4, "smoothing_clip": 0.5},
    "sac": {"tau": 0.1, "actor_lr": 1e-2, "critic_lr": 1e-3, "alpha_lr": 2e-2, "target_entropy": -0.7},
}
MODULES = {"td3": td3, "sac": sac}
VARIANTS = list(product(("min", "own"), (False, True)))


def design_of(agent, *names, successor="min", fresh=False, norm=False, critics=2, space=SPACE):
    own = {"critics": critics, "layer_norm": norm, "forward_successor": successor, "fresh_action": fresh}
    own |= {"alpha": 0.3} if agent == "sac" else {"policy_delay": 2}
    return Design(space, HIDDEN, own, rules.needs(RULES[name] for name in names))


def hyper_of(agent, rule, eta=ETA, **changes):
    numbers = {name: jnp.float32(x) for name, x in (OWN[agent] | changes).items()}
    return Hyper(jax.tree.map(jnp.asarray, RULES[rule]), jnp.float32(eta), jnp.float32(GAMMA), numbers)


def learner_of(agent, design, seed=1):
    """A learner whose target networks differ from its online networks."""
    rng = np.random.default_rng(seed)
    state, other = MODULES[agent].init(rng, design), MODULES[agent].init(rng, design)
    state = state._replace(target_critics=other.critics.params)
    return state._replace(target_actor=other.actor) if agent == "td3" else state


@cache
def slope_of(agent, *names, **settings):
    """A design, and ∇ of its critics as a program: compiled once for all rules that share it."""
    design = design_of(agent, *names, **settings)
    return design, partial(
        jax.jit(partial(MODULES[agent].critic_slope, design), static_argnames="needs"), needs=design.needs
    )


# The transcription: plain NumPy, one critic at a time.


def one(critics, number):
    return jax.tree.map(lambda leaf: np.asarray(leaf[number], np.float64), critics)


def forward(params, x):
    for i, layer in enumerate(params.layers):
        x = x @ np.asarray(layer.weight, np.float64) + np.asarray(layer.bias, np.float64)
        if i == len(params.layers) - 1:
            return x
        if params.norms:
            x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
            x = x * params.norms[i].scale + params.norms[i].offset
        x = np.maximum(x, 0.0)
    return x


def q(params, s, a):
    return forward(params, np.concatenate([s, a], -1))[:, 0]


def following(agent, design, state, hyper, batch, key):
    """(action, bonus) for the target networks, the online networks and ∇succ."""
    s = np.asarray(batch.next_observation, np.float64)
    own = {name: float(x) for name, x in hyper.own.items()}
    low, high = np.asarray(SPACE.low), np.asarray(SPACE.high)

    def noise(key):
        return np.asarray(jax.random.normal(key, batch.action.shape), np.float64)

    if agent == "td3":
        drawn = []
        for drawing, actor in zip(
            jax.random.split(key, 3), (state.target_actor, state.actor, state.actor), strict=True
        ):
            smoothing = np.clip(own["smoothing"] * noise(drawing), -own["smoothing_clip"], own["smoothing_clip"])
            drawn.append((np.clip(np.tanh(forward(actor, s)) + smoothing, low, high), 0.0))
        target, online, fresh = drawn
    else:
        drawn = []
        for drawing in jax.random.split(key):
            mean, log_std = np.split(forward(state.actor, s), 2, axis=-1)
            std, z = np.exp(np.clip(log_std, -20, 2)), noise(drawing)
            u = mean + std * z
            density = np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi) / std / (1 - np.tanh(u) ** 2)
            drawn.append((np.tanh(u), -np.exp(float(state.log_alpha)) * np.log(density).sum(-1)))
        target, online, fresh = drawn[0], drawn[0], drawn[1]
    return target, online, fresh if design.own["fresh_action"] else online


def pseudo_loss(agent, design, state, hyper, batch, key, rule, eta=ETA):
    """θ ↦ Σ_i mean [−δ_b,i pred_i + η δ_f,i d succ_i], with both δ computed once: a function of the critics."""
    s, a, r, d, s2 = (np.asarray(x, np.float64) for x in batch)
    d = GAMMA * d
    target, online, fresh = following(agent, design, state, hyper, batch, key)
    count, own = design.own["critics"], design.own["forward_successor"] == "own"

    def succ(critics, drawn):
        """(the minimum, each critic's own), with the bonus."""
        each = np.stack([q(one(critics, j), s2, drawn[0]) for j in range(count)]) + drawn[1]
        return np.broadcast_to(each.min(0), each.shape), each

    def pred(critics):
        return np.stack([q(one(critics, i), s, a) for i in range(count)])

    networks = {"": (state.critics.params, online), "⁻": (state.target_critics, target)}
    reads = {"td": ("⁻", "", "", ""), "res": ("", "", "", ""), "to": ("⁻", "", "⁻", "")}
    reads |= {"ot": ("", "⁻", "", "⁻"), "tt": ("⁻", "⁻", "⁻", "⁻"), "bi": ("⁻", "", "", "⁻")}
    succ_b, pred_b, succ_f, pred_f = reads[rule]
    delta_b = r + d * succ(*networks[succ_b])[0] - pred(networks[pred_b][0])
    delta_f = r + d * succ(*networks[succ_f])[own] - pred(networks[pred_f][0])

    def value(critics):
        total = np.mean(-delta_b * pred(critics), -1)
        if rule != "td":
            total = total + np.mean(eta * delta_f * d * succ(critics, fresh)[own], -1)
        return total.sum()

    return value, delta_b


def slope_along(function, critics, direction, step=1e-6):
    """A central finite difference."""

    def moved(length):
        return jax.tree.map(lambda x, v: np.asarray(x, np.float64) + length * v, critics, direction)

    return (function(moved(step)) - function(moved(-step))) / (2 * step)


def assert_gradient(found, function, critics, seed=0):
    rng = np.random.default_rng(seed)
    for _ in range(4):
        direction = jax.tree.map(lambda leaf: rng.normal(size=leaf.shape), critics)
        expected = slope_along(function, critics, direction)
        got = sum(np.vdot(g, v) for g, v in zip(jax.tree.leaves(found), jax.tree.leaves(direction), strict=True))
        np.testing.assert_allclose(got, expected, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize(("successor", "fresh"), VARIANTS)
@pytest.mark.parametrize("rule", PAPER)
@pytest.mark.parametrize("agent", MODULES)
def test_the_critics_gradient_is_the_rules(agent, rule, successor, fresh):
    """Among all rules, with three critics and layer normalisation; and alone, with two and without, as they begin."""
    batch = ddpg_batch(np.random.default_rng(2))
    alone = [((rule,), 2, False)] if (successor, fresh) == VARIANTS[0] else []
    for names, count, norm in (*alone, (tuple(RULES), 3, True)):
        design, slope = slope_of(agent, *names, successor=successor, fresh=fresh, norm=norm, critics=count)
        state, hyper, key = learner_of(agent, design), hyper_of(agent, rule), jax.random.key(5)
        found = slope(key, state, hyper, batch)
        function, delta = pseudo_loss(agent, design, state, hyper, batch, key, rule)
        np.testing.assert_allclose(found.delta, delta, rtol=1e-4, atol=1e-5)
        assert_gradient(found.gradient, function, state.critics.params)


@pytest.mark.parametrize("agent", MODULES)
def test_eta_zero_is_the_plain_agent_and_rules_coincide_where_networks_do(agent):
    design, program = slope_of(agent, *PAPER)
    batch, key = ddpg_batch(np.random.default_rng(3)), jax.random.key(1)
    state = learner_of(agent, design)

    def slope(rule, eta, state):
        hyper = hyper_of(agent, rule, eta, **({"smoothing": 0.0} if agent == "td3" else {}))
        return program(key, state, hyper, batch).gradient

    for name in ("to", "bi"):
        jax.tree.map(np.testing.assert_array_equal, slope(name, 0.0, state), slope("td", 0.3, state))
    same = state._replace(target_critics=state.critics.params)
    same = same._replace(target_actor=state.actor) if agent == "td3" else same
    expected = slope("res", ETA, same)
    for name in ("to", "ot", "tt", "bi"):
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6), slope(name, ETA, same), expected)


@partial(jax.jit, static_argnums=0)
def adam(rate, params, gradient):
    change, _ = optax.adam(rate).update(gradient, optax.adam(rate).init(params))
    return optax.apply_updates(params, change)


def assert_close(a, b, name=""):
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_allclose(x, y, atol=3e-6, err_msg=name)


@pytest.mark.parametrize("rule", ["td", "bi"])
def test_td3_moves_its_actor_and_targets_in_the_delayed_part_only(rule):
    design, slope = slope_of("td3", rule)
    agent, state, hyper = td3.make(design), learner_of("td3", design), hyper_of("td3", rule)
    batch, key, alive = ddpg_batch(np.random.default_rng(4)), jax.random.key(2), jnp.array(True)
    assert agent.delay == 2
    assert agent.delayed is not None
    new, seen = agent.update(key, state, hyper, batch, alive)
    gradient = slope(key, state, hyper, batch).gradient
    assert_close(new.critics.params, adam(1e-3, state.critics.params, gradient), "critics")
    assert new.actor is state.actor
    assert new.target_critics is state.target_critics

    later, ok = jax.jit(agent.delayed)(key, new, hyper, batch, seen.alive)
    first = one(new.critics.params, 0)

    def loss(actor):
        action = jnp.tanh(mlp(actor, batch.observation))
        return -jnp.mean(mlp(first, jnp.concatenate([batch.observation, action], -1)))

    assert ok
    assert_close(later.actor, adam(1e-2, state.actor, jax.jit(jax.grad(loss))(state.actor)), "actor")
    assert_close(later.target_actor, optax.incremental_update(later.actor, state.target_actor, 0.1), "target actor")
    assert_close(
        later.target_critics, optax.incremental_update(new.critics.params, state.target_critics, 0.1), "targets"
    )


@pytest.mark.parametrize("rule", ["td", "bi"])
def test_sac_moves_critics_actor_coefficient_and_targets(rule):
    design, slope = slope_of("sac", rule)
    agent, state, hyper = sac.make(design), learner_of("sac", design), hyper_of("sac", rule)
    batch, key, alive = ddpg_batch(np.random.default_rng(4)), jax.random.key(2), jnp.array(True)
    new, seen = jax.jit(agent.update)(key, state, hyper, batch, alive)
    critic_key, actor_key, _ = jax.random.split(key, 3)
    gradient = slope(critic_key, state, hyper, batch).gradient
    assert_close(new.critics.params, adam(1e-3, state.critics.params, gradient), "critics")
    z = jax.random.normal(actor_key, batch.action.shape)
    first, second = one(new.critics.params, 0), one(new.critics.params, 1)

    def log_density(actor):
        mean, log_std = jnp.split(mlp(actor, batch.observation), 2, axis=-1)
        u = mean + jnp.exp(log_std) * z
        normal = -0.5 * ((u - mean) / jnp.exp(log_std)) ** 2 - log_std - 0.5 * jnp.log(2 * jnp.pi)
        return jnp.tanh(u), jnp.sum(normal - jnp.log(1 - jnp.tanh(u) ** 2), -1)

    def loss(actor):
        action, log_prob = log_density(actor)
        x = jnp.concatenate([batch.observation, action], -1)
        least = jnp.minimum(mlp(first, x), mlp(second, x))[:, 0]
        return jnp.mean(0.3 * log_prob - least)

    assert_close(new.actor, adam(1e-2, state.actor, jax.jit(jax.grad(loss))(state.actor)), "actor")
    entropy = -jnp.mean(jax.jit(log_density)(state.actor)[1])
    gap = entropy - (-0.7 * 2)  # ∂/∂ log α of −log α · mean [log π + H]
    assert_close(new.log_alpha, adam(2e-2, state.log_alpha, gap), "log α")
    assert_close(new.target_critics, optax.incremental_update(new.critics.params, state.target_critics, 0.1), "targets")
    assert seen.alive
    np.testing.assert_allclose(seen.metrics["alpha"], 0.3, rtol=1e-6)


def test_sacs_log_density_integrates_to_one():
    """∫ π(a|s) da over [−1, 1] is 1, for one action number; also where tanh saturates the density is finite."""
    actor = Mlp((Dense(jnp.zeros((1, 2)), jnp.array([0.4, -0.3])),))
    u = np.linspace(-8, 8, 20_001)
    mean, std = 0.4, np.exp(-0.3)

    def log_prob(u):
        z = jnp.asarray([[(u - mean) / std]])
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(jax.random, "normal", lambda key, shape: z)
            return sac.sample(actor, jax.random.key(0), jnp.zeros((1, 1))).log_prob[0]

    density = np.array([float(log_prob(x)) for x in u[::200]])
    slope = 1 - np.tanh(u[::200]) ** 2
    np.testing.assert_allclose(np.trapezoid(np.exp(density) * slope, u[::200]), 1.0, atol=1e-4)
    assert np.isfinite(float(log_prob(40.0)))


def test_a_shared_next_action_adds_the_gradient_of_a_variance_and_a_fresh_one_does_not():
    """Q(s', a') = w a' with a' ~ N(0, σ²): E[δ ∇Q] is E[δ] E[∇Q] = 0 with a fresh a', γ w σ² more with a shared one."""
    sigma, w, count = 0.7, 1.3, 400_000
    critics = Mlp((Dense(jnp.array([[[0.0], [w]]]), jnp.zeros((1, 1))),))  # one critic, one layer: Q = w a
    rng = np.random.default_rng(0)
    zero = jnp.zeros((count, 1))
    batch = ddpg_batch(rng)._replace(
        observation=zero, action=zero, reward=jnp.zeros(count), discount=jnp.ones(count), next_observation=zero
    )
    draws = [NextAction(jnp.asarray(sigma * rng.normal(size=(count, 1)), jnp.float32)) for _ in range(2)]
    hyper, needs = hyper_of("sac", "res", 1.0), rules.needs([RULES["res"]])

    def slope(fresh):
        following = NextActions(None, draws[0], draws[1] if fresh else None)
        found = stacked.rule_slope(critics, critics, hyper, batch, needs, following, own=False)
        return float(found.gradient.layers[0].weight[0, 1, 0])

    error = 4 * GAMMA**2 * w * sigma**2 / np.sqrt(count)
    np.testing.assert_allclose(slope(False), GAMMA**2 * w * sigma**2, atol=error)
    np.testing.assert_allclose(slope(True), 0.0, atol=error)


@pytest.mark.parametrize("agent", MODULES)
def test_a_member_that_is_not_finite_keeps_what_it_had(agent):
    design = design_of(agent, "bi")
    made, state = MODULES[agent].make(design), learner_of(agent, design)
    batch = ddpg_batch(np.random.default_rng(2))
    broken = batch._replace(reward=batch.reward.at[0].set(jnp.inf))
    found, seen = jax.jit(made.update)(jax.random.key(0), state, hyper_of(agent, "bi"), broken, jnp.array(True))
    assert not seen.alive
    if made.delayed is not None:
        found, alive = jax.jit(made.delayed)(jax.random.key(0), found, hyper_of(agent, "bi"), broken, seen.alive)
        assert not alive
    jax.tree.map(np.testing.assert_array_equal, found, state)


def test_layers_begin_as_pytorchs_do():
    made = init_mlp(np.random.default_rng(0), (20, 300, 4), layer_norm=True)
    for layer, inputs in zip(made.layers, (20, 300), strict=True):
        for array in layer:
            assert np.abs(array).max() <= 1 / np.sqrt(inputs)
        np.testing.assert_allclose(np.std(layer.weight), 1 / np.sqrt(3 * inputs), rtol=0.05)
    assert [norm.scale.shape for norm in made.norms] == [(300,)]


def test_layer_normalisation_makes_ddpgs_critic_blind_to_the_scale_of_its_first_layer():
    rng = np.random.default_rng(0)
    params = init_critic(rng, 3, 2, (6, 4), layer_norm=True)
    observation, action = (jnp.asarray(rng.normal(size=(5, n)), jnp.float32) for n in (3, 2))
    scaled = params._replace(layers=(Dense(9 * params.layers[0].weight, params.layers[0].bias), *params.layers[1:]))
    expected = critic(params, observation, action)
    np.testing.assert_allclose(critic(scaled, observation, action), expected, rtol=1e-3, atol=1e-7)
    plain = critic(params._replace(norms=()), observation, action)
    assert not np.allclose(plain, expected)
