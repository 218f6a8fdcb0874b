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
from bires.linear.dynamics import ra
from bires.linear.exact import true_value
from bires.linear.four_rooms import four_rooms


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
