"""CrossQ: batch normalisation against a plain transcription, its gradient against finite differences, its rules."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bires.agents import batchnorm, crossq, sac
from bires.agents.base import Design, Hyper
from bires.agents.networks import mlp
from bires.rules import RULES, needs, stack
from bires.types import Space, Transition

SPACE = Space(3, 2, (-1.0, -1.0), (1.0, 1.0))
OWN: dict[str, Any] = {setting.name: setting.default for setting in crossq.SETTINGS} | {"critic_width": 6}


ETA, SMALL = 0.3, 1e-5


def design(*rules, **own):
    return Design(SPACE, (5, 4), OWN | own, needs([RULES[rule] for rule in rules]))


def hyper(rule, eta=ETA):
    own = {"tau": 0.05, "actor_lr": 1e-2, "critic_lr": 1e-2, "alpha_lr": 1e-2, "target_entropy": -1.0}
    rules = jax.tree.map(lambda leaf: leaf[0], stack([RULES[rule]]))
    return Hyper(rules, jnp.asarray(eta), jnp.asarray(0.9), {name: jnp.asarray(value) for name, value in own.items()})


def some_batch(rng, count=7):
    parts = (rng.normal(size=(count, 3)), rng.uniform(-1, 1, (count, 2)), rng.normal(size=count))
    ends = (rng.integers(0, 2, count), rng.normal(size=(count, 3)))
    return Transition(*(jnp.asarray(part, jnp.float32) for part in (*parts, *ends)))


def used(rng, made):
    """A learner whose norms and running means are no longer those of the beginning."""
    state = crossq.init(rng, made)

    def shaken(tree, spread=0.3):
        return jax.tree.map(lambda x: x + spread * jnp.asarray(rng.normal(size=x.shape), jnp.float32), tree)

    def moved(running, updates):
        moments = tuple(
            batchnorm.BatchMoments(shaken(m.mean), jnp.exp(shaken(m.variance - 1))) for m in running.moments
        )
        return batchnorm.RunningMoments(moments, jnp.full_like(running.updates, updates))

    return state._replace(
        policy=shaken(state.policy),
        policy_running=moved(state.policy_running, 3),
        critics=state.critics._replace(params=shaken(state.critics.params)),
        critics_running=moved(state.critics_running, 3),
        target_critics=None if state.target_critics is None else shaken(state.target_critics),
    )


def transcribed(params, running, x, acting=False, renorm=False):
    """A network with normalised inputs of every layer, in NumPy's float64, layer by layer; and the batch's moments."""
    seen = []
    for i, (layer, norm, usual) in enumerate(zip(params.layers, params.norms, running.moments, strict=True)):
        mean, variance = (usual.mean, usual.variance) if acting else (x.mean(0), x.var(0))
        seen.append((mean, variance))
        y = (x - mean) / np.sqrt(variance + 0.001)
        if renorm:
            usually = np.sqrt(np.float64(usual.variance) + 0.001)
            r = np.clip(np.sqrt(variance + 0.001) / usually, 1 / 3, 3)
            y = y * r + np.clip((mean - usual.mean) / usually, -5, 5)
        x = (y * norm.scale + norm.offset) @ np.float64(layer.weight) + layer.bias
        x = np.maximum(x, 0) if i < len(params.layers) - 1 else x
    return x, seen


def test_a_network_that_acts_has_the_running_means_in_its_layers():
    rng = np.random.default_rng(0)
    state = used(rng, design("online"))
    x = rng.normal(size=(9, 3))
    wanted, _ = transcribed(state.policy, state.policy_running, x, acting=True)
    np.testing.assert_allclose(mlp(state.actor, jnp.asarray(x, jnp.float32)), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("renorm", [False, True])
def test_a_network_that_learns_is_normalised_by_its_batch(renorm):
    rng = np.random.default_rng(1)
    state = used(rng, design("online"))
    updates = batchnorm.PLAIN_UPDATES - (not renorm)
    running = state.policy_running._replace(updates=jnp.asarray(updates))
    x = 3 * rng.normal(size=(9, 3)) + 1
    found, seen = batchnorm.learning(state.policy, running, jnp.asarray(x, jnp.float32))
    wanted, moments = transcribed(state.policy, running, x, renorm=renorm)
    np.testing.assert_allclose(found, wanted, rtol=2e-4, atol=2e-5)
    for one, (mean, variance) in zip(seen, moments, strict=True):
        np.testing.assert_allclose(one.mean, mean, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(one.variance, variance, rtol=1e-4, atol=1e-5)


def test_running_means_follow_the_batches_that_were_learned_from():
    rng = np.random.default_rng(2)
    state = used(rng, design("online"))
    _, seen = batchnorm.learning(state.policy, state.policy_running, jnp.asarray(rng.normal(size=(9, 3)), jnp.float32))
    new = batchnorm.follow(state.policy_running, seen, jnp.asarray(True))
    same = batchnorm.follow(state.policy_running, seen, jnp.asarray(False))
    for old, after, kept, batch in zip(state.policy_running.moments, new.moments, same.moments, seen, strict=True):
        np.testing.assert_allclose(after.mean, 0.99 * old.mean + 0.01 * batch.mean, rtol=1e-5, atol=1e-7)
        np.testing.assert_array_equal(kept.variance, old.variance)
    assert (int(new.updates), int(same.updates)) == (4, 3)


def test_a_frozen_members_running_means_stay_whatever_its_batch_holds():
    rng = np.random.default_rng(2)
    state = used(rng, design("online"))
    _, seen = batchnorm.learning(state.policy, state.policy_running, jnp.full((9, 3), 1e30))
    assert not np.isfinite(seen[0].variance).any()
    same = batchnorm.follow(state.policy_running, seen, jnp.asarray(False))
    jax.tree.map(np.testing.assert_array_equal, same, state.policy_running)


def values(params, running, batch, next_action):
    """Q of every critic at both ends, from one batch of both, in float64: (critics, ends, batch)."""
    joint = np.concatenate(
        [
            np.concatenate([batch.observation, batch.action], -1),
            np.concatenate([batch.next_observation, next_action], -1),
        ]
    ).astype(np.float64)
    count = len(params.layers[0].bias)
    each = [jax.tree.map(lambda leaf, i=i: np.float64(leaf[i]), params) for i in range(count)]
    means = [jax.tree.map(lambda leaf, i=i: np.float64(leaf[i]), running) for i in range(count)]
    return np.stack([transcribed(p, m, joint)[0][:, 0].reshape(2, -1) for p, m in zip(each, means, strict=True)])


@pytest.mark.parametrize("rule", ["online", "td", "res", "bi"])
def test_gradients_are_those_of_the_transcribed_loss(rule):
    """By finite differences: both ends share their moments, through which the gradient goes."""
    rng = np.random.default_rng(3)
    made, batch = design(rule), some_batch(rng)
    state, key = used(rng, made), jax.random.key(5)
    slope, _ = crossq.critic_slope(made, key, state, hyper(rule, ETA), batch)
    drawn = sac.sample(state.actor, jax.random.split(key)[0], batch.next_observation)
    bonus = -np.exp(np.float64(state.log_alpha)) * np.float64(drawn.log_prob)
    discount, reward = 0.9 * np.float64(batch.discount), np.float64(batch.reward)

    def ends(params):
        found = values(params, state.critics_running, batch, drawn.action)
        return found[:, 0], found[:, 1].min(0) + bonus

    pred, succ = ends(state.critics.params)
    theirs = ends(state.target_critics) if state.target_critics is not None else (pred, succ)
    backward = reward + discount * (theirs[1] if rule in ("td", "bi") else succ) - pred
    forward = {"res": backward, "bi": reward + discount * succ - theirs[0]}.get(rule, np.zeros_like(pred))

    def loss(params):
        pred, succ = ends(params)
        return (-backward * pred + ETA * forward * discount * succ).mean(1).sum()

    leaves, structure = jax.tree.flatten(jax.tree.map(np.float64, state.critics.params))
    for place, (leaf, found) in enumerate(zip(leaves, jax.tree.leaves(slope.gradient), strict=True)):
        for index in [tuple(rng.integers(0, side) for side in leaf.shape) for _ in range(3)]:
            ways = []
            for step in (SMALL, -SMALL):
                moved = leaf.copy()
                moved[index] += step
                ways.append(loss(jax.tree.unflatten(structure, [*leaves[:place], moved, *leaves[place + 1 :]])))
            assert float(found[index]) == pytest.approx((ways[0] - ways[1]) / (2 * SMALL), rel=2e-3, abs=2e-4)


def test_without_a_forward_term_rules_coincide():
    rng = np.random.default_rng(4)
    made, batch, key = design("online", "res", "td", "bi"), some_batch(rng), jax.random.key(0)
    state = used(rng, made)
    slopes = {
        rule: crossq.critic_slope(made, key, state, hyper(rule, 0.0), batch)[0].gradient
        for rule in ("online", "res", "td", "bi")
    }
    for one, other in (("online", "res"), ("td", "bi")):
        jax.tree.map(np.testing.assert_array_equal, slopes[one], slopes[other])
    assert not np.allclose(slopes["online"].layers[0].weight, slopes["td"].layers[0].weight)


def test_a_fresh_action_leaves_members_alone_that_have_no_use_for_it():
    """Beside a rule with a forward term it is in the batch of all members, but not in their moments."""
    found = []
    for rules in (("online",), ("online", "res")):
        made = design(*rules, fresh_action=True)
        state = used(np.random.default_rng(6), made)
        batch = some_batch(np.random.default_rng(7))
        found.append(crossq.critic_slope(made, jax.random.key(1), state, hyper("online"), batch))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5), *found)


def test_targets_are_kept_where_a_rule_reads_them():
    rng = np.random.default_rng(5)
    assert crossq.init(rng, design("online", "res")).target_critics is None
    assert crossq.init(rng, design("online", "bi")).target_critics is not None


def test_a_step_moves_critics_and_their_running_means_and_a_delayed_one_the_actor():
    rng = np.random.default_rng(6)
    made, batch, alive = design("bi"), some_batch(rng), jnp.asarray(True)
    state, agent = used(rng, made), crossq.make(made)
    new, seen = agent.update(jax.random.key(0), state, hyper("bi"), batch, alive)
    assert bool(seen.alive)
    assert set(seen.metrics) == set(crossq.SPEC.metrics)
    moved = [not np.array_equal(a, b) for a, b in zip(jax.tree.leaves(new), jax.tree.leaves(state), strict=True)]
    same = jax.tree.unflatten(jax.tree.structure(state), [not one for one in moved])
    assert all(jax.tree.leaves((same.policy, same.policy_running, same.log_alpha)))
    assert not any(jax.tree.leaves((same.critics_running, same.target_critics.layers)))
    assert agent.delayed is not None
    later, ok = agent.delayed(jax.random.key(1), new, hyper("bi"), batch, alive)
    assert bool(ok)
    assert int(later.policy_running.updates) == 4
    assert float(later.log_alpha) != float(new.log_alpha)
    frozen, _ = agent.update(jax.random.key(0), state, hyper("bi"), batch, jnp.asarray(False))
    jax.tree.map(np.testing.assert_array_equal, frozen, state)
