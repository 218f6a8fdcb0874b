"""The four rooms of Sutton, Precup & Singh 1999 (104 cells, 4 moves) with linear features."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csgraph

from bires.errors import unknown
from bires.linear.mdp import Array, Problem, problem

MAP = """
#############
#     #     #
#     #     #
#           #
#     #     #
#     #     #
## ####     #
#     ### ###
#     #     #
#     #     #
#           #
#     #     #
#############
""".strip().splitlines()
MOVES = ((-1, 0), (0, 1), (1, 0), (0, -1))
GOAL = (6, 2)  # the hallway in the west
FEATURES = ("tabular", "rooms", "coordinates", "room coordinates", "tiles")
POLICIES = ("random", "shortest")

CELLS = [(y, x) for y, row in enumerate(MAP) for x, mark in enumerate(row) if mark == " "]
INDEX = {cell: i for i, cell in enumerate(CELLS)}
NEXT = np.array([[INDEX.get((y + dy, x + dx), s) for dy, dx in MOVES] for (y, x), s in INDEX.items()])
"""NEXT[s, a], the cell that a move leads to: where there is a wall, the same one."""


def four_rooms(
    features: str = "coordinates",
    policy: str = "random",
    gamma: float = 0.9,
    slip: float = 0.0,
    goal: tuple[int, int] = GOAL,
) -> Problem:
    """Reward 1 for leaving the goal, which ends the episode; the next starts in any other cell with equal chance.

    ``policy`` is what π does: a uniformly random walk, or the shortest path to the goal. The behaviour μ is the random
    walk in both cases. With probability ``slip`` a move goes in a uniformly random direction.
    """
    if policy not in POLICIES:
        raise unknown("policy", policy, POLICIES, "Type policy='random'.")
    count, end = len(CELLS), INDEX[goal]
    step = np.eye(count)[NEXT.T]
    P = (1.0 - slip) * step + slip * step.mean(0)
    r, ends = np.zeros((2, 4, count, count))
    P[:, end] = 1.0 / (count - 1)
    P[:, end, end] = 0.0
    ends[:, end] = 1.0
    r[:, end] = 1.0
    walk = np.full((count, 4), 0.25)
    pi = walk if policy == "random" else shortest_path(goal)
    return problem(f"four rooms, {features}, {policy}", P, r, gamma, room_features(features), pi=pi, mu=walk, ends=ends)


def shortest_path(goal: tuple[int, int] = GOAL) -> Array:
    """A policy that takes, with equal chance, the moves that shorten the way to the goal; in the goal any move."""
    joined = np.eye(len(CELLS))[NEXT].sum(1)
    distance = csgraph.shortest_path(joined, unweighted=True, indices=INDEX[goal])
    shorter = distance[NEXT] < distance[:, None]
    shorter[INDEX[goal]] = True
    policy: Array = shorter / shorter.sum(1, keepdims=True)
    return policy


def room_features(kind: str) -> Array:
    """One row for each cell: itself; its room; its coordinates, scaled, and a constant; those by room; 3×3 tiles."""
    if kind not in FEATURES:
        raise unknown("features of the four rooms", kind, FEATURES, "Type features='coordinates'.")
    place = np.array(CELLS, dtype=float)
    scaled: Array = np.column_stack([np.ones(len(CELLS)), (place - 6.0) / 5.0])
    room = np.array([2 * (y > 6 if x <= 6 else y > 7) + (x > 6) for y, x in CELLS])
    rooms: Array = np.eye(4)[room]
    tile = ((place - 1) // 3).astype(int) @ np.array([4, 1])
    made: dict[str, Array] = {
        "tabular": np.eye(len(CELLS)),
        "rooms": rooms,
        "coordinates": scaled,
        "room coordinates": (rooms[:, :, None] * scaled[:, None, :]).reshape(len(CELLS), -1),
        "tiles": np.eye(16)[tile][:, np.unique(tile)],
    }
    return made[kind]
