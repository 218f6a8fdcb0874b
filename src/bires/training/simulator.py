"""The oracle's side of planning: the physics states of a cohort's replay, and the questions asked about them.

The states stay on the host, beside the simulator: the device only says which transitions it drew.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bires.envs.pool import OracleNeeds, Pool
from bires.envs.slots import ACTIVE
from bires.population.imagination import imagined_shapes
from bires.population.program import Program
from bires.settings.grid import Member


def oracle_needs(program: Program, physics: int, members: int) -> OracleNeeds | None:
    """What the oracle of some members needs; None: they do not plan with the simulator."""
    if program.planner is None or not program.oracle:
        return None
    return OracleNeeds(physics, members * program.batch * max(1, program.planner.steps))


def kept_states(program: Program) -> tuple[str, ...]:
    """Which physics states of a transition are kept: Dyna starts before it, MVE after it."""
    planner = program.planner
    if planner is None or not program.oracle:
        return ()
    return ("before",) * (planner.steps > 0) + ("after",) * (planner.horizon > 0)


class SimulatorModel:
    """The simulator as the model of one cohort's planners."""

    def __init__(self, pool: Pool, members: Sequence[Member], program: Program) -> None:
        assert program.planner is not None
        self.pool, self.count = pool, len(members)
        self.batch = program.batch
        shape = (len(members), program.capacity, pool.arrays.physics.shape[1])
        self.states = {name: np.zeros(shape) for name in kept_states(program)}
        """Physics states by position in the replay: (members, capacity, ·)."""
        self.steps = np.array([member.planning["planning_steps"] or 0 for member in members])
        self.horizon = np.array([member.planning["horizon"] or 0 for member in members])
        shapes = imagined_shapes(program, len(members))
        self.blank = tuple(None if x is None else np.zeros(x.shape, x.dtype) for x in shapes)
        """Empty answers, in the two shapes."""
        self._walkers: list[Question] = []
        self._walked = 0

    def keep(self, clock: int) -> None:
        """Stores the states of the transition that step ``clock`` made."""
        arrays = self.pool.arrays
        for name, states in self.states.items():
            source = arrays.physics if name == "before" else arrays.next_physics
            states[:, clock % states.shape[1]] = source[: self.count]

    def forget(self, member: int, steps: range) -> None:
        """Stores nothing for these steps of a member."""
        for states in self.states.values():
            states[member, np.array(steps, int) % states.shape[1]] = 0.0

    def first(self, positions: np.ndarray, *actions: np.ndarray) -> tuple[np.ndarray | None, np.ndarray | None]:
        """Asks the simulator for what was drawn: Dyna's answers, and the first step of MVE's rollouts."""
        index = positions.astype(int)
        active = self.pool.arrays.status[: self.count] == ACTIVE
        nearby, walked = (None if blank is None else blank.copy() for blank in self.blank)
        asks: list[Question] = []
        if nearby is not None:
            asks = [
                Question(i, self.states["before"][i, index[i]], actions[0][i, p], nearby[i, p])
                for i in np.flatnonzero(active)
                for p in range(self.steps[i])
            ]
        self._walkers, self._walked = [], 1
        if walked is not None:
            self._walkers = [
                Question(i, self.states["after"][i, index[i]], actions[-1][i], walked[i])
                for i in np.flatnonzero(active & (self.horizon > 0))
            ]
        self._ask(asks + self._walkers)
        return nearby, walked

    def further(self, action: np.ndarray) -> np.ndarray:
        """The next step of the rollouts that are long enough."""
        blank = self.blank[1]
        assert blank is not None
        walked, t = blank.copy(), self._walked
        self._walkers = [
            Question(w.who, w.state, action[w.who], walked[w.who]) for w in self._walkers if t < self.horizon[w.who]
        ]
        self._walked += 1
        self._ask(self._walkers)
        return walked

    def _ask(self, asks: Sequence[Question]) -> None:
        """One round: fills each question's rows, and moves its states on."""
        if not asks:
            return
        owner = np.repeat([ask.who for ask in asks], self.batch)
        state = np.concatenate([ask.state for ask in asks])
        action = np.concatenate([ask.action for ask in asks])
        self.pool.ask(owner, state, action)
        found, size = self.pool.answers(), action.shape[1]
        for n, ask in enumerate(asks):
            mine = slice(n * self.batch, (n + 1) * self.batch)
            ask.rows[:, :size] = ask.action
            ask.rows[:, size] = found.reward[mine]
            ask.rows[:, size + 1 :] = found.observation[mine]
            ask.state = found.successor[mine].copy()


class Question:
    """A batch of states and actions of one member, and where the answers go."""

    def __init__(self, who: Any, state: np.ndarray, action: np.ndarray, rows: np.ndarray) -> None:
        self.who, self.state, self.action, self.rows = int(who), state, action, rows
