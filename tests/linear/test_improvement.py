"""Action values as state values of pairs, and the policies that they improve."""

from __future__ import annotations

import numpy as np
import pytest

from bires.linear import exact
from bires.linear.claims import QUICK
from bires.linear.improvement import FAMILIES, chain_walk, greedy, improved, pairs, value_of


@pytest.mark.parametrize("family", FAMILIES)
def test_values_of_pairs_are_action_values(family: str) -> None:
    """q(s, a) = Σ_s' P (r + γ v(s')), with v of the original problem."""
    given, Phi = FAMILIES[family](3)
    v = exact.true_value(given)
    q = np.einsum("ast,ast->sa", given.P, given.r + given.gamma * v)
    np.testing.assert_allclose(exact.true_value(pairs(given, Phi)).reshape(q.shape), q, rtol=1e-9)


def test_with_all_features_both_solutions_improve_as_exact_values_do() -> None:
    given, _ = FAMILIES["random MDPs"](0)
    flat = pairs(given, np.eye(24))
    wanted = greedy(exact.true_value(flat), given)
    for minimiser in (exact.mspbe_minimiser, exact.msbe_minimiser):
        np.testing.assert_array_equal(greedy(flat.X @ minimiser(flat), given), wanted)
    assert value_of(given, wanted) > exact.true_value(given).mean(), (
        "a greedy policy is no worse than the one it improves"
    )


def test_the_chain_is_the_papers() -> None:
    given, Phi = chain_walk(0)
    assert given.P[0, 5, 4] == given.P[1, 5, 6] == pytest.approx(0.9)
    assert given.P[0, 0, 0] == pytest.approx(0.9)
    assert given.r[1, 18, 19] == given.r[0, 1, 0] == 1.0
    assert Phi.shape == (40, 10)
    assert np.linalg.matrix_rank(Phi) == 10


def test_the_verdict_follows_the_numbers() -> None:
    verdict = improved(QUICK)
    gaps = [value for name, value in verdict.measured.items() if "standard errors" in name]
    assert len(gaps) == len(FAMILIES)
    assert verdict.holds == (min(gaps) > 2.0)
    assert len(verdict.tables["points"]) == len(FAMILIES) * QUICK.mdps // 2
