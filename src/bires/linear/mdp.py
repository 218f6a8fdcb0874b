"""Finite Markov decision processes with features: what is known when everything is known.

A *problem* is an MDP (P, r, γ), a target policy π whose value is wanted, a behaviour policy μ that makes the data, and
a feature matrix X. An episodic task is written as a continuing one: the transition that ends an episode leads to the
first state of the next and is marked in ``ends``; its discount is 0. So d_μ exists for episodic tasks too.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
from scipy.sparse.csgraph import connected_components

from bires.errors import UserError

Array = npt.NDArray[np.float64]

TOLERANCE = 1e-9


@dataclass(frozen=True, eq=False)
class Problem:
    """One policy-evaluation problem. Build it with `problem`, which checks everything.

    Two problems are equal only if they are one object, and arrays cannot be written to: what is derived from a problem
    may be kept.
    """

    name: str
    P: Array
    """P[a, s, s'], the probability of s' after action a in state s."""
    r: Array
    """r[a, s, s'], the reward of that transition."""
    gamma: float
    pi: Array
    """π[s, a], the policy to evaluate."""
    mu: Array
    """μ[s, a], the policy that acts; equal to π on-policy."""
    X: Array
    """X[s, :], the features of s."""
    ends: Array
    """ends[a, s, s'], 1 where the transition ends an episode (s' is then the start of the next one), else 0."""
    w0: Array = field(default_factory=lambda: np.zeros(0))
    """Where learning starts."""

    def __post_init__(self) -> None:
        for array in (self.P, self.r, self.pi, self.mu, self.X, self.ends, self.w0):
            array.setflags(write=False)

    @property
    def states(self) -> int:
        return int(self.P.shape[1])

    @property
    def actions(self) -> int:
        return int(self.P.shape[0])

    @property
    def discount(self) -> Array:
        """discount[a, s, s'] = γ, but 0 where an episode ends."""
        return self.gamma * (1.0 - self.ends)

    @property
    def ratio(self) -> Array:
        """The importance ratios ρ[s, a] = π(a|s) / μ(a|s), 0 where neither policy acts."""
        return np.divide(self.pi, self.mu, out=np.zeros_like(self.pi), where=self.mu > 0)


def problem(
    name: str,
    P: npt.ArrayLike,
    r: npt.ArrayLike,
    gamma: float,
    X: npt.ArrayLike,
    *,
    pi: npt.ArrayLike | None = None,
    mu: npt.ArrayLike | None = None,
    ends: npt.ArrayLike | None = None,
    w0: npt.ArrayLike | None = None,
) -> Problem:
    """A checked problem. P, r and ends may be (S, S) where there is one action; π defaults to uniform, μ to π."""
    P_ = _transitions(P)
    actions, states, _ = P_.shape
    X_ = _features(X, states)
    pi_ = np.full((states, actions), 1.0 / actions) if pi is None else _policy("pi", pi, states, actions)
    mu_ = pi_ if mu is None else _policy("mu", mu, states, actions)
    uncovered = np.argwhere((pi_ > 0) & (mu_ == 0))
    if len(uncovered):
        s, a = (int(i) for i in uncovered[0])
        raise UserError(
            f"mu[{s}, {a}] is 0 where pi[{s}, {a}] is {pi_[s, a]:g}. Importance ratios pi/mu need mu > 0 wherever "
            f"pi > 0: give mu[{s}, {a}] some probability."
        )
    made = Problem(
        name,
        P_,
        _per_transition("r", r, P_.shape),
        float(gamma),
        pi_,
        mu_,
        X_,
        np.zeros(P_.shape) if ends is None else _per_transition("ends", ends, P_.shape),
        np.zeros(X_.shape[1]) if w0 is None else _finite("w0", w0),
    )
    if made.w0.shape != (X_.shape[1],):
        raise UserError(f"w0 has shape {made.w0.shape}; X has {X_.shape[1]} columns. Give one weight for each column.")
    _check_discount(made)
    return made


def with_features(given: Problem, X: npt.ArrayLike, w0: npt.ArrayLike | None = None) -> Problem:
    """The same MDP and policies with other features."""
    X_ = _features(X, given.states)
    return replace(given, X=X_, w0=np.zeros(X_.shape[1]) if w0 is None else _finite("w0", w0))


def induced(given: Problem, policy: Array) -> Array:
    """P_π[s, s'] = Σ_a π(a|s) P(s'|s, a)."""
    chances: Array = np.einsum("sa,ast->st", policy, given.P)
    return chances


def stationary(P: Array) -> Array:
    """The distribution d with dᵀP = dᵀ, Σ_s d(s) = 1; unique, and positive everywhere, when P is irreducible."""
    count, label = connected_components(P > 0, directed=True, connection="strong")
    if count > 1:
        apart = [int(s) for s in np.flatnonzero(label != label[0])[:5]]
        raise UserError(
            f"P is not ergodic: it falls into {count} classes of states (state 0 and states {apart} do not reach "
            "each other), so no unique positive stationary distribution exists. Give a behaviour policy mu "
            "under which every state reaches every other, or send the ends of episodes back to a start state "
            "(ends=...)."
        )
    size = len(P)
    system = np.vstack([P.T - np.eye(size), np.ones(size)])
    d, *_ = np.linalg.lstsq(system, np.append(np.zeros(size), 1.0), rcond=None)
    positive: Array = np.maximum(d, 0.0)
    return positive / float(positive.sum())


def require_independent(X: Array, purpose: str) -> None:
    """Raise unless the columns of X are linearly independent."""
    rank = int(np.linalg.matrix_rank(X))
    if rank < X.shape[1]:
        raise UserError(
            f"X has {X.shape[1]} columns but rank {rank}; {purpose} is unique only for linearly independent "
            f"features. Drop {X.shape[1] - rank} redundant column(s) of X."
        )


def _finite(name: str, given: npt.ArrayLike) -> Array:
    array = np.array(given, dtype=np.float64)
    if not np.isfinite(array).all():
        raise UserError(f"{name} contains {array[~np.isfinite(array)][0]}; every entry must be a finite number.")
    return array


def _transitions(given: npt.ArrayLike) -> Array:
    P = _finite("P", given)
    P = P[None] if P.ndim == 2 else P
    if P.ndim != 3 or P.shape[1] != P.shape[2] or P.size == 0:
        raise UserError(
            f"P has shape {np.shape(given)}; accepted are (actions, states, states), or (states, states) for 1 action."
        )
    if P.min() < 0:
        a, s, t = (int(i) for i in np.argwhere(P < 0)[0])
        raise UserError(f"P[{a}, {s}, {t}] is {P[a, s, t]:g}; probabilities lie in [0, 1].")
    sums = P.sum(-1)
    if np.abs(sums - 1.0).max() > TOLERANCE:
        a, s = (int(i) for i in np.unravel_index(np.abs(sums - 1.0).argmax(), sums.shape))
        raise UserError(
            f"Row {s} of P for action {a} sums to {sums[a, s]:.10g}; every row must sum to 1. "
            "Divide each row by its sum: P / P.sum(-1, keepdims=True)."
        )
    return P


def _features(given: npt.ArrayLike, states: int) -> Array:
    X = _finite("X", given)
    if X.ndim != 2 or X.shape[0] != states or X.shape[1] == 0:
        raise UserError(f"X has shape {X.shape}; accepted is ({states}, features): one row for each state of P.")
    return X


def _policy(name: str, given: npt.ArrayLike, states: int, actions: int) -> Array:
    policy = _finite(name, given)
    if policy.shape != (states, actions):
        raise UserError(f"{name} has shape {policy.shape}; accepted is ({states}, {actions}): (states, actions).")
    if policy.min() < 0 or np.abs(policy.sum(1) - 1.0).max() > TOLERANCE:
        s = int(np.abs(policy.sum(1) - 1.0).argmax())
        raise UserError(
            f"Row {s} of {name} is {policy[s]}, with sum {policy[s].sum():.10g}; each row must be a distribution over "
            f"the {actions} actions: non-negative, with sum 1."
        )
    return policy


def _per_transition(name: str, given: npt.ArrayLike, shape: tuple[int, ...]) -> Array:
    array = _finite(name, given)
    array = array[None] if array.ndim == 2 else array
    if array.shape != shape:
        raise UserError(f"{name} has shape {np.shape(given)}; accepted is the shape of P, {shape}.")
    return array


def _check_discount(given: Problem) -> None:
    """γ in [0, 1); γ = 1 only where every state reaches an end under π, so that v_π is still finite."""
    gamma = given.gamma
    if not 0.0 <= gamma <= 1.0:
        raise UserError(f"gamma is {gamma:g}; accepted are 0 <= gamma < 1 (and 1 where every episode ends).")
    if gamma < 1.0:
        return
    going_on = np.einsum("sa,ast->st", given.pi, given.P * given.discount)
    if np.abs(np.linalg.eigvals(going_on)).max() > 1.0 - TOLERANCE:
        raise UserError(
            "gamma is 1 and some state never reaches the end of an episode under pi, so its value is not finite. "
            "Use gamma < 1, for example gamma=0.99, or mark the transitions that end an episode (ends=...)."
        )
