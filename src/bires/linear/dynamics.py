"""The mean dynamics of each algorithm: its fixed point, its stability and its rate.

In expectation, every algorithm of the lab is one affine map of its memory z,

    z ← T (z + α (b − A z)),

z = w for TD, RG and RA; z = (w, w⁻) with target networks, T being the soft update w⁻ ← w⁻ + τ (w − w⁻) that follows the
step; z = (w, h) for GTD2, TDC and TDRC, h being the second set of weights, with its own step size β = ratio · α. C-DQN
and Baird's φ switch between such maps and have no single one: `bires.linear.algorithms.learn_expected` follows them.
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
from bires.linear.mdp import Array, Problem, induced
from bires.linear.methods import KINDS, Method


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
class FeatureMoments:
    """Second moments of one transition, expectations over d_μ with importance ratios (so, under d_μ and π)."""

    C: Array
    """E[x xᵀ]"""
    K: Array
    """E[x discount·x'ᵀ]"""
    J: Array
    """E[f xᵀ], f = discount·x'' of the successor that carries the gradient: independent of x', x' itself, or borrowed;
    without its part along x where gradients are orthogonal."""
    L: Array
    """E[f discount·x'ᵀ]"""
    xr: Array
    """E[x r]"""
    xr2: Array
    """E[f r]"""


@lru_cache(maxsize=16)
def moments(given: Problem, successors: int = 2, orthogonal: bool = False, borrowed: bool = False) -> FeatureMoments:
    """The moments that the mean dynamics are made of."""
    X, G, d, r = given.X, discounted_successors(given), weighting(given), expected_reward(given)
    C, K = (X.T * d) @ X, (X.T * d) @ G @ X
    if successors == 2 and not (orthogonal or borrowed):
        return FeatureMoments(C, K, K.T, (G @ X).T @ (d[:, None] * (G @ X)), X.T @ (d * r), (G @ X).T @ (d * r))
    chance = np.einsum("s,sa,ast->ast", d, given.pi, given.P)
    forward = _forward_features(given, successors, borrowed)
    if orthogonal:
        share = np.einsum("astd,sd->ast", forward, X) / np.maximum((X**2).sum(1), 1e-300)[:, None]
        forward = forward - share[..., None] * X[:, None]
    weighted = chance[..., None] * forward
    L = np.einsum("astd,ast,te->de", weighted, given.discount, X, optimize=True)
    J, xr2 = np.einsum("astd,se->de", weighted, X, optimize=True), np.einsum("astd,ast->d", weighted, given.r)
    return FeatureMoments(C, K, J, L, X.T @ (d * r), xr2)


def _forward_features(given: Problem, successors: int, borrowed: bool) -> Array:
    """E[discount·x'' | s, a, s']: (actions, states, states, features)."""
    shape = (*given.P.shape, given.X.shape[1])
    if successors == 1:
        return np.asarray(given.discount[..., None] * given.X)
    if not borrowed:
        return np.broadcast_to((discounted_successors(given) @ given.X)[:, None], shape)
    onward = induced(given, given.pi)
    s, t, u = np.ogrid[: given.states, : given.states, : given.states]
    features = given.gamma * np.einsum("tu,stud->std", onward, given.X[(s + u - t) % given.states])
    return np.broadcast_to(features, shape)


def mean_dynamics(given: Problem, algorithm: Method) -> Dynamics:
    """(A, b, T) of an algorithm, in the coordinates of w that the features can see.

    Weights along which Xw does not change never move and never matter, so they are dropped: for redundant features
    (Baird's star) A is the matrix of the dynamics on the row space of X.
    """
    if algorithm.kind not in KINDS:
        raise unknown("kind of algorithm", algorithm.kind, KINDS, "Type kind='rule'.")
    made = {"rule": _rule_dynamics, "kernel": _kernel_dynamics}.get(algorithm.kind, _gradient_td_dynamics)
    if algorithm.kind == "baird" or rules.get(algorithm.rule).convergent or rules.get(algorithm.rule).cautious:
        raise UserError(
            f"The expected update of {algorithm.name} is not one linear map, so it has no eigenvalues. Follow it with "
            "algorithms.learn_expected."
        )
    return _reduce(made(given, algorithm), row_space(given.X))


def row_space(X: Array) -> Array:
    """An orthonormal basis, in columns, of the weights that X can see; the identity where X has full rank."""
    size = X.shape[1]
    if np.linalg.matrix_rank(X) == size:
        return np.eye(size)
    _, s, vt = np.linalg.svd(X, full_matrices=False)
    return np.asarray(vt[s > s[0] * 1e-10].T, dtype=np.float64)


def _rule_dynamics(given: Problem, algorithm: Method) -> Dynamics:
    """E[δ_b x − η δ_f discount·x''] as b − A z: each end of each δ lands on the network that supplies it.

    Functional regularisation adds E[η (v⁻ − v) x].
    """
    rule = rules.get(algorithm.rule)
    m = moments(given, algorithm.successors, bool(rule.orthogonal), algorithm.borrowed)
    eta, anchor = algorithm.eta if rule.bidirectional else 0.0, algorithm.eta if rule.anchored else 0.0
    size = len(m.xr)
    A = np.zeros((size, 2, size))  # the middle axis: 0 target, 1 online
    A[:, int(rule.backward.pred)] += m.C
    A[:, int(rule.backward.succ)] -= m.K
    A[:, int(rule.forward.pred)] -= eta * m.J
    A[:, int(rule.forward.succ)] += eta * m.L
    A[:, 1] += anchor * m.C
    A[:, 0] -= anchor * m.C
    b = m.xr - eta * m.xr2
    if algorithm.tau == 1.0 or not A[:, 0].any():
        return Dynamics(A.sum(1), b, np.eye(size))
    one, zero = np.eye(size), np.zeros((size, size))
    T = np.block([[one, zero], [algorithm.tau * one, (1.0 - algorithm.tau) * one]])
    return Dynamics(np.block([[A[:, 1], A[:, 0]], [zero, zero]]), np.append(b, np.zeros(size)), T)


def _gradient_td_dynamics(given: Problem, algorithm: Method) -> Dynamics:
    """GTD2: E[(x − γx')(xᵀh)] for w; TDC: E[δx − γx'(xᵀh)]; both E[(δ − xᵀh) x] − decay · h for h."""
    m, ratio = moments(given), algorithm.ratio
    zero = np.zeros_like(m.C)
    w_rows = [zero, -(m.C - m.K.T)] if algorithm.kind == "gtd2" else [m.C - m.K, m.K.T]
    shrink = algorithm.decay * np.eye(len(m.C))
    A = np.block([w_rows, [ratio * (m.C - m.K), ratio * (m.C + shrink)]])
    b_w = np.zeros_like(m.xr) if algorithm.kind == "gtd2" else m.xr
    return Dynamics(A, np.append(b_w, ratio * m.xr), np.eye(2 * len(m.xr)))


def _kernel_dynamics(given: Problem, algorithm: Method) -> Dynamics:
    """The gradient of ½ εᵀ D K D ε, ε = r + (G − I) X w the Bellman errors: it is stable for every kernel."""
    X, d = given.X, weighting(given)
    apart = ((X[:, None] - X[None]) ** 2).sum(-1)
    weight = d[:, None] * np.exp(-apart / (2 * algorithm.width**2)) * d
    bellman = X - discounted_successors(given) @ X
    b = bellman.T @ weight @ expected_reward(given)
    return Dynamics(bellman.T @ weight @ bellman, b, np.eye(X.shape[1]))


def _reduce(full: Dynamics, V: Array) -> Dynamics:
    if V.shape[0] == V.shape[1]:
        return full
    basis = np.kron(np.eye(len(full.b) // len(V)), V)
    return Dynamics(basis.T @ full.A @ basis, basis.T @ full.b, basis.T @ full.T @ basis)


def eigenvalues(given: Problem, algorithm: Method) -> npt.NDArray[np.complex128]:
    """Eigenvalues of A: the expected update converges for small steps if all have a positive real part."""
    values = np.linalg.eigvals(mean_dynamics(given, algorithm).A).astype(np.complex128)
    return values[np.argsort(values.real)]


def fixed_point(given: Problem, algorithm: Method) -> Array:
    """The w at which the expected update vanishes (of least norm, where features are redundant)."""
    dynamics, V = mean_dynamics(given, replace(algorithm, tau=1.0)), row_space(given.X)
    return np.asarray(V @ np.linalg.solve(dynamics.A, dynamics.b)[: V.shape[1]], dtype=np.float64)


def radius(dynamics: Dynamics) -> Callable[[float], float]:
    """α ↦ spectral radius of T (I − αA): below 1 the expected update converges, by this factor a step in the end."""
    if np.array_equal(dynamics.T, np.eye(len(dynamics.b))):
        values = np.linalg.eigvals(dynamics.A)
        return lambda alpha: float(np.abs(1.0 - alpha * values).max())
    return lambda alpha: float(np.abs(np.linalg.eigvals(dynamics.step(alpha))).max())


def largest_step(given: Problem, algorithm: Method) -> float:
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


STEPS = np.logspace(-5, 4, 181)
"""The step sizes that are tried where stable ones need not begin at 0."""


def stable_steps(given: Problem, algorithm: Method) -> tuple[float, float]:
    """The smallest and the largest of `STEPS` with which the expected update converges; 0 and 0 where none does.

    A target network that is slow against the step holds the backup still. So steps may be stable although smaller ones,
    which the target follows, are not.
    """
    at = radius(mean_dynamics(given, algorithm))
    stable = [float(alpha) for alpha in STEPS if at(float(alpha)) < 1.0 - 1e-9]
    return (stable[0], stable[-1]) if stable else (0.0, 0.0)


@dataclass(frozen=True)
class Outlook:
    """The stability and rate that follow from the eigenvalues."""

    converges: bool
    largest_step: float
    best_step: float
    rate: float
    """−ln of the spectral radius at the best step: e-foldings of the error per update; ≤ 0 never converges."""


def outlook(given: Problem, algorithm: Method) -> Outlook:
    """Verdict, largest stable step, and the constant step with the best asymptotic rate."""
    dynamics = mean_dynamics(given, algorithm)
    limit = _largest_step(dynamics)
    if limit <= 0.0:
        return Outlook(False, 0.0, 0.0, 0.0)
    found = minimize_scalar(
        radius(dynamics), bounds=(0.0, limit), method="bounded", options={"xatol": limit * 1e-9, "maxiter": 200}
    )
    return Outlook(True, limit, float(found.x), float(-np.log(max(found.fun, 1e-300))))
