"""Control: q* does not move in expectation, and the star tells the algorithms apart."""

from __future__ import annotations

from dataclasses import replace

import jax
import numpy as np
import pytest

from bires.linear import problems
from bires.linear.control import (
    GREEDY_GQ,
    Q_LEARNING,
    RESIDUAL_Q,
    baird_control,
    control,
    greedy_value,
    learn_control,
    learn_control_expected,
    optimal_q,
)
from bires.linear.exact import true_value, weighting
from bires.linear.four_rooms import four_rooms
from bires.linear.methods import ra


def test_four_rooms_are_solved_by_the_shortest_path() -> None:
    given = four_rooms("tabular", "shortest", 0.9)
    best = optimal_q(given)
    np.testing.assert_allclose(best.max(1), true_value(given), rtol=0, atol=1e-8)
    np.testing.assert_allclose(greedy_value(given, best), true_value(given), rtol=0, atol=1e-8)
    assert greedy_value(given, -best).mean() < 0.5 * best.max(1).mean()


def test_q_star_is_where_the_expected_updates_rest() -> None:
    """Tabular and stochastic: every algorithm rests at q*, but the residual one with a single successor."""
    given = problems.random_mdp(5, 3, 2, 3)
    Phi = np.eye(6).reshape(3, 2, 6)
    best = optimal_q(given)
    with jax.enable_x64(True):
        task = control(given, Phi, best.ravel())
        rest = [Q_LEARNING, RESIDUAL_Q, ra(0.3), ra(0.3, "bi", 0.1)]
        moved = learn_control_expected(task, [(a, 0.1) for a in [*rest, replace(RESIDUAL_Q, successors=1)]], 20, 20)
        gq = learn_control_expected(task, [(GREEDY_GQ, 0.1)], 20, 20)
    gaps = np.abs(moved[:, -1] - best.ravel()).max(-1)
    assert gaps[:-1].max() < 1e-9
    assert np.abs(gq[0, -1] - best.ravel()).max() < 1e-9
    assert gaps[-1] > 1e-3


def test_each_network_looks_at_its_own_greedy_action() -> None:
    """Bi-Res Q-learning, tabular and in expectation, against a loop over all transitions written out by hand."""
    given, eta, tau, alpha = problems.random_mdp(6, 3, 3, 3), 0.3, 0.1, 0.5
    d, start = weighting(given), np.random.default_rng(3).normal(size=(3, 3))
    q, slow = start.copy(), start.copy()
    disagreed = False
    for _ in range(20):
        move = np.zeros_like(q)
        for s, a, s1, s2 in np.ndindex(3, 3, 3, 3):
            chance = d[s] * given.mu[s, a] * given.P[a, s, s1] * given.P[a, s, s2]
            backward = given.r[a, s, s1] + given.gamma * slow[s1].max() - q[s, a]
            forward = given.r[a, s, s1] + given.gamma * q[s1].max() - slow[s, a]
            move[s, a] += chance * backward
            move[s2, q[s2].argmax()] -= chance * eta * forward * given.gamma
        q = q + alpha * move
        slow = slow + tau * (q - slow)
        disagreed |= bool((q.argmax(1) != slow.argmax(1)).any())
    assert disagreed
    with jax.enable_x64(True):
        task = control(given, np.eye(9).reshape(3, 3, 9), start.ravel())
        learned = learn_control_expected(task, [(ra(eta, "bi", tau), alpha)], 20, 20)
    np.testing.assert_allclose(learned[0, -1], q.ravel(), rtol=0, atol=1e-12)


@pytest.mark.parametrize("sampled", [True, False])
def test_bairds_star_diverges_under_q_learning_only(sampled: bool) -> None:
    star = baird_control()
    pairs = [(Q_LEARNING, 0.02), (RESIDUAL_Q, 0.02), (ra(0.5), 0.02)]
    if sampled:
        w = learn_control(star, pairs, seeds=3, steps=2000, every=1000).mean(1)
    else:
        w = learn_control_expected(star, pairs, 2000, 1000)
    start, middle, end = np.sqrt(((star.Phi @ w[..., None, :, None])[..., 0] ** 2).mean((-1, -2))).T
    assert end[0] > 1.5 * middle[0] > 1.5 * start[0]
    assert (end[1:] < start[1:]).all()
