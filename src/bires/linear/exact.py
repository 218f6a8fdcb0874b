"""Exact quantities of a problem: values, projection, the three errors and where each is least.

Matrix notation of the paper's section 2. All errors are weighted by d, the stationary distribution of the behaviour
policy (so d = d_π on-policy), and all bootstrapping by G[s, s'] = Σ_a π(a|s) P(s'|s, a) · discount(s, a, s'), which is
γ P_π in a continuing problem.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from bires.errors import UserError
from bires.linear.mdp import Array, Problem, induced, require_independent, stationary


@lru_cache(maxsize=16)
def weighting(given: Problem) -> Array:
    """d_μ, the stationary distribution of the states that the behaviour policy visits."""
    d = stationary(induced(given, given.mu))
    d.setflags(write=False)
    return d


def expected_reward(given: Problem) -> Array:
    """r_π[s] = Σ_a π(a|s) Σ_s' P(s'|s, a) r(s, a, s')."""
    rewards: Array = np.einsum("sa,ast,ast->s", given.pi, given.P, given.r)
    return rewards


def discounted_successors(given: Problem) -> Array:
    """G[s, s'] = Σ_a π(a|s) P(s'|s, a) discount(s, a, s'); γ P_π where no episode ends."""
    discounted: Array = np.einsum("sa,ast,ast->st", given.pi, given.P, given.discount)
    return discounted


def true_value(given: Problem) -> Array:
    """v_π = (I − G)⁻¹ r_π, the fixed point of the Bellman operator."""
    return solve(np.eye(given.states) - discounted_successors(given), expected_reward(given))


def backup(given: Problem, v: Array) -> Array:
    """𝒯v = r_π + G v."""
    return expected_reward(given) + discounted_successors(given) @ v


def projection(given: Problem) -> Array:
    """Π = X (Xᵀ D X)⁺ Xᵀ D, the d-weighted projection on the span of the features (any rank)."""
    root = np.sqrt(weighting(given))
    basis = root[:, None] * given.X
    return (basis @ np.linalg.pinv(basis)) * root / root[:, None]


def msve(given: Problem, w: Array) -> float:
    """MSVE(w) = ‖Xw − v_π‖²_d."""
    return _norm2(given, given.X @ w - true_value(given))


def msbe(given: Problem, w: Array) -> float:
    """MSBE(w) = ‖Xw − 𝒯Xw‖²_d."""
    v = given.X @ w
    return _norm2(given, v - backup(given, v))


def mspbe(given: Problem, w: Array) -> float:
    """MSPBE(w) = ‖Xw − Π𝒯Xw‖²_d."""
    v = given.X @ w
    return _norm2(given, v - projection(given) @ backup(given, v))


def mstde(given: Problem, w: Array) -> float:
    """MSTDE(w) = E[δ²], δ = r + discount · v(s') − v(s): the Bellman error plus the variance of the backup."""
    v = given.X @ w
    delta = given.r + given.discount * v - v[:, None]
    return float(np.einsum("s,sa,ast,ast->", weighting(given), given.pi, given.P, delta**2))


def msve_minimiser(given: Problem) -> Array:
    """argmin MSVE = (Xᵀ D X)⁻¹ Xᵀ D v_π, the best that these features can do."""
    require_independent(given.X, "the MSVE minimiser")
    root = np.sqrt(weighting(given))
    return _least_squares(root[:, None] * given.X, root * true_value(given))


def mspbe_minimiser(given: Problem) -> Array:
    """The TD fixed point, which LSTD estimates: the w with Xᵀ D (I − G) X w = Xᵀ D r_π, where MSPBE is 0."""
    require_independent(given.X, "the MSPBE minimiser")
    weighted = given.X.T * weighting(given)
    A = weighted @ (given.X - discounted_successors(given) @ given.X)
    least, scale = np.linalg.svd(A, compute_uv=False)[-1], np.linalg.norm(weighted @ given.X, 2)
    if least < 1e-14 * scale:
        raise UserError(
            f"The TD fixed point of {given.name!r} does not exist: Xᵀ D (I − γP) X is singular (its least singular "
            f"value is {least:.1e}). This happens off-policy only; change mu, gamma or X a little."
        )
    return solve(A, weighted @ expected_reward(given))


def msbe_minimiser(given: Problem) -> Array:
    """argmin MSBE: least squares of r_π on (I − G) X, weighted by d. Where RG with two successors converges to."""
    require_independent(given.X, "the MSBE minimiser")
    root = np.sqrt(weighting(given))
    bellman = given.X - discounted_successors(given) @ given.X
    return _least_squares(root[:, None] * bellman, root * expected_reward(given))


def mstde_minimiser(given: Problem) -> Array:
    """argmin E[δ²], where the single-successor RG converges to: least squares over all transitions."""
    require_independent(given.X, "the MSTDE minimiser")
    chance = np.einsum("s,sa,ast->ast", weighting(given), given.pi, given.P).ravel()
    rows = given.X[None, :, None, :] - given.discount[..., None] * given.X[None, None, :, :]
    root = np.sqrt(chance)
    return _least_squares(root[:, None] * rows.reshape(-1, given.X.shape[1]), root * given.r.ravel())


def value_bound(given: Problem) -> float:
    """The least c with MSVE ≤ c · MSBE for every w and features: ‖(I − G)⁻¹‖²_d.

    On-policy c ≤ 1 / (1 − γ)², because P_π does not expand the norm of its own stationary distribution.
    """
    root = np.sqrt(weighting(given))
    inverse = np.linalg.inv(np.eye(given.states) - discounted_successors(given))
    return float(np.linalg.norm(root[:, None] * inverse / root, 2) ** 2)


def solve(A: Array, b: Array) -> Array:
    """x with A x = b."""
    return np.asarray(np.linalg.solve(A, b), dtype=np.float64)


def _norm2(given: Problem, v: Array) -> float:
    """‖v‖²_d = Σ_s d(s) v(s)²."""
    return float(weighting(given) @ v**2)


def _least_squares(A: Array, b: Array) -> Array:
    solution, *_ = np.linalg.lstsq(A, b, rcond=None)
    return np.asarray(solution, dtype=np.float64)


def rmsve(given: Problem, values: Array) -> Array:
    """√MSVE of each row of state values."""
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(np.sqrt((values - true_value(given)) ** 2 @ weighting(given)))
