"""The updates: in expectation they follow the mean dynamics, on samples they average to the expectation."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from bires.linear import exact, problems
from bires.linear.algorithms import draw, everything, learn, pick, tables
from bires.linear.dynamics import mean_dynamics
from bires.linear.lstd import lstd
from bires.linear.mdp import Problem, problem, with_features
from bires.linear.methods import GTD2, KERNEL, RG, RG1, TD, TDC, TDRC, Method, family_of, ra
from bires.linear.updates import FeatureTransition, GridPoint, Weights, stack, update
from bires.linear.values import linear, neural, neural_params

TWO = [TD, RG, ra(0.3), *(ra(0.3, rule, 0.2) for rule in ("res", "to", "ot", "tt", "bi", "ortho", "fr"))]
ONE = [RG1, *(ra(0.3, rule, 0.2, successors=1) for rule in ("res", "to", "ot", "tt", "bi", "ortho"))]
SOME = {
    "off-policy": problems.random_mdp(2, 4, 2, 2, off_policy=True),
    "episodic": problems.random_walk(5, "dependent"),
}


@pytest.mark.parametrize("given", SOME.values(), ids=SOME)
@pytest.mark.parametrize(
    "group",
    [TWO, ONE, [GTD2, TDC, replace(TDC, ratio=3.0), TDRC], [KERNEL, replace(KERNEL, width=0.3)]],
    ids=["two successors", "one successor", "gradient TD", "kernel"],
)
def test_expected_updates_follow_the_mean_dynamics(given: Problem, group: list[Method]) -> None:
    """One expected update of each rule from arbitrary (w, w⁻, h) equals T (z + α (b − A z)), in double precision."""
    size, alpha = given.X.shape[1], 0.07
    w, target, h = np.random.default_rng(0).normal(size=(3, size))
    with jax.enable_x64(True):
        batch, weights = everything(given, group[0])
        memory = Weights(jnp.asarray(w), jnp.asarray(target), jnp.asarray(h))
        pairs = [(algorithm, alpha) for algorithm in group]
        step = jax.vmap(
            lambda setting: update(family_of([method for method, _ in pairs]), linear, memory, batch, weights, setting)
        )
        after = jax.tree.map(np.asarray, jax.jit(step)(stack(pairs)))
    for i, algorithm in enumerate(group):
        dynamics = mean_dynamics(given, algorithm)
        second = h if algorithm.kind != "rule" else target
        z = np.append(w, second)[: len(dynamics.b)]
        if len(z) == size and algorithm.rule != "res":  # no target network: online and target are one
            continue
        new = dynamics.T @ (z + alpha * (dynamics.b - dynamics.A @ z))
        got = np.append(after.online[i], after.h[i] if algorithm.kind != "rule" else after.target[i])[: len(new)]
        np.testing.assert_allclose(got, new, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    "group", [[RG, RG1, ra(0.5, "bi", 0.2), ra(0.5, "ortho")], [GTD2, TDC, TDRC]], ids=["rules", "gradient TD"]
)
def test_sampled_updates_average_to_the_expected_one(group: list[Method]) -> None:
    # A uniform behaviour: importance ratios of at most 2, so that 50 000 samples see everything.
    given, count = replace(SOME["off-policy"], mu=np.full((4, 2), 0.5)), 50_000
    w, target, h = jnp.asarray(np.random.default_rng(1).normal(size=(3, 2)), float)
    pairs, k = [(algorithm, 1.0) for algorithm in group], tables(given)

    def move(setting: GridPoint, batch: FeatureTransition, weights: jax.Array) -> jax.Array:
        after = update(
            family_of([method for method, _ in pairs]), linear, Weights(w, target, h), batch, weights, setting
        )
        return jnp.concatenate([after.online - w, after.h - h])

    def sampled(setting: GridPoint, key: jax.Array) -> jax.Array:
        first, second = jax.random.split(key)
        transition, _ = draw(k, setting.two, pick(k.d, jax.random.uniform(first)), second)
        return move(setting, jax.tree.map(lambda leaf: leaf[None], transition), jnp.ones(1))

    each = jax.jit(jax.vmap(jax.vmap(sampled, (None, 0)), (0, None)))
    moves = np.asarray(each(stack(pairs), jax.random.split(jax.random.key(0), count)), np.float64)
    error = moves.std(1) / np.sqrt(count)
    for i, algorithm in enumerate(group):
        setting = jax.tree.map(lambda leaf, i=i: leaf[i], stack(pairs))
        expected = np.asarray(jax.jit(move)(setting, *everything(given, algorithm)))
        assert (np.abs(moves[i].mean(0) - expected) <= 4.5 * error[i] + 1e-5).all(), algorithm.name
        assert np.abs(expected[:2]).max() > 10 * error[i, :2].max(), algorithm.name  # precise enough to be wrong


def test_one_and_two_successors_differ_in_expectation() -> None:
    given = SOME["off-policy"]
    assert np.abs(mean_dynamics(given, RG).A - mean_dynamics(given, RG1).A).max() > 0.1


def test_neural_gradient_td_descends_the_nonlinear_mspbe() -> None:
    """At h = E[φφᵀ]⁻¹ E[δφ] the update of w is −½ ∇ of E[δφ]ᵀ E[φφᵀ]⁻¹ E[δφ] (Bhatnagar et al. 2009)."""
    # No constant feature: it would repeat the bias of the network and make E[φφᵀ] singular.
    given = with_features(
        problems.random_mdp(0, 8, 2, 2, off_policy=True), np.random.default_rng(4).normal(size=(8, 2))
    )
    with jax.enable_x64(True):
        flat, unravel = ravel_pytree(neural_params(jax.random.key(1), 2, hidden=1))
        batch, chances = everything(given, GTD2)
        weights = chances * batch.ratio1

        def value(w: jax.Array, x: jax.Array) -> jax.Array:
            return neural(unravel(w), x)

        def parts(w: jax.Array) -> tuple[jax.Array, jax.Array]:
            phi = jax.vmap(jax.grad(value), (None, 0))(w, batch.x)
            values = jax.vmap(value, (None, 0))
            delta = batch.reward + batch.discount1 * values(w, batch.x1) - values(w, batch.x)
            return (weights * delta) @ phi, (weights * phi.T) @ phi

        def mspbe(w: jax.Array) -> jax.Array:
            b, C = parts(w)
            return jnp.dot(b, jnp.linalg.solve(C, b))

        @jax.jit
        def both(w: jax.Array, grid: GridPoint) -> tuple[jax.Array, jax.Array]:
            b, C = parts(w)
            memory = Weights(w, w, jnp.linalg.solve(C, b))
            moved = jax.vmap(lambda setting: update("gradient-td", value, memory, batch, chances, setting))(grid)
            return moved.online - w, -0.5 * jax.grad(mspbe)(w)

        moves, downhill = both(flat, stack([(GTD2, 1.0), (TDC, 1.0)]))
    assert np.isfinite(downhill).all()
    assert np.abs(downhill).max() > 1e-3
    np.testing.assert_allclose(moves[0], downhill, rtol=1e-7, atol=1e-12)
    np.testing.assert_allclose(moves[1], downhill, rtol=1e-7, atol=1e-12)


def test_learning_finds_the_values_and_diverges_where_it_should() -> None:
    walk = problems.random_walk(5)
    curves = learn(walk, [(TD, 0.05), (ra(0.2), 0.05)], seeds=3, steps=4000, every=2000)
    assert curves.shape == (2, 3, 3, 5)
    assert (np.sqrt((curves[:, :, -1] - exact.true_value(walk)) ** 2 @ exact.weighting(walk)).mean(1) < 0.1).all()
    star = learn(problems.baird_star(), [(TD, 0.01), (ra(0.5), 0.01)], seeds=3, steps=4000, every=2000)
    sizes = np.abs(star[:, :, -1]).max(-1)
    assert sizes[0].min() > 1e3 > 100 > sizes[1].max()


@pytest.mark.parametrize("trajectory", [True, False])
def test_states_come_from_the_stationary_distribution(trajectory: bool) -> None:
    """One constant feature and γ = 0: TD learns the mean reward under d = (0.9, 0.1), not under a uniform one."""
    given = problem("skewed", [[0.9, 0.1], [0.9, 0.1]], [[0, 0], [1, 1]], 0.0, [[1.0], [1.0]])
    values = learn(given, [(TD, 0.01)], seeds=16, steps=2000, every=1000, trajectory=trajectory)
    assert values[0, :, -1, 0].mean() == pytest.approx(0.1, abs=0.02)


def test_a_member_does_not_depend_on_the_population() -> None:
    def run(*pairs: tuple[Method, float]) -> np.ndarray:
        return learn(problems.random_walk(5), pairs, seeds=3, steps=4000, every=2000)

    one = run((TD, 0.05), (RG, 0.1))
    np.testing.assert_array_equal(one, run((TD, 0.05), (RG, 0.1)))
    np.testing.assert_array_equal(one[1], run((RG, 0.1), (ra(0.3, "bi", 0.5), 0.2))[0])
    assert np.abs(one[:, 0, -1] - one[:, 1, -1]).max() > 1e-3


@pytest.mark.parametrize("given", SOME.values(), ids=SOME)
def test_lstd_approaches_the_td_fixed_point(given: Problem) -> None:
    weights = lstd(given, seeds=8, steps=20_000, every=10_000)
    early, late = np.abs(weights - exact.mspbe_minimiser(given)).mean((0, 2))
    assert late < 0.1
    assert late < early
