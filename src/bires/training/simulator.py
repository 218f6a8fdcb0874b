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
from bires.population.planners import kind_of, size_of
from bires.population.program import Program
from bires.settings.grid import Member


def oracle_needs(program: Program, physics: int, members: int) -> OracleNeeds | None:
    """What the oracle of some members needs; None: they do not plan with the simulator."""
    if program.planning is None or not program.oracle:
        return None
    return OracleNeeds(physics, members * program.batch * max(use.width for use in program.planning.uses))


def kept_states(program: Program) -> tuple[str, ...]:
    """Which physics states of a transition are kept: those in which rollouts begin."""
    if program.planning is None or not program.oracle:
        return ()
    starts = {use.kind.start for use in program.planning.uses}
    return tuple(name for name in ("before", "after") if name in starts)


class SimulatorModel:
    """The simulator as the model of one cohort's planners."""

    def __init__(self, pool: Pool, members: Sequence[Member], program: Program, scale: float = 1.0) -> None:
        assert program.planning is not None
        self.pool, self.count, self.scale = pool, len(members), scale
        self.batch, self.uses = program.batch, program.planning.uses
        shape = (len(members), program.capacity, pool.arrays.physics.shape[1])
        self.states = {name: np.zeros(shape) for name in kept_states(program)}
        """Physics states by position in the replay: (members, capacity, ·)."""
        self.sizes = [[size_of(m) if kind_of(m) is use.kind else (0, 0) for m in members] for use in self.uses]
        """Width and depth of each member's rollouts, for each kind of planner."""
        self.blank = [np.zeros(x.shape, x.dtype) for x in imagined_shapes(program, len(members))]
        """Empty answers about one step, for each kind of planner."""
        self._under_way: list[list[Question]] = []
        """The rollouts of each kind, as far as they were asked about."""
        self._step = 0
        self._moment = 0
        """The number of the step in which rollouts are asked about."""

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

    def first(self, clock: int, positions: np.ndarray, *actions: np.ndarray) -> tuple[np.ndarray, ...]:
        """The first step of all rollouts, in step ``clock`` of the run; the answers of each kind of planner."""
        index, self._moment = positions.astype(int), clock
        active = self.pool.arrays.status[: self.count] == ACTIVE
        rows = [blank.copy() for blank in self.blank]
        self._step = 1
        self._under_way = [
            [
                Question(i, w, self.states[use.kind.start][i, index[i]], actions[n][i, w], rows[n][i, w])
                for i in np.flatnonzero(active)
                for w in range(self.sizes[n][i][0])
            ]
            for n, use in enumerate(self.uses)
        ]
        self._ask([question for questions in self._under_way for question in questions])
        return tuple(rows)

    def further(self, *actions: np.ndarray) -> tuple[np.ndarray, ...]:
        """The next step of the rollouts that are long enough; the answers of each kind that has such."""
        on = [n for n, use in enumerate(self.uses) if use.depth > self._step]
        rows = {n: self.blank[n].copy() for n in on}
        for n, action in zip(on, actions, strict=True):
            self._under_way[n] = [
                Question(q.who, q.round, q.state, action[q.who, q.round], rows[n][q.who, q.round])
                for q in self._under_way[n]
                if self._step < self.sizes[n][q.who][1]
            ]
        self._step += 1
        self._ask([question for n in on for question in self._under_way[n]])
        return tuple(rows.values())

    def _ask(self, asks: Sequence[Question]) -> None:
        """One round: fills each question's rows, and moves its states on."""
        if not asks:
            return
        owner = np.repeat([ask.who for ask in asks], self.batch)
        state = np.concatenate([ask.state for ask in asks])
        action = np.concatenate([ask.action for ask in asks])
        self.pool.ask(owner, state, action, self._moment)
        found, size = self.pool.answers(), action.shape[1]
        for n, ask in enumerate(asks):
            mine = slice(n * self.batch, (n + 1) * self.batch)
            ask.rows[:, :size] = ask.action
            ask.rows[:, size] = self.scale * found.reward[mine]
            ask.rows[:, size + 1] = ~found.terminated[mine]
            ask.rows[:, size + 2 :] = found.observation[mine]
            ask.state = found.successor[mine].copy()


class Question:
    """A batch of states and actions of one member, and where the answers go."""

    def __init__(self, who: Any, round: int, state: np.ndarray, action: np.ndarray, rows: np.ndarray) -> None:
        self.who, self.round, self.state, self.action, self.rows = int(who), round, state, action, rows
