"""The oracle's side of planning: the physics states of a cohort's replay, and the questions asked about them.

The states stay on the host, beside the simulator: the device only says which transitions it drew.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bires.config import Member
from bires.envs.pool import OracleNeeds, Pool
from bires.envs.slots import ACTIVE
from bires.planning.base import Dreams
from bires.population import Compiled, Drawn, State
from bires.program import Program


def oracle_needs(program: Program, physics: int, members: int) -> OracleNeeds | None:
    """What the oracle of some members takes; None: nobody asks it."""
    if program.planner is None or not program.oracle:
        return None
    return OracleNeeds(physics, members * program.batch * max(1, program.planner.steps))


def kept_states(program: Program) -> tuple[str, ...]:
    """Which physics states of a transition are kept: Dyna starts before it, MVE after it."""
    planner = program.planner
    if planner is None or not program.oracle:
        return ()
    return ("before",) * (planner.steps > 0) + ("after",) * (planner.horizon > 0)


class Dreamer:
    """Imagines with the simulator, for one cohort."""

    def __init__(self, pool: Pool, members: Sequence[Member], program: Program) -> None:
        assert program.planner is not None
        self.pool, self.count = pool, len(members)
        self.planner, self.batch = program.planner, program.batch
        shape = (len(members), program.capacity, pool.board.physics.shape[1])
        self.states = {name: np.zeros(shape) for name in kept_states(program)}
        """Physics states by position in the replay: (members, capacity, ·)."""
        self.steps = np.array([member.planning_steps or 0 for member in members])
        self.horizon = np.array([member.horizon or 0 for member in members])

    def keep(self, clock: int) -> None:
        """Stores the states of the transition that step ``clock`` made."""
        board = self.pool.board
        for name, states in self.states.items():
            source = board.physics if name == "before" else board.next_physics
            states[:, clock % states.shape[1]] = source[: self.count]

    def dream(self, compiled: Compiled, state: State, drawn: Drawn) -> Dreams:
        """Asks the simulator for what was drawn; the answers, as `finish` takes them."""
        index = np.asarray(drawn.positions).astype(int)
        active = self.pool.board.status[: self.count] == ACTIVE
        nearby, rollout = self._blank(self.planner.steps), self._blank(self.planner.horizon)
        asks: list[Question] = []
        if nearby is not None:
            actions = np.asarray(drawn.nearby)
            asks += [
                Question(i, self.states["before"][i, index[i]], actions[i, p], nearby[i, p])
                for i in np.flatnonzero(active)
                for p in range(self.steps[i])
            ]
        walkers = []
        if rollout is not None:
            actions = np.asarray(drawn.first)
            walkers = [
                Question(i, self.states["after"][i, index[i]], actions[i], rollout[i, 0])
                for i in np.flatnonzero(active & (self.horizon > 0))
            ]
        self._ask(asks + walkers)
        for t in range(1, self.planner.horizon):
            assert rollout is not None
            action = np.asarray(compiled.steer(state.learner, rollout[:, t - 1, :, -self._observation :]))
            walkers = [
                Question(w.who, w.state, action[w.who], rollout[w.who, t]) for w in walkers if t < self.horizon[w.who]
            ]
            self._ask(walkers)
        return Dreams(nearby, rollout)  # type: ignore[arg-type]  # packed; the device takes them apart

    @property
    def _observation(self) -> int:
        return int(self.pool.board.observation.shape[1])

    def _blank(self, rounds: int) -> np.ndarray | None:
        width = self.pool.board.action.shape[1] + 1 + self._observation
        return np.zeros((self.count, rounds, self.batch, width), np.float32) if rounds else None

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
