"""A claim about policy improvement: greedy policies of approximate action values against those of the exact ones."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from bires.linear import exact
from bires.linear.claims import FULL, LabScale, Row, Table, Verdict
from bires.linear.mdp import Array, Problem, problem

GAMMA = 0.9
SOLUTIONS = {"TD": exact.mspbe_minimiser, "RG": exact.msbe_minimiser}


def scattered(seed: int, spread: float) -> tuple[Problem, Array]:
    """Eight states and three actions with Dirichlet(spread) successors and normal rewards; eight random features."""
    rng = np.random.default_rng([17, seed])
    P = rng.dirichlet(np.full(8, spread), size=(3, 8)) + 1e-6
    P = P / P.sum(-1, keepdims=True)
    made = problem("random MDP", P, rng.normal(size=P.shape), GAMMA, np.ones((8, 1)), pi=rng.dirichlet([1] * 3, size=8))
    return made, np.concatenate([np.ones((24, 1)), rng.normal(size=(24, 7))], axis=1)


def chain_walk(seed: int) -> tuple[Problem, Array]:
    """Twenty states in a row, two directions that succeed with probability 0.9, reward 1 at both ends; a random policy.

    For each action a polynomial of degree four in the position, as in Lagoudakis and Parr (2003).
    """
    here = np.arange(20)
    left, right = np.maximum(here - 1, 0), np.minimum(here + 1, 19)
    P = np.zeros((2, 20, 20))
    for action, (meant, other) in enumerate(((left, right), (right, left))):
        P[action, here, meant] += 0.9
        P[action, here, other] += 0.1
    r = np.zeros_like(P)
    r[..., [0, 19]] = 1.0
    pi = np.random.default_rng([19, seed]).dirichlet([1, 1], size=20)
    made = problem("chain walk", P, r, GAMMA, np.ones((20, 1)), pi=pi)
    powers = np.linspace(-1.0, 1.0, 20)[:, None] ** np.arange(5)
    return made, np.einsum("sf,ab->sabf", powers, np.eye(2)).reshape(40, -1)


FAMILIES: dict[str, Callable[[int], tuple[Problem, Array]]] = {
    "random MDPs": lambda seed: scattered(seed, 1.0),
    "random MDPs with few successors": lambda seed: scattered(seed, 0.1),
    "chain walk": chain_walk,
}


def pairs(given: Problem, Phi: Array) -> Problem:
    """The evaluation of q_π as one of state values: its states are the pairs (s, a), with features Phi."""
    P = np.einsum("ast,tb->satb", given.P, given.pi).reshape(len(Phi), -1)
    reward = np.einsum("ast,ast->sa", given.P, given.r).reshape(-1)
    return problem(f"pairs of {given.name}", P, np.broadcast_to(reward[:, None], P.shape).copy(), given.gamma, Phi)


def greedy(q: Array, given: Problem) -> Array:
    """The action of each state with the largest value."""
    best: Array = q.reshape(given.states, given.actions).argmax(1)
    return best


def value_of(given: Problem, actions: Array) -> float:
    """The mean over states of the value of a deterministic policy."""
    here = np.arange(given.states)
    P = given.P[actions, here]
    reward = (P * given.r[actions, here]).sum(1)
    return float(exact.solve(np.eye(given.states) - given.gamma * P, reward).mean())


def improved(scale: LabScale = FULL) -> Verdict:
    """Greedy policies of TD's and RG's q against that of the exact q, in three families of problems."""
    rows: Table = []
    for family, make in FAMILIES.items():
        for seed in range(scale.mdps // 2):
            given, Phi = make(seed)
            flat = pairs(given, Phi)
            wanted = greedy(exact.true_value(flat), given)
            row: Row = {"family": family, "seed": seed}
            for name, minimiser in SOLUTIONS.items():
                found = greedy(flat.X @ minimiser(flat), given)
                row[f"agreement {name}"] = float((found == wanted).mean())
                row[f"lost {name}"] = value_of(given, wanted) - value_of(given, found)
            rows.append(row)
    measured: dict[str, float] = {"problems of each family": scale.mdps // 2}
    ahead = []
    for family in FAMILIES:
        mine = [row for row in rows if row["family"] == family]
        column = {name: np.array([row[name] for row in mine], float) for name in mine[0] if name != "family"}
        gap = column["agreement TD"] - column["agreement RG"]
        ahead.append(float(gap.mean() / (gap.std(ddof=1) / np.sqrt(len(gap)))))
        for name in SOLUTIONS:
            measured[f"{family}: states improved as by exact values, {name}"] = column[f"agreement {name}"].mean()
        measured[f"{family}: difference, in standard errors"] = ahead[-1]
        for name in SOLUTIONS:
            measured[f"{family}: value lost by the improved policy, {name}"] = column[f"lost {name}"].mean()
    return Verdict(
        "improved",
        "Policies improved from TD's solution are closer to those improved from exact values than from RG's.",
        "Lagoudakis & Parr 2003; the random MDPs are ours",
        min(ahead) > 2.0,
        measured,
        {"points": rows},
    )
