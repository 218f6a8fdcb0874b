"""The relatives of the residual algorithms: hand-worked numbers, coincidences, and what each promises."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bires import rules
from bires.errors import UserError
from bires.linear import exact, problems, relatives
from bires.linear.algorithms import everything, independent, learn, learn_expected, tables
from bires.linear.claims import LabScale
from bires.linear.dynamics import fixed_point, largest_step, mean_dynamics, stable_steps
from bires.linear.mdp import with_features
from bires.linear.methods import BAIRD, BORROWED, C_DQN, KERNEL, RG, RG1, TD, TDRC, ra
from bires.linear.updates import stack, start, update
from bires.linear.values import linear


def test_tdrc_on_w_to_2w_is_stable_below_a_fifth() -> None:
    """C = 5/2 and K = 27/10 at p = ½, γ = 0.9: the determinant (C − K)(C + β − K) is positive for β < K − C."""
    given = problems.w_to_2w(0.9, 0.5)
    assert largest_step(given, replace(TDRC, decay=0.199)) > 0
    assert largest_step(given, replace(TDRC, decay=0.201)) == 0


def test_with_one_feature_orthogonal_gradients_are_td() -> None:
    given = problems.w_to_2w()
    np.testing.assert_allclose(mean_dynamics(given, ra(0.7, "ortho")).A, mean_dynamics(given, TD).A, rtol=1e-12)


def test_a_narrow_kernel_is_the_residual_gradient_where_states_are_visited_equally() -> None:
    """K = I and D = I / 7: (D K D) is D / 7."""
    star = problems.baird_star()
    narrow = mean_dynamics(star, replace(KERNEL, width=0.01)).A
    np.testing.assert_allclose(7 * narrow, mean_dynamics(star, RG).A, rtol=0, atol=1e-12)


def test_sampled_steps_down_the_kernel_loss_average_to_the_expected_one() -> None:
    given = problems.random_mdp(2, 4, 2, 2)
    w, point = jnp.asarray([0.3, -0.8]), jax.tree.map(lambda leaf: leaf[0], stack([(KERNEL, 1.0)]))
    k, count = tables(given), 20_000

    def move(key: jax.Array) -> jax.Array:
        return jnp.asarray(update("kernel", linear, start("kernel", w), *independent(k, key), point).online - w)

    moves = np.asarray(jax.jit(jax.vmap(move))(jax.random.split(jax.random.key(0), count)), np.float64)
    expected = update("kernel", linear, start("kernel", w), *everything(given, KERNEL), point).online - w
    error = moves.std(0) / np.sqrt(count)
    assert (np.abs(moves.mean(0) - expected) <= 4.5 * error).all()
    assert np.abs(expected).max() > 10 * error.max()


def test_borrowing_is_unbiased_where_noise_is_the_same_everywhere() -> None:
    even, uneven = problems.ring(noise=0.3), problems.ring(noise=0.3, quiet=5)
    np.testing.assert_allclose(fixed_point(even, BORROWED), exact.true_value(even), rtol=1e-9)
    one, borrowed = (exact.msve(uneven, fixed_point(uneven, method)) for method in (RG1, BORROWED))
    assert 1e-6 < borrowed < one / 10


def test_a_borrowed_update_follows_its_mean_dynamics() -> None:
    given = problems.ring(states=4, noise=0.4, quiet=2)
    with jax.enable_x64(True):
        first = learn_expected(given, BORROWED, [0.3], 1)[0, 1]
    np.testing.assert_allclose(first, 0.3 * mean_dynamics(given, BORROWED).b, rtol=1e-9)  # from w = 0, tabular


def test_bairds_weight_by_hand() -> None:
    """d = (1, 0), g = (−1, 1): φ = 1/3, and the step (1/3, 1/3) neither raises nor lowers the residual."""
    d, g = jnp.array([1.0, 0.0]), jnp.array([-1.0, 1.0])
    phi = rules.least_weight(d @ g, g @ g)
    assert phi == pytest.approx(1 / 3)
    assert ((1 - phi) * d + phi * g) @ g == pytest.approx(0.0, abs=1e-6)
    assert rules.least_weight(-d @ g, g @ g) == 0.0
    assert rules.least_weight(jnp.array(0.0), jnp.array(0.0)) == 0.0


def test_bairds_weight_never_raises_the_bellman_error_where_td_does() -> None:
    star = problems.baird_star()
    tabular = with_features(star, np.eye(7))
    raised = {
        method.name: np.diff([exact.msbe(tabular, v) for v in learn_expected(star, method, [0.01], 200, every=5)[0]])
        for method in (TD, BAIRD)
    }
    assert raised[TD.name][-1] > 0
    assert raised[BAIRD.name].max() <= 1e-4
    sampled = learn(star, [(replace(BAIRD, eta=0.05), 0.01)], seeds=3, steps=2000, every=1000)
    assert np.abs(sampled).max() < 1e3


def test_a_slow_target_network_makes_steps_stable_on_the_star_and_none_on_w_to_2w() -> None:
    """With features that fit every value function, a backup that is held still is a step of value iteration."""
    star, targeted = problems.baird_star(), ra(0.0, "to", 0.01)
    low, high = stable_steps(star, targeted)
    assert 0.003 < low < 0.01 < 0.9 < high < 1.2
    assert largest_step(star, targeted) == 0.0, "small steps, which the target follows, are not"
    assert stable_steps(star, TD) == stable_steps(problems.w_to_2w(), targeted) == (0.0, 0.0)
    v = learn_expected(star, targeted, [0.1], 40_000, every=40_000)[0, -1]
    assert exact.rmsve(star, v) < 0.5 < exact.rmsve(star, learn_expected(star, targeted, [0.1], 1)[0, 0])
    assert not np.isfinite(learn_expected(star, TD, [0.1], 40_000, every=40_000)[0, -1]).all()


def test_c_dqn_stays_bounded_where_its_error_rises_for_a_while() -> None:
    """Its semi-gradient branch does not lower the mean squared temporal difference."""
    given, alone = problems.rough_mdp(329), replace(C_DQN, successors=1)
    tabular = with_features(given, np.eye(given.states))
    errors = [exact.mstde(tabular, v) for v in learn_expected(given, alone, [0.03], 2000, every=1000)[0]]
    assert errors[2] > errors[1]
    assert relatives.stable(given, alone)
    assert not relatives.stable(given, ra(0.0, "to", 0.01))


def test_what_has_no_linear_map_says_so() -> None:
    for method in (BAIRD, C_DQN):
        with pytest.raises(UserError, match="learn_expected"):
            mean_dynamics(problems.ring(), method)


def test_borrowing_needs_a_circle() -> None:
    with pytest.raises(UserError, match=r"problems\.ring"):
        learn(problems.baird_star(), [(BORROWED, 0.1)], 1, 1)


def test_one_successor_is_biased_beyond_the_standard_error_and_two_are_not() -> None:
    given = problems.ring(states=5, noise=0.4, gamma=0.6)
    one, two = relatives.sampled_bias(given, [(RG1, 0.3), (RG, 0.3)], LabScale(seeds=8, steps=2000))
    assert one[0] > 5 * one[1]
    assert two[0] < 2.5 * two[1]
