"""Planners' gradients by hand, and what they leave alone."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bires import rules
from bires.agents import critics as stacked
from bires.agents import ddpg, td3
from bires.agents.base import Design, Hyper, PlanningNumbers
from bires.agents.networks import Actor, Critic, Dense, actor, critic
from bires.agents.optimisers import init as adam
from bires.planning import dyna, mve, recipe
from bires.planning.base import Imagined, Planning, Use
from bires.rules import RULES
from bires.types import Space, Transition
from tests import environments  # noqa: F401
from tests.agents.test_actor_critics import design_of, hyper_of, learner_of
from tests.helpers import ddpg_batch, ddpg_learner

GAMMA, ETA = 0.5, 0.25
ONLINE, TARGET = (3.0, 5.0), (7.0, 11.0)
"""The values that the two networks give to the two states."""


def planner_for(rule="td", steps=1, horizon=0, paper=True):
    needs = rules.needs([RULES["td"]])
    uses = [Use(dyna.KIND, steps, 1, horizon == 0)] * bool(steps) + [Use(mve.KIND, 1, horizon, True)] * bool(horizon)
    shared = (("mve_loss", "paper" if paper else "original"),)
    return Planning(lambda key: ddpg.PARTS, needs, rules.needs([RULES[rule]]), tuple(uses), shared)


def hyper_for(rule="td", steps=1, horizon=0, gamma=GAMMA):
    own = {name: jnp.float32(x) for name, x in {"tau": 0.0, "actor_lr": 0.0, "critic_lr": 1e-3, "noise": 0.0}.items()}
    array_rule = jax.tree.map(jnp.asarray, RULES[rule])
    numbers = {
        "planning_steps": jnp.int32(steps),
        "planning_noise": jnp.float32(0.1),
        "horizon": jnp.int32(horizon),
    }
    uses = {"dyna": jnp.array(steps > 0), "mve": jnp.array(horizon > 0)}
    planning = PlanningNumbers(array_rule, jnp.float32(ETA), numbers, uses)
    return Hyper(jax.tree.map(jnp.asarray, RULES["td"]), jnp.float32(0.0), jnp.float32(gamma), own, planning)


def two_states():
    """A DDPG learner whose critic is linear in two states: Q(s, a) = w · s, whatever the action."""

    def linear(values):
        eye = Dense(jnp.eye(2), jnp.zeros(2))
        return Critic((eye, eye, Dense(jnp.asarray(values, jnp.float32)[:, None], jnp.zeros(1))), jnp.zeros((1, 2)))

    still = Actor((Dense(jnp.zeros((2, 2)), jnp.zeros(2)), Dense(jnp.zeros((2, 1)), jnp.zeros(1))))
    online = linear(ONLINE)
    return ddpg.DDPGLearner(still, online, still, linear(TARGET), adam(still), adam(online))


S1, S2 = jnp.array([[1.0, 0.0]]), jnp.array([[0.0, 1.0]])
STILL = jnp.zeros((1, 1))


planned_update = jax.jit(recipe.update, static_argnums=0)
slope_of = jax.jit(mve.slope, static_argnums=0)
imagined_update = jax.jit(dyna.update, static_argnums=0)


def real(reward=1.0, discount=1.0):
    """One transition from the first state to the second."""
    return Transition(S1, STILL, jnp.array([reward]), jnp.array([discount]), S2)


def weights(slope):
    return np.asarray(slope.gradient.layers[-1].weight)[:, 0]


# With r = 2: td: δ = 2 + ½·11 − 3 = 4.5;  res: δ = 2 + ½·5 − 3 = 1.5, forward η γ δ = ¼·½·1.5;  to: δ = 4.5, forward
# ¼·½·4.5;  ot: δ = 2 + ½·5 − 7 = −2.5;  tt: δ = 2 + ½·11 − 7 = 0.5;  bi: δ_b = 4.5, δ_f = −2.5.
BY_HAND = {
    "td": (-4.5, 0.0),
    "res": (-1.5, 0.1875),
    "to": (-4.5, 0.5625),
    "ot": (2.5, -0.3125),
    "tt": (-0.5, 0.0625),
    "bi": (-4.5, -0.3125),
}


@pytest.mark.parametrize("rule", BY_HAND)
def test_dynas_gradient_by_hand(rule):
    """The imagined update follows its own rule and η, not the real update's; a real end does not reach it."""
    state, planner = two_states(), planner_for(rule)
    imagined = dyna.transition(real(discount=0.0), Imagined(STILL[None, None], jnp.array([[[2.0]]]), S2[None, None]), 0)
    assert imagined.discount == 1.0
    hyper = hyper_for(rule)
    planning = hyper._replace(rule=hyper.planning.rule, eta=hyper.planning.eta)
    found = jax.jit(planner.parts.slope, static_argnums=3)(state, planning, imagined, planner.imagined)
    np.testing.assert_allclose(weights(found), BY_HAND[rule], rtol=1e-6)
    moved, alive, loss = imagined_update(planner, state, hyper, imagined, jnp.array(True))
    assert alive
    assert loss > 0
    change = np.asarray(moved.critic.layers[-1].weight - state.critic.layers[-1].weight)[:, 0]
    np.testing.assert_array_equal(np.sign(np.round(change, 6)), -np.sign(BY_HAND[rule]))
    for a, b in zip(jax.tree.leaves(moved.actor), jax.tree.leaves(state.actor), strict=True):
        np.testing.assert_array_equal(a, b)


# k = 2 from (s₁, r₀ = 1, s₂): the model says s₂ → s₁ with r₁ = 2, then s₁ → s₂ with r₂ = 4. Bootstrap: Q⁻(s₂) = 11.
# y₁ = 4 + ½·11 = 9.5;  y₀ = 2 + ½·9.5 = 6.75;  y₋₁ = 1 + ½·6.75 = 4.375 (original) or 1 + ½·11 = 6.5 (paper).
# Q(s₋₁) = Q(s₁) = 3, Q(s₀) = Q(s₂) = 5, Q(s₁) = 3.
ROLLOUT = Imagined(jnp.zeros((2, 1, 1, 1)), jnp.array([[[2.0]], [[4.0]]]), jnp.stack([S1, S2])[:, None])


@pytest.mark.parametrize(
    ("paper", "discount", "expected"),
    [
        # −[(4.375 − 3) + (9.5 − 3)] / 3 for the first state, −(6.75 − 5) / 3 for the second
        (False, 1.0, (-(1.375 + 6.5) / 3, -1.75 / 3)),
        # every error exceeds 1, where Huber's slope is ±1: −1 (real) − ½ (imagined), and −½
        (True, 1.0, (-1.5, -0.5)),
        # after a true end nothing is imagined: δ = 1 − 3 = −2
        (False, 0.0, (2.0 / 3, 0.0)),
        (True, 0.0, (1.0, 0.0)),
    ],
)
def test_mves_gradient_by_hand(paper, discount, expected):
    planner = planner_for(steps=0, horizon=2, paper=paper)
    found = slope_of(planner, two_states(), hyper_for(steps=0, horizon=2), real(discount=discount), ROLLOUT)
    np.testing.assert_allclose(weights(found), expected, rtol=1e-6)


@pytest.mark.parametrize("paper", [False, True])
def test_mve_with_one_step_is_its_hand_written_loss(paper):
    rng = np.random.default_rng(5)
    state, batch = ddpg_learner(rng), ddpg_batch(rng)
    d, k = 0.9, 1
    a0 = actor(state.target_actor, batch.next_observation)
    r1, s1 = jnp.asarray(rng.normal(size=8), jnp.float32), jnp.asarray(rng.normal(size=(8, 3)), jnp.float32)

    def bootstrap(s):
        return critic(state.target_critic, s, actor(state.target_actor, s))

    def loss(params):
        y0 = r1 + d * bootstrap(s1)
        first = batch.reward + d * batch.discount * (bootstrap(batch.next_observation) if paper else y0)
        e_real = critic(params, batch.observation, batch.action) - first
        e_imagined = critic(params, batch.next_observation, a0) - y0
        if not paper:
            return jnp.mean(0.5 * e_real**2 + batch.discount * 0.5 * e_imagined**2) / 2
        f = [jnp.where(jnp.abs(e) < 1, 0.5 * e**2, jnp.abs(e) - 0.5) for e in (e_real, e_imagined)]
        return jnp.mean(f[0] + batch.discount * f[1])

    expected = jax.jit(jax.grad(loss))(state.critic)
    for rounds in (1, 3):  # more rounds, for another member's sake, must not matter
        pad = rounds - 1
        rollout = Imagined(
            jnp.concatenate([a0[None], jnp.full((pad, 8, 2), 9.0)])[:, None],
            jnp.concatenate([r1[None], jnp.full((pad, 8), 9.0)])[:, None],
            jnp.concatenate([s1[None], jnp.full((pad, 8, 3), 9.0)])[:, None],
        )
        planner, hyper = planner_for(steps=0, horizon=rounds, paper=paper), hyper_for(steps=0, horizon=k, gamma=d)
        found = slope_of(planner, state, hyper, batch, rollout)
        for a, b in zip(jax.tree.leaves(found.gradient), jax.tree.leaves(expected), strict=True):
            np.testing.assert_allclose(a, b, atol=1e-6)


@pytest.mark.parametrize("paper", [False, True])
def test_a_rollout_that_overflows_beyond_a_members_own_steps_does_not_touch_it(paper):
    """A learned model may be unstable over the steps that it is asked for by a member with a longer horizon."""
    rng = np.random.default_rng(5)
    state, batch = ddpg_learner(rng), ddpg_batch(rng)
    rollout = Imagined(*(jnp.asarray(rng.normal(size=(3, 1, 8, *n)), jnp.float32) for n in ((2,), (), (3,))))
    unstable = Imagined(*(x.at[1:].set(jnp.nan) for x in rollout[:3]))
    planner, hyper = planner_for(steps=0, horizon=3, paper=paper), hyper_for(steps=0, horizon=1)
    found, expected = (slope_of(planner, state, hyper, batch, one) for one in (unstable, rollout))
    jax.tree.map(np.testing.assert_array_equal, found.gradient, expected.gradient)
    assert np.isfinite(found.gradient.layers[0].bias).all()


def test_mves_term_of_the_real_transition_is_the_agents_own():
    """Under the paper's protocol rollouts clip actions to the bounds (here ±0.4), and DDPG's targets do not."""
    rng = np.random.default_rng(5)
    state, batch = ddpg_learner(rng), ddpg_batch(rng)
    state = state._replace(target_actor=jax.tree.map(lambda x: 300 * x, state.target_actor))
    bound = replace(ddpg.PARTS, clip=lambda action: jnp.clip(action, -0.4, 0.4))
    planner = replace(planner_for(steps=0, horizon=1), make_parts=lambda key: bound)
    first = mve.KIND.first(bound, jax.random.key(0), state, hyper_for(), batch, 1)
    assert abs(actor(state.target_actor, batch.next_observation)).max() > 0.5
    rollout = Imagined(first[None], jnp.zeros((1, 1, 8)), batch.observation[None, None])
    found = mve.slope(planner, state, hyper_for(steps=0, horizon=1), batch, rollout)
    plain = ddpg.critic_slope(state, hyper_for(), batch, rules.needs([RULES["td"]]))
    np.testing.assert_allclose(found.delta, plain.delta, rtol=1e-5)


def test_mve_td3s_term_of_the_real_transition_has_smoothed_actions():
    design, key = design_of("td3", "td"), jax.random.key(3)
    state, hyper, batch = learner_of("td3", design), hyper_of("td3", "td"), ddpg_batch(np.random.default_rng(2))
    parts = td3.make_parts(design, key)
    succ = mve.bootstrapped(parts, state, hyper, batch.next_observation)
    delta = parts.slope(state, hyper, batch, design.needs).delta
    pred = stacked.values(state.critics.params, batch.observation, batch.action)
    np.testing.assert_allclose(delta, batch.reward + hyper.gamma * batch.discount * succ - pred, rtol=1e-4, atol=1e-6)


def test_the_order_is_critic_actor_imagined_updates_targets():
    rng = np.random.default_rng(6)
    state, batch = ddpg_learner(rng), ddpg_batch(rng)
    planner = planner_for("res", steps=2)
    hyper = hyper_for("res", steps=2)
    hyper = hyper._replace(own={**hyper.own, "tau": jnp.float32(0.1), "actor_lr": jnp.float32(1e-2)})
    nearby = Imagined(*(jnp.asarray(rng.normal(size=(1, 2, 8, *n)), jnp.float32) for n in ((2,), (), (3,))))
    alive = jnp.array(True)
    found, seen, _ = jax.jit(recipe.update, static_argnums=0)(planner, state, hyper, batch, (nearby,), alive)

    @jax.jit
    def by_parts(step):
        parts = ddpg.PARTS
        step, _ = parts.critic(step, hyper, parts.slope(step, hyper, batch, planner.real), alive)
        step, _ = parts.actor(step, hyper, batch, alive)
        for p in range(2):
            step, _, _ = dyna.update(planner, step, hyper, dyna.transition(batch, nearby, p), alive)
        return parts.targets(step, hyper, alive)

    assert seen.alive
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(by_parts(state)), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6)


def test_an_imagined_value_that_is_not_finite_freezes_only_a_member_that_uses_it():
    rng = np.random.default_rng(7)
    state, batch = ddpg_learner(rng), ddpg_batch(rng)
    broken = Imagined(jnp.zeros((1, 1, 8, 2)), jnp.full((1, 1, 8), jnp.inf), jnp.zeros((1, 1, 8, 3)))
    for steps, alive in ((1, False), (0, True)):
        _, seen, _ = planned_update(planner_for(), state, hyper_for(steps=steps), batch, (broken,), jnp.array(True))
        assert bool(seen.alive) is alive


def test_proposals_are_clipped_and_spread_as_asked():
    action = jnp.zeros((20_000, 1)).at[0].set(1.0)
    found = dyna.proposals(ddpg.PARTS, jax.random.key(0), action, jnp.float32(0.1), 2)
    assert found.shape == (2, 20_000, 1)
    assert float(found.std()) == pytest.approx(0.1, rel=0.03)
    assert float(jnp.abs(found).max()) <= 1.0


def test_actions_given_to_a_learned_model_are_within_the_bounds():
    """Dyna's actions and MVE's, where the bounds are narrower than the actor's output."""
    rng = np.random.default_rng(8)
    state, batch = ddpg_learner(rng), ddpg_batch(rng)
    space = Space(3, 2, (-1e-5, -1e-5), (2e-5, 2e-5))
    narrow = ddpg.make(Design(space, (4, 4), {}, rules.needs([RULES["td"]]))).parts
    assert narrow is not None
    planner = replace(planner_for(horizon=2), make_parts=narrow)

    def model(key, observation, action):
        return action.sum(axis=-1), observation + 1.0

    found = recipe.imagine(planner, model, jax.random.key(1), state, hyper_for(horizon=2), batch)
    assert [imagined.reward.shape for imagined in found] == [(1, 1, 8), (2, 1, 8)]
    for imagined in found:
        assert float(imagined.action.min()) == np.float32(-1e-5)
        assert float(imagined.action.max()) == np.float32(2e-5)
        np.testing.assert_allclose(imagined.reward, imagined.action.sum(axis=-1), rtol=1e-5)


def test_eta_shrinks_where_models_disagree_about_the_value():
    """η₀ σ² / (σ² + γ² Var) by hand: values 1 and 3 have variance 1; equal ones none; σ = 0 leaves η₀."""
    parts = replace(ddpg.PARTS, value=lambda learner, seen: seen[:, 0])
    each = jnp.array([[[1.0], [2.0]], [[3.0], [2.0]]])  # (models, batch, observation)
    hyper = hyper_for("res")
    assert hyper.planning is not None

    def found(trust):
        numbers = {**hyper.planning.numbers, "planning_trust": jnp.float32(trust)}
        return dyna.trusted(parts, None, hyper._replace(planning=hyper.planning._replace(numbers=numbers)), each)

    np.testing.assert_allclose(found(0.5), [ETA * 0.25 / (0.25 + GAMMA**2 * 1.0), ETA], rtol=1e-6)
    np.testing.assert_allclose(found(0.0), [ETA, ETA])


def test_imagined_successors_of_every_model_stand_beside_their_mean():
    rng = np.random.default_rng(8)
    state, batch = ddpg_learner(rng), ddpg_batch(rng)
    planner = planner_for(steps=3)
    planner = replace(planner, uses=tuple(use._replace(doubts=True) for use in planner.uses))

    def each(observation, action):
        return jnp.zeros((2, len(observation))), jnp.stack([observation + action.sum(-1)[:, None], observation - 1.0])

    def model(key, observation, action):
        return tuple(jnp.mean(x, 0) for x in each(observation, action))

    (found,) = recipe.imagine(planner, model, jax.random.key(1), state, hyper_for(), batch, each)
    assert found.each is not None
    assert found.each.shape == (1, 3, 2, 8, 3)
    np.testing.assert_allclose(found.each.mean(2), found.next_observation, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found.each[0, 1, 0], batch.observation + found.action[0, 1].sum(-1)[:, None], atol=1e-5)


def test_the_eta_that_is_reported_is_that_of_the_rounds_a_member_has():
    """One round, in a program that has three for others; models that agree leave η as it is."""
    rng = np.random.default_rng(8)
    state, batch = ddpg_learner(rng), ddpg_batch(rng)
    hyper = hyper_for("res", steps=1)
    assert hyper.planning is not None
    numbers = {**hyper.planning.numbers, "planning_trust": jnp.float32(1.0)}
    hyper = hyper._replace(planning=hyper.planning._replace(numbers=numbers))
    rounds = jnp.stack([batch.next_observation] * 3)[None]
    imagined = Imagined(
        jnp.stack([batch.action] * 3)[None],
        jnp.stack([batch.reward] * 3)[None],
        rounds,
        each=jnp.stack([rounds] * 2, axis=2),
    )
    _, _, told = dyna.extra(planner_for("res", steps=3), state, hyper, batch, imagined, jnp.array(True))
    assert isinstance(told, dict)
    assert float(told["imagined_eta"]) == pytest.approx(ETA, rel=1e-5)
