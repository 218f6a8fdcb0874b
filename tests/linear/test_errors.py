"""Bad input: what was given, what is accepted, what to type instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from bires.errors import UserError
from bires.linear import exact, problems
from bires.linear.algorithms import learn
from bires.linear.control import control
from bires.linear.four_rooms import four_rooms
from bires.linear.mdp import Array, Problem, problem, with_features
from bires.linear.methods import GTD2, TD, ra
from bires.linear.updates import settings

P = np.array([[0.5, 0.5], [0.2, 0.8]])
R = np.zeros((2, 2))
X = np.eye(2)
GOOD: dict[str, Any] = {"name": "x", "P": P, "r": R, "gamma": 0.9, "X": X}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"P": [[0.5, 0.4], [0.2, 0.8]]}, r"Row 0 of P for action 0 sums to 0.9; every row must sum to 1"),
        ({"P": [[1.5, -0.5], [0.2, 0.8]]}, r"P\[0, 0, 1\] is -0.5; probabilities lie in \[0, 1\]"),
        ({"P": [0.5, 0.5]}, r"P has shape \(2,\)"),
        ({"P": [[np.nan, 1.0], [0.2, 0.8]]}, "P contains nan"),
        ({"gamma": -0.1}, "gamma is -0.1; accepted are 0 <= gamma < 1"),
        ({"gamma": 1.5}, "gamma is 1.5; accepted are 0 <= gamma < 1"),
        ({"gamma": 1.0}, "gamma is 1 and some state never reaches the end.*gamma=0.99"),
        ({"X": np.eye(3)}, r"X has shape \(3, 3\); accepted is \(2, features\)"),
        ({"r": np.zeros(2)}, r"r has shape \(2,\); accepted is the shape of P"),
        ({"pi": [[0.7], [1.0]]}, "Row 0 of pi"),
        ({"pi": [[1.0, 0.0], [1.0, 0.0]]}, r"pi has shape \(2, 2\); accepted is \(2, 1\)"),
        ({"w0": [1.0]}, "w0 has shape"),
    ],
)
def test_problems_are_checked(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        problem(**GOOD | arguments)


def test_behaviour_must_cover_the_target() -> None:
    with pytest.raises(UserError, match=r"mu\[0, 1\] is 0 where pi\[0, 1\] is 1"):
        problem("x", [P, P], [R, R], 0.9, X, pi=[[0, 1], [1, 0]], mu=[[1, 0], [1, 0]])


@pytest.mark.parametrize(
    "minimiser", [exact.msve_minimiser, exact.mspbe_minimiser, exact.msbe_minimiser, exact.mstde_minimiser]
)
def test_minimisers_need_independent_features(minimiser: Callable[[Problem], Array]) -> None:
    given = problem("x", P, R, 0.9, [[1.0, 2.0], [2.0, 4.0]])
    with pytest.raises(UserError, match=r"X has 2 columns but rank 1.*Drop 1 redundant"):
        minimiser(given)


def test_stationary_distribution_needs_an_ergodic_chain() -> None:
    given = problem("x", [[1.0, 0.0], [0.5, 0.5]], R, 0.9, X)
    with pytest.raises(UserError, match="P is not ergodic: it falls into 2 classes of states"):
        exact.weighting(given)
    np.testing.assert_allclose(exact.true_value(given), [0, 0])  # v_π needs no ergodicity


def test_td_fixed_point_may_not_exist() -> None:
    # γ = 0.75: (1 − p)(1 − 2γ) + 4p(1 − γ) is exactly 0 at p = ⅓, up to rounding.
    given = with_features(problems.w_to_2w(0.75, p=1 / 3), [[1.0], [2.0]])
    with pytest.raises(UserError, match="does not exist"):
        exact.mspbe_minimiser(given)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ra(1.5), "eta is 1.5; accepted is 0 <= eta <= 1"),
        (lambda: ra(0.5, "bi", tau=0.0), "tau is 0; accepted is 0 < tau <= 1"),
        (lambda: ra(0.5, "bidi"), "Unknown rule 'bidi'.*Did you mean 'bi'"),
        (lambda: ra(0.5, successors=3), "successors is 3"),
        (lambda: settings(TD, []), "step sizes are"),
        (lambda: settings(TD, [0.1, -1.0]), "step sizes are"),
        (lambda: learn(problems.random_walk(), [(TD, 0.1), (GTD2, 0.1)], 1, 1), "mix gradient-td with rule methods"),
        (lambda: control(problems.baird_star(), np.zeros((7, 3, 1))), r"Phi has shape \(7, 3, 1\)"),
        (lambda: problems.random_walk(5, "tabullar"), "Did you mean 'tabular'"),
        (lambda: problems.random_walk(2), "3 or more"),
        (lambda: problems.w_to_2w(p=1.0), "accepted is 0 < p < 1"),
        (lambda: problems.a_split(2.0), "accepted is 0 <= p <= 1"),
        (lambda: problems.ring(noise=-1.0), "accepted is 0 <= noise <= 1"),
        (lambda: problems.random_mdp(0, states=2, features=3), "at most 2"),
        (lambda: four_rooms("coordinate"), "Did you mean 'coordinates'"),
        (lambda: four_rooms(policy="best"), "Unknown policy 'best'"),
    ],
)
def test_other_wrong_arguments_are_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        make()
