"""The classic problems, each with its source. Every function returns a checked `Problem`.

S&B is Sutton & Barto, Reinforcement Learning: An Introduction, 2nd edition, 2018.
"""

from __future__ import annotations

import numpy as np

from bires.errors import UserError, unknown
from bires.linear.mdp import Array, Problem, problem

WALK_FEATURES = ("tabular", "inverted", "dependent", "aggregated")


def random_walk(states: int = 5, features: str = "tabular", gamma: float = 1.0) -> Problem:
    """States 0 … n−1, left or right with equal chance, start in the middle; reward 1 for leaving on the right.

    With γ = 1, v_π(s) = (s + 1) / (n + 1) (S&B, example 6.2). The features are those of Sutton et al. 2009:
    one-hot rows; their complement, scaled to unit length; few that overlap. *aggregated* joins neighbours in pairs.
    """
    if states < 3:
        raise UserError(f"A random walk was given {states} states; accepted: 3 or more.")
    P, r, ends = np.zeros((3, 2, states, states))
    middle = states // 2
    for s in range(states):
        for a, to in enumerate((s - 1, s + 1)):
            out = not 0 <= to < states
            P[a, s, middle if out else to] = 1.0
            ends[a, s, middle] = float(out)
            r[a, s, middle] = float(out and a == 1)
    return problem(
        f"random walk, {states} states, {features}", P, r, gamma, _walk_features(states, features), ends=ends
    )


def _walk_features(states: int, kind: str) -> Array:
    if kind not in WALK_FEATURES:
        raise unknown("features of the random walk", kind, WALK_FEATURES, "Type features='tabular'.")
    if kind == "tabular":
        return np.eye(states)
    if kind == "inverted":
        return (1.0 - np.eye(states)) / float(np.sqrt(states - 1))
    if kind == "aggregated":
        return np.eye((states + 1) // 2)[np.arange(states) // 2]
    width = states // 2 + 1
    window = np.array(
        [[float(max(0, s - width + 1) <= j <= min(s, width - 1)) for j in range(width)] for s in range(states)]
    )
    lengths: Array = np.linalg.norm(window, axis=1, keepdims=True)
    return window / lengths


def boyan_chain() -> Problem:
    """Boyan 1999: states 12 … 0; from i ≥ 2 to i−1 or i−2 with reward −3, from 1 to 0 with reward −2, γ = 1.

    Four features interpolate between the states 12, 8, 4, 0; v_π(i) = −2i, so w* = (−24, −16, −8, 0).
    """
    P, r, ends = np.zeros((3, 13, 13))
    for i in range(2, 13):
        P[i, [i - 1, i - 2]] = 0.5
        r[i, [i - 1, i - 2]] = -3.0
    P[1, 0], r[1, 0] = 1.0, -2.0
    P[0, 12], ends[0, 12] = 1.0, 1.0
    corner = np.array([12.0, 8.0, 4.0, 0.0])
    X = np.maximum(0.0, 1.0 - np.abs(np.arange(13)[:, None] - corner) / 4.0)
    return problem("Boyan's chain", P, r, 1.0, X, ends=ends)


def baird_star(gamma: float = 0.99) -> Problem:
    """Baird 1995, as in S&B section 11.2: 7 states, 8 weights, all rewards 0, so v_π = 0 is representable.

    The dashed action (0) leads to one of the six upper states, the solid one (1) to the seventh. π always takes solid;
    μ takes it with probability 1/7, so d_μ is uniform.
    """
    P = np.zeros((2, 7, 7))
    P[0, :, :6] = 1.0 / 6.0
    P[1, :, 6] = 1.0
    X = np.zeros((7, 8))
    X[:6, :6] = 2.0 * np.eye(6)
    X[:6, 7] = 1.0
    X[6, 6], X[6, 7] = 1.0, 2.0
    pi = np.tile([0.0, 1.0], (7, 1))
    mu = np.tile([6.0 / 7.0, 1.0 / 7.0], (7, 1))
    return problem("Baird's star", P, np.zeros_like(P), gamma, X, pi=pi, mu=mu, w0=[1, 1, 1, 1, 1, 1, 10, 1])


def w_to_2w(gamma: float = 0.9, p: float = 0.5, reward: float = 0.0) -> Problem:
    """Tsitsiklis & Van Roy 1996 (S&B section 11.2): two states of value w and 2w.

    π always goes to the second state and stays; μ does so with probability p and else returns to the first, so
    d_μ = (1 − p, p). ``reward`` is paid in the first state: with 0, v_π = 0 is representable.
    """
    if not 0.0 < p < 1.0:
        raise UserError(f"p is {p:g}; accepted is 0 < p < 1, the chance that the behaviour takes the target's action.")
    P = np.zeros((2, 2, 2))
    P[0, :, 1] = 1.0
    P[1, :, 0] = 1.0
    r = np.zeros_like(P)
    r[:, 0, :] = reward
    pi = np.tile([1.0, 0.0], (2, 1))
    return problem("w→2w", P, r, gamma, [[1.0], [2.0]], pi=pi, mu=np.tile([p, 1.0 - p], (2, 1)), w0=[1.0])


def a_split(p: float = 0.5) -> Problem:
    """S&B example 11.2: A leads to B (probability p) or C; B ends with reward 1, C with 0. Tabular, γ = 1.

    v_π = (p, 1, 0); the single-successor residual gradient at p = ½ says (½, ¾, ¼).
    """
    if not 0.0 <= p <= 1.0:
        raise UserError(f"p is {p:g}; accepted is 0 <= p <= 1, the chance that A leads to B.")
    P, r, ends = np.zeros((3, 3, 3))
    P[0] = 0.0, p, 1.0 - p
    P[1:, 0], ends[1:, 0] = 1.0, 1.0
    r[1, 0] = 1.0
    return problem("A-split", P, r, 1.0, np.eye(3), ends=ends)


def a_presplit() -> Problem:
    """S&B example 11.3: A1 leads to B, A2 to C, and A1, A2 share one weight. Deterministic but for the start; γ = 1.

    Weights (A, B, C): the MSPBE minimiser is (½, 1, 0), the MSBE minimiser (½, ¾, ¼).
    """
    P, r, ends = np.zeros((3, 4, 4))
    P[0, 2] = P[1, 3] = 1.0
    P[2:, :2], ends[2:, :2] = 0.5, 1.0
    r[2, :2] = 1.0
    X = np.array([[1, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], dtype=float)
    return problem("A-presplit", P, r, 1.0, X, ends=ends)


def same_data(gamma: float = 0.9) -> tuple[Problem, Problem]:
    """S&B section 11.6: two MDPs whose data (features and rewards) have the same distribution.

    Left: A → B with reward 0; B → A with reward 1 or B → B with reward −1. Right: B is two states that look alike;
    A leads to either with reward 0, B returns to A with reward 1, B' leads to either with reward −1.
    The MSBE minimisers are (0, 0) on the left and (−γ, γ/2) / (1 + γ + γ²) on the right.
    """
    left = problem("left", [[0.0, 1.0], [0.5, 0.5]], [[0, 0], [1, -1]], gamma, np.eye(2))
    P = np.array([[0, 0.5, 0.5], [1, 0, 0], [0, 0.5, 0.5]])
    r = np.array([[0, 0, 0], [1, 0, 0], [0, -1, -1]], dtype=float)
    return left, problem("right", P, r, gamma, [[1, 0], [0, 1], [0, 1]])


def ring(states: int = 10, noise: float = 0.0, gamma: float = 0.9, quiet: int = 0) -> Problem:
    """A ring that steps forward, or with probability ``noise`` to any state with equal chance; reward 1 in state 0.

    Tabular: every consistent algorithm finds v_π, so what remains is bias. The first ``quiet`` states have no noise.
    """
    if not 0.0 <= noise <= 1.0:
        raise UserError(f"noise is {noise:g}; accepted is 0 <= noise <= 1, a probability.")
    forward = np.roll(np.eye(states), 1, axis=1)
    each = noise * (np.arange(states) >= quiet)[:, None]
    P = (1.0 - each) * forward + each / states
    r = np.zeros((states, states))
    r[0] = 1.0
    return problem(f"ring, noise {noise:g}", P, r, gamma, np.eye(states))


def turning(gamma: float = 0.9) -> Problem:
    """Three states in a circle; each step stays or goes on, with probability ½. All rewards are 0, so v = 0.

    With values on a spiral (`bires.linear.values.spiral`), Tsitsiklis and Van Roy's example of divergence (1997).
    """
    P = 0.5 * (np.eye(3) + np.roll(np.eye(3), 1, axis=0))
    return problem("three turning states", P, np.zeros((3, 3)), gamma, np.eye(3))


def random_mdp(
    seed: int, states: int = 8, actions: int = 2, features: int = 3, gamma: float = 0.9, *, off_policy: bool = False
) -> Problem:
    """Dirichlet(1) rows of P and of the policies, normal rewards, normal features after a constant first column."""
    if features > states:
        raise UserError(f"{features} features for {states} states; accepted are at most {states}.")
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.ones(states), size=(actions, states))
    r = rng.normal(size=(actions, states, states))
    X = np.concatenate([np.ones((states, 1)), rng.normal(size=(states, features - 1))], axis=1)
    pi = rng.dirichlet(np.ones(actions), size=states)
    mu = rng.dirichlet(np.ones(actions), size=states) if off_policy else pi
    return problem(f"random MDP {seed}", P, r, gamma, X, pi=pi, mu=mu)


def rough_mdp(seed: int, states: int = 5, features: int = 2, gamma: float = 0.95) -> Problem:
    """A random MDP with few likely successors and two very different policies: off-policy TD is sometimes unstable."""
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.full(states, 0.1), size=(2, states)) + 1e-6
    P = P / P.sum(-1, keepdims=True)
    X = rng.normal(size=(states, features))
    pi = rng.dirichlet([0.3, 0.3], size=states)
    mu = 0.9 * rng.dirichlet([0.3, 0.3], size=states) + 0.05
    return problem(f"rough MDP {seed}", P, rng.normal(size=P.shape), gamma, X, pi=pi, mu=mu)
