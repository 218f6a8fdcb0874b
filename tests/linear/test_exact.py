"""Exact values against closed forms and published numbers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given as sample
from hypothesis import settings
from hypothesis import strategies as st

from bires.linear import exact, problems
from bires.linear.four_rooms import CELLS, GOAL, INDEX, four_rooms
from bires.linear.mdp import Array, Problem


def close(found: npt.ArrayLike, expected: npt.ArrayLike) -> None:
    np.testing.assert_allclose(np.asarray(found, float), np.asarray(expected, float), rtol=0.0, atol=1e-8)


@pytest.mark.parametrize("states", [3, 5, 19])
def test_random_walk_has_evenly_spaced_values(states: int) -> None:
    given = problems.random_walk(states)
    close(exact.true_value(given), np.arange(1, states + 1) / (states + 1))


@pytest.mark.parametrize("minimiser", [exact.msve_minimiser, exact.mspbe_minimiser, exact.msbe_minimiser])
def test_boyans_chain_has_the_published_weights(minimiser: Callable[[Problem], Array]) -> None:
    given = problems.boyan_chain()
    close(exact.true_value(given), -2.0 * np.arange(13))
    close(minimiser(given), [-24, -16, -8, 0])


def test_boyans_chain_visits_states_as_renewal_theory_says() -> None:
    """The chance that an episode visits state i obeys u(i) = (u(i+1) + u(i+2)) / 2 below 12; 1 and 0 follow."""
    visits = np.zeros(15)
    visits[12] = 1.0
    for i in range(11, 0, -1):
        visits[i] = 0.5 * (visits[i + 1] + visits[i + 2])
    visits[0] = visits[1] + 0.5 * visits[2]
    close(exact.weighting(problems.boyan_chain()), visits[:13] / visits[:13].sum())


def test_a_presplit_has_the_published_solutions() -> None:
    given = problems.a_presplit()
    td, rg = exact.mspbe_minimiser(given), exact.msbe_minimiser(given)
    close(td, [0.5, 1.0, 0.0])
    close(rg, [0.5, 0.75, 0.25])
    close([exact.msve(given, w) for w in (td, rg)], [1 / 8, 5 / 32])
    close([exact.msbe(given, w) for w in (td, rg)], [1 / 8, 1 / 16])
    close(exact.mspbe(given, td), 0.0)


@pytest.mark.parametrize("p", [0.1, 0.5, 0.8])
def test_a_split_fools_the_single_successor(p: float) -> None:
    """At p = ½ the naive residual gradient says (½, ¾, ¼); for any p its MSVE is p (1 − p) / 8."""
    given = problems.a_split(p)
    w = exact.mstde_minimiser(given)
    close(w, [p, 1 - (1 - p) / 2, p / 2])
    close(exact.msve(given, w), p * (1 - p) / 8)
    close(exact.msbe_minimiser(given), [p, 1.0, 0.0])


@pytest.mark.parametrize("gamma", [0.0, 0.5, 0.9, 0.999])
def test_two_mdps_with_the_same_data(gamma: float) -> None:
    left, right = problems.same_data(gamma)
    close(exact.msbe_minimiser(left), [0, 0])
    scale = gamma / (1 + gamma + gamma**2)
    close(exact.msbe_minimiser(right), [-scale, scale / 2])
    for given in (left, right):
        close(exact.mspbe_minimiser(given), [0, 0])
    close([exact.msbe(m, np.zeros(2)) for m in (left, right)], [0, 2 / 3])


@pytest.mark.parametrize("p", [0.2, 0.5, 0.9])
def test_w_to_2w_by_hand(p: float) -> None:
    """Values (w, 2w), d = (1 − p, p), reward 1 in the first state, so v_π = (1, 0)."""
    given, gamma, w = problems.w_to_2w(0.9, p, reward=1.0), 0.9, 0.7
    close(exact.weighting(given), [1 - p, p])
    close(exact.true_value(given), [1, 0])
    bellman = np.array([1 + 2 * gamma * w - w, 2 * gamma * w - 2 * w])
    close(exact.msbe(given, np.array([w])), (1 - p) * bellman[0] ** 2 + p * bellman[1] ** 2)
    along = ((1 - p) * bellman[0] + 2 * p * bellman[1]) ** 2 / ((1 - p) + 4 * p)
    close(exact.mspbe(given, np.array([w])), along)
    close(exact.msve(given, np.array([w])), (1 - p) * (w - 1) ** 2 + p * 4 * w**2)
    fixed = (1 - p) / ((1 - p) * (1 - 2 * gamma) + 4 * p * (1 - gamma))
    close(exact.mspbe_minimiser(given), [fixed])


def test_bairds_star_is_visited_uniformly_and_worth_nothing() -> None:
    given = problems.baird_star()
    close(exact.weighting(given), np.full(7, 1 / 7))
    close(exact.true_value(given), np.zeros(7))
    close(given.X @ given.w0, [3, 3, 3, 3, 3, 3, 12])
    v7 = 12.0
    expected = (6 * (0.99 * v7 - 3) ** 2 + (0.99 * v7 - v7) ** 2) / 7
    close(exact.msbe(given, given.w0), expected)
    # Seven independent rows of features span everything: the projection removes nothing.
    close(exact.projection(given), np.eye(7))
    close(exact.mspbe(given, given.w0), expected)


def test_four_rooms_shortest_paths_are_worth_powers_of_gamma() -> None:
    given = four_rooms("coordinates", "shortest", 0.9)
    v = exact.true_value(given)
    assert len(CELLS) == 104
    # One step below the western hallway; the far corner of the room above it; the south-east corner.
    for cell, steps in ((GOAL, 0), ((7, 2), 1), ((1, 5), 8), ((11, 11), 14)):
        close(v[INDEX[cell]], 0.9**steps)


def some_problem(seed: int, states: int, share: float, gamma: float, off_policy: bool) -> Problem:
    features = max(1, min(states - 1, round(share * states)))
    return problems.random_mdp(seed, states, 2, features, gamma, off_policy=off_policy)


random_problems = st.builds(
    some_problem,
    seed=st.integers(0, 2**31),
    states=st.integers(2, 12),
    share=st.floats(0.0, 1.0),
    gamma=st.sampled_from([0.0, 0.5, 0.9, 0.99]),
    off_policy=st.booleans(),
)
size = st.sampled_from([1e-3, 1.0, 1e3])


@settings(max_examples=1000, deadline=None, derandomize=True)
@sample(given=random_problems, size=size)
def test_errors_are_ordered_and_bounded(given: Problem, size: float) -> None:
    """MSBE ≥ MSPBE; MSVE ≤ c · MSBE, with c ≤ 1 / (1 − γ)² on-policy."""
    w = size * np.random.default_rng(given.states).normal(size=(given.X.shape[1],))
    msbe = exact.msbe(given, w)
    assert exact.mspbe(given, w) <= msbe * (1 + 1e-9)
    assert exact.msve(given, w) <= exact.value_bound(given) * msbe * (1 + 1e-9)
    if given.mu is given.pi:
        assert exact.value_bound(given) <= 1 / (1 - given.gamma) ** 2 * (1 + 1e-9)


@settings(max_examples=100, deadline=None, derandomize=True)
@sample(given=random_problems)
def test_minimisers_are_where_the_errors_are_least(given: Problem) -> None:
    rng = np.random.default_rng(0)
    pairs = [
        (exact.msve, exact.msve_minimiser(given)),
        (exact.mspbe, exact.mspbe_minimiser(given)),
        (exact.msbe, exact.msbe_minimiser(given)),
        (exact.mstde, exact.mstde_minimiser(given)),
    ]
    for error, w in pairs:
        for step in (1e-3, 1.0):
            assert error(given, w) < error(given, w + step * rng.normal(size=w.shape))


@settings(max_examples=50, deadline=None, derandomize=True)
@sample(given=random_problems)
def test_projection_is_the_weighted_least_squares_fit(given: Problem) -> None:
    D = np.diag(exact.weighting(given))
    direct = given.X @ np.linalg.inv(given.X.T @ D @ given.X) @ given.X.T @ D
    np.testing.assert_allclose(exact.projection(given), direct, rtol=1e-6, atol=1e-7)


def test_the_td_error_is_the_bellman_error_plus_the_variance_of_the_backup() -> None:
    given = problems.random_mdp(3)
    w = np.array([0.3, -1.0, 2.0])
    v = given.X @ w
    backups = given.r + given.discount * v
    mean = np.einsum("sa,ast,ast->s", given.pi, given.P, backups)
    square = np.einsum("sa,ast,ast->s", given.pi, given.P, backups**2)
    variance = exact.weighting(given) @ (square - mean**2)
    np.testing.assert_allclose(exact.mstde(given, w), exact.msbe(given, w) + variance, rtol=1e-10)
