"""The mean dynamics of each algorithm: its fixed point, its stability and its rate.

In expectation, every algorithm of the lab is one affine map of its memory z,

    z ← T (z + α (b − A z)),

z = w for TD, RG and RA; z = (w, w⁻) with target networks, T being the soft update w⁻ ← w⁻ + τ (w − w⁻) that follows the
step; z = (w, h) for GTD2 and TDC, h being the second set of weights, with its own step size β = ratio · α.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq, minimize_scalar

from bires import rules
from bires.errors import UserError, unknown
from bires.linear.exact import discounted_successors, expected_reward, weighting
from bires.linear.mdp import Array, Problem

KINDS = ("rule", "gtd2", "tdc")


@dataclass(frozen=True)
class Algorithm:
    """A policy-evaluation algorithm as data; both the exact and the sampled half of the lab read it."""

    name: str
    kind: str = "rule"
    """`rule`: one of `bires.rules`; `gtd2` and `tdc`: the Gradient-TD methods."""
    rule: str = "res"
    eta: float = 0.0
    tau: float = 1.0
    """Mix of the target weights; 1 copies the online weights at every step, which is to have no target network."""
    successors: int = 2
    """2: the forward term sees an independent second successor (unbiased); 1: the same one (biased)."""
    ratio: float = 1.0
    """β / α of the Gradient-TD methods."""


TD = Algorithm("TD", eta=0.0)
RG = Algorithm("RG", eta=1.0)
RG1 = Algorithm("RG, one successor", eta=1.0, successors=1)
GTD2 = Algorithm("GTD2", kind="gtd2")
TDC = Algorithm("TDC", kind="tdc")


def ra(eta: float, rule: str = "res", tau: float = 1.0, successors: int = 2) -> Algorithm:
    """Baird's residual algorithm RA(η); ``rule`` and τ < 1 place target networks."""
    if not 0.0 <= eta <= 1.0:
        raise UserError(f"eta is {eta:g}; accepted is 0 <= eta <= 1: 0 is TD, 1 the residual gradient.")
    if not 0.0 < tau <= 1.0:
        raise UserError(f"tau is {tau:g}; accepted is 0 < tau <= 1: 1 means no target network.")
    if successors not in (1, 2):
        raise UserError(f"successors is {successors}; accepted are 1 (biased) and 2 (independent).")
    rules.get(rule)
    name = f"RA({eta:g})" if tau == 1.0 else f"{rule}({eta:g})"
    return Algorithm(name, rule=rule, eta=eta, tau=tau, successors=successors)


@dataclass(frozen=True)
class Dynamics:
    """z ← T (z + α (b − A z))."""

    A: Array
    b: Array
    T: Array

    def step(self, alpha: float) -> Array:
        """The linear part T (I − αA) of one expected update."""
        return self.T @ (np.eye(len(self.b)) - alpha * self.A)


@dataclass(frozen=True)
class Moments:
    """Second moments of one transition, expectations over d_μ with importance ratios (so, under d_μ and π)."""

    C: Array
    """E[x xᵀ]"""
    K: Array
    """E[x discount·x'ᵀ]"""
    L: Array
    """E[discount·x'' discount·x'ᵀ], x'' the successor that carries the gradient: independent of x', or x' itself."""
    xr: Array
    """E[x r]"""
    xr2: Array
    """E[discount·x'' r]"""


@lru_cache(maxsize=16)
def moments(given: Problem, successors: int = 2) -> Moments:
    """The moments that the mean dynamics are made of."""
    X, G, d, r = given.X, discounted_successors(given), weighting(given), expected_reward(given)
    C, K = (X.T * d) @ X, (X.T * d) @ G @ X
    if successors == 2:
        return Moments(C, K, (G @ X).T @ (d[:, None] * (G @ X)), X.T @ (d * r), (G @ X).T @ (d * r))
    chance = np.einsum("s,sa,ast->ast", d, given.pi, given.P)
    arrive = np.einsum("ast,ast->t", chance, given.discount**2)
    reward = np.einsum("ast,ast,ast->t", chance, given.discount, given.r)
    return Moments(C, K, (X.T * arrive) @ X, X.T @ (d * r), X.T @ reward)


def mean_dynamics(given: Problem, algorithm: Algorithm) -> Dynamics:
    """(A, b, T) of an algorithm, in the coordinates of w that the features can see.

    Weights along which Xw does not change never move and never matter, so they are dropped: for redundant features
    (Baird's star) A is the matrix of the dynamics on the row space of X.
    """
    if algorithm.kind not in KINDS:
        raise unknown("kind of algorithm", algorithm.kind, KINDS, "Type kind='rule'.")
    full = _rule_dynamics(given, algorithm) if algorithm.kind == "rule" else _gradient_td_dynamics(given, algorithm)
    return _reduce(full, row_space(given.X))


def row_space(X: Array) -> Array:
    """An orthonormal basis, in columns, of the weights that X can see; the identity where X has full rank."""
    size = X.shape[1]
    if np.linalg.matrix_rank(X) == size:
        return np.eye(size)
    _, s, vt = np.linalg.svd(X, full_matrices=False)
    return np.asarray(vt[s > s[0] * 1e-10].T, dtype=np.float64)


def _rule_dynamics(given: Problem, algorithm: Algorithm) -> Dynamics:
    """E[δ_b x − η δ_f discount·x''] as b − A z: each end of each δ lands on the network that supplies it."""
    rule, m, eta = rules.get(algorithm.rule), moments(given, algorithm.successors), algorithm.eta
    if not rule.bidirectional:
        eta = 0.0
    size = len(m.xr)
    A = np.zeros((size, 2, size))  # the middle axis: 0 target, 1 online
    A[:, int(rule.backward.pred)] += m.C
    A[:, int(rule.backward.succ)] -= m.K
    A[:, int(rule.forward.pred)] -= eta * m.K.T
    A[:, int(rule.forward.succ)] += eta * m.L
    b = m.xr - eta * m.xr2
    if algorithm.tau == 1.0 or not A[:, 0].any():
        return Dynamics(A.sum(1), b, np.eye(size))
    one, zero = np.eye(size), np.zeros((size, size))
    T = np.block([[one, zero], [algorithm.tau * one, (1.0 - algorithm.tau) * one]])
    return Dynamics(np.block([[A[:, 1], A[:, 0]], [zero, zero]]), np.append(b, np.zeros(size)), T)


def _gradient_td_dynamics(given: Problem, algorithm: Algorithm) -> Dynamics:
    """GTD2: E[(x − γx')(xᵀh)] for w; TDC: E[δx − γx'(xᵀh)]; both E[(δ − xᵀh) x] for h."""
    m, ratio = moments(given), algorithm.ratio
    zero = np.zeros_like(m.C)
    w_rows = [zero, -(m.C - m.K.T)] if algorithm.kind == "gtd2" else [m.C - m.K, m.K.T]
    A = np.block([w_rows, [ratio * (m.C - m.K), ratio * m.C]])
    b_w = np.zeros_like(m.xr) if algorithm.kind == "gtd2" else m.xr
    return Dynamics(A, np.append(b_w, ratio * m.xr), np.eye(2 * len(m.xr)))


def _reduce(full: Dynamics, V: Array) -> Dynamics:
    if V.shape[0] == V.shape[1]:
        return full
    basis = np.kron(np.eye(len(full.b) // len(V)), V)
    return Dynamics(basis.T @ full.A @ basis, basis.T @ full.b, basis.T @ full.T @ basis)


def eigenvalues(given: Problem, algorithm: Algorithm) -> npt.NDArray[np.complex128]:
    """Eigenvalues of A: the expected update converges for small steps if all have a positive real part."""
    values = np.linalg.eigvals(mean_dynamics(given, algorithm).A).astype(np.complex128)
    return values[np.argsort(values.real)]


def fixed_point(given: Problem, algorithm: Algorithm) -> Array:
    """The w at which the expected update vanishes (of least norm, where features are redundant)."""
    dynamics, V = mean_dynamics(given, replace(algorithm, tau=1.0)), row_space(given.X)
    return np.asarray(V @ np.linalg.solve(dynamics.A, dynamics.b)[: V.shape[1]], dtype=np.float64)


def radius(dynamics: Dynamics) -> Callable[[float], float]:
    """α ↦ spectral radius of T (I − αA): below 1 the expected update converges, by this factor a step in the end."""
    if np.array_equal(dynamics.T, np.eye(len(dynamics.b))):
        values = np.linalg.eigvals(dynamics.A)
        return lambda alpha: float(np.abs(1.0 - alpha * values).max())
    return lambda alpha: float(np.abs(np.linalg.eigvals(dynamics.step(alpha))).max())


def largest_step(given: Problem, algorithm: Algorithm) -> float:
    """The supremum of the α with spectral radius < 1 on all of (0, α); 0 where none is stable.

    Without target network min_i 2 Re λ_i / |λ_i|²; with one, found by scanning and bisecting.
    """
    return _largest_step(mean_dynamics(given, algorithm))


def _largest_step(dynamics: Dynamics) -> float:
    if np.array_equal(dynamics.T, np.eye(len(dynamics.b))):
        values = np.linalg.eigvals(dynamics.A)
        if values.real.min() <= 0.0:
            return 0.0
        return float((2.0 * values.real / np.abs(values) ** 2).min())
    grid = np.logspace(-6, 4, 201) / np.linalg.norm(dynamics.A, 2)
    radius_at = radius(dynamics)
    below = 0.0
    for alpha in grid:
        if radius_at(float(alpha)) >= 1.0:
            return float(brentq(lambda a: radius_at(a) - 1.0, below, alpha)) if below > 0.0 else 0.0
        below = float(alpha)
    return below


@dataclass(frozen=True)
class Outlook:
    """The stability and rate that follow from the eigenvalues."""

    converges: bool
    largest_step: float
    best_step: float
    rate: float
    """−ln of the spectral radius at the best step: e-foldings of the error per update; ≤ 0 never converges."""


def outlook(given: Problem, algorithm: Algorithm) -> Outlook:
    """Verdict, largest stable step, and the constant step with the best asymptotic rate."""
    dynamics = mean_dynamics(given, algorithm)
    limit = _largest_step(dynamics)
    if limit <= 0.0:
        return Outlook(False, 0.0, 0.0, 0.0)
    found = minimize_scalar(
        radius(dynamics), bounds=(0.0, limit), method="bounded", options={"xatol": limit * 1e-9, "maxiter": 200}
    )
    return Outlook(True, limit, float(found.x), float(-np.log(max(found.fun, 1e-300))))
