"""Mean dynamics: closed forms, coincidences, and agreement with what the updates really do."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bires.linear import exact, problems
from bires.linear.algorithms import learn_expected
from bires.linear.dynamics import eigenvalues, fixed_point, largest_step, mean_dynamics, outlook, radius
from bires.linear.eta import best_eta, margin, stable_etas
from bires.linear.methods import GTD2, RG, RG1, TD, TDC, Method, ra
from bires.linear.stability import spiral_drift
from bires.linear.values import spiral


@pytest.mark.parametrize("gamma", [0.5, 0.9, 0.99])
def test_bairds_star_has_the_closed_form_spectrum(gamma: float) -> None:
    """By the symmetry of the six upper states: five 4s, and the roots of λ² − (15 − 17γ) λ + 26 (1 − γ); over 7."""
    expected = np.append(np.full(5, 4.0), np.roots([1.0, -(15 - 17 * gamma), 26 * (1 - gamma)])) / 7.0
    found = eigenvalues(problems.baird_star(gamma), TD)
    np.testing.assert_allclose(np.sort_complex(found), np.sort_complex(expected), rtol=0, atol=1e-8)


def test_td_on_bairds_star_diverges_above_fifteen_seventeenths() -> None:
    critical = 15 / 17
    assert margin(problems.baird_star(critical - 1e-6), 0.0) > 0
    assert margin(problems.baird_star(critical + 1e-6), 0.0) < 0


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("eta", [0.0, 0.3, 1.0])
def test_w_to_2w_by_hand(p: float, eta: float) -> None:
    gamma = 0.9
    by_hand = (1 - p) * (1 - 2 * eta * gamma) * (1 - 2 * gamma) + p * (2 - 2 * eta * gamma) * (2 - 2 * gamma)
    given = problems.w_to_2w(gamma, p)
    np.testing.assert_allclose(eigenvalues(given, ra(eta)), [by_hand], rtol=0, atol=1e-8)
    np.testing.assert_allclose(largest_step(given, ra(eta)), max(0.0, 2 / by_hand), rtol=1e-9)


def test_smallest_stable_eta_of_w_to_2w() -> None:
    """At p = ½, γ = 0.9: −0.8 (1 − 1.8η) + 0.2 (2 − 1.8η) = 0 at η = 10/27."""
    ((low, high),) = stable_etas(problems.w_to_2w(0.9, 0.5))
    np.testing.assert_allclose([low, high], [10 / 27, 1.0], rtol=0, atol=1e-8)


def test_stable_etas_of_bairds_star_end_where_the_margin_vanishes() -> None:
    given = problems.baird_star()
    answer = best_eta(given, points=21)
    ((low, high),) = answer.stable
    assert margin(given, low - 1e-6) < 0 < margin(given, low + 1e-6)
    assert high == 1.0
    assert low < answer.fastest < 1.0
    assert answer.rate > 1000 * outlook(given, RG).rate
    assert not answer.rates[0] > 0


def test_on_policy_td_is_stable_for_every_eta() -> None:
    assert stable_etas(problems.random_walk()) == ((0.0, 1.0),)


@pytest.mark.parametrize("seed", range(5))
def test_rg_is_half_the_gradient_of_msbe(seed: int) -> None:
    given = problems.random_mdp(seed, off_policy=True)
    dynamics = mean_dynamics(given, RG)
    w = np.random.default_rng(seed).normal(size=3)
    slope = [(exact.msbe(given, w + e) - exact.msbe(given, w - e)) / 2e-5 for e in 1e-5 * np.eye(3)]
    np.testing.assert_allclose(dynamics.b - dynamics.A @ w, -0.5 * np.array(slope), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("seed", range(5))
def test_fixed_points_are_the_minimisers(seed: int) -> None:
    given = problems.random_mdp(seed, off_policy=True)
    td = exact.mspbe_minimiser(given)
    for algorithm in (TD, GTD2, TDC, ra(0.0, "bi", 0.1), Method("td with target", rule="td", tau=0.1)):
        np.testing.assert_allclose(fixed_point(given, algorithm), td, rtol=1e-8)
    np.testing.assert_allclose(fixed_point(given, RG), exact.msbe_minimiser(given), rtol=1e-8)
    on_policy = problems.random_mdp(seed)
    np.testing.assert_allclose(fixed_point(on_policy, RG1), exact.mstde_minimiser(on_policy), rtol=1e-8)


def test_rules_coincide_where_they_should() -> None:
    given = problems.random_mdp(1, off_policy=True)
    td = mean_dynamics(given, Method("td", rule="td", tau=0.1))
    for rule in ("to", "bi"):
        same = mean_dynamics(given, ra(0.0, rule, 0.1))
        np.testing.assert_array_equal(same.A, td.A)
        np.testing.assert_array_equal(same.b, td.b)
    for rule in ("to", "ot", "tt", "bi"):  # τ = 1: no target network, whatever the placement
        np.testing.assert_allclose(mean_dynamics(given, ra(0.4, rule, 1.0)).A, mean_dynamics(given, ra(0.4)).A)
    assert not np.allclose(mean_dynamics(given, ra(0.4, "to", 0.1)).A, mean_dynamics(given, ra(0.4, "bi", 0.1)).A)


@pytest.mark.parametrize("algorithm", [TD, RG, ra(0.3), GTD2, TDC, ra(0.3, "bi", 0.1), ra(0.3, "ot", 0.1)])
def test_the_largest_step_is_the_largest(algorithm: Method) -> None:
    given = problems.random_walk(5)
    limit = largest_step(given, algorithm)
    dynamics = mean_dynamics(given, algorithm)
    with np.errstate(over="ignore", invalid="ignore"):
        below, above = (np.linalg.matrix_power(dynamics.step(s * limit), 2**18) for s in (0.99, 1.01))
    assert np.abs(below).max() < 1e-3
    assert not np.abs(above).max() < 1e3


@pytest.mark.parametrize("algorithm", [TD, ra(0.4), RG, ra(0.3, "bi", 0.2)])
def test_the_rate_is_the_one_observed(algorithm: Method) -> None:
    given = problems.random_walk(5)
    seen = outlook(given, algorithm)
    dynamics = mean_dynamics(given, algorithm)
    assert radius(dynamics)(seen.best_step) <= min(radius(dynamics)(f * seen.best_step) for f in (0.9, 0.99, 1.01))
    step = dynamics.step(0.5 * seen.best_step)
    sizes = [np.linalg.norm(np.linalg.matrix_power(step, n)) for n in (4000, 4400)]
    np.testing.assert_allclose(
        np.log(sizes[1] / sizes[0]) / 400, np.log(radius(dynamics)(0.5 * seen.best_step)), rtol=1e-3
    )


def test_target_networks_change_the_step_not_the_sign() -> None:
    given = problems.baird_star()
    for rule in ("to", "ot", "tt", "bi"):
        assert largest_step(given, ra(0.05, rule, 0.1)) == 0.0
        assert largest_step(given, ra(0.5, rule, 0.1)) > 0.0


def test_gradient_td_converges_where_td_diverges() -> None:
    given = problems.baird_star()
    assert not outlook(given, TD).converges
    for algorithm in (GTD2, TDC, replace(TDC, ratio=4.0)):
        assert outlook(given, algorithm).converges


def test_the_spiral_is_that_of_tsitsiklis_and_van_roy() -> None:
    """dV/dw = Q V + 0.05 V, so V turns in the plane of values that add up to 0, and grows."""
    Q = np.array([[1.0, 0.5, 1.5], [1.5, 1.0, 0.5], [0.5, 1.5, 1.0]])
    for w in (-2.0, 0.0, 3.0):
        V, slope = jax.jvp(lambda w: spiral(w, jnp.eye(3)), (w,), (1.0,))
        np.testing.assert_allclose(slope, Q @ np.asarray(V) + 0.05 * np.asarray(V), atol=1e-5)
        assert float(V.sum()) == pytest.approx(0.0, abs=1e-5)


@pytest.mark.parametrize("eta", [0.0, 0.4, 1.0])
def test_the_drift_on_the_spiral_is_what_a_small_update_does(eta: float) -> None:
    given, alpha = problems.turning(), 1e-3
    start, after = learn_expected(given, ra(eta), (alpha,), 1, value=spiral, params=jnp.zeros(()))[0]
    grown = np.log(np.linalg.norm(after) / np.linalg.norm(start)) / 0.05  # ‖V‖ = exp(0.05 w) ‖V(0)‖
    assert grown / alpha / (start @ start) == pytest.approx(spiral_drift(given, eta), rel=0.02, abs=1e-4)


def test_only_a_large_eta_holds_the_spiral() -> None:
    """By hand, with ⟨V, RV⟩ = −½ ‖V‖² for the turn R of the states: the drifts of TD and of RG."""
    given, gamma = problems.turning(0.9), 0.9
    at_td = (3 * gamma / 8 - 0.05 * (1 - gamma / 4)) / 3
    at_rg = -0.05 * ((1 - gamma / 2) ** 2 + gamma**2 / 4 + (1 - gamma / 2) * gamma / 2) / 3
    assert spiral_drift(given, 0.0) == pytest.approx(at_td, rel=1e-5)
    assert spiral_drift(given, 1.0) == pytest.approx(at_rg, rel=1e-5)
