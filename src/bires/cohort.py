"""A cohort: members that share a device, between that device and their environments."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from bires.agents.base import Hyper
from bires.config import Config, Member
from bires.envs.pool import Pool
from bires.population import SUMS, Compiled, State, hypers, incoming_width


class Cohort:
    """Members that share a device: their state there, and their environments here."""

    def __init__(self, index: int, members: list[Member], device: Any, pool: Pool, config: Config) -> None:
        self.index, self.members, self.device, self.pool, self.config = index, members, device, pool, config
        self.slots = pool.groups[index]
        self.hyper: Hyper = jax.device_put(hypers(members), device)
        self.state: State
        self.action: Any
        self._incoming = np.zeros((len(members), incoming_width(pool.board.observation.shape[1])), np.float32)
        self.running_return = np.zeros(len(members))
        self.finished_sum, self.finished_count = np.zeros(len(members)), np.zeros(len(members), int)

    def send(self) -> None:
        """Waits for the actions and lets the environments take a step."""
        self.pool.board.action[self.slots] = np.asarray(self.action)
        self.pool.send(self.index)

    def advance(self, program: Compiled, clock: int) -> None:
        """Waits for the environments and starts the members' step number ``clock``."""
        self.pool.wait(self.index)
        incoming = self._gather()
        if clock >= self.config.warmup:
            self.state, self.action = program.learn(self.state, self.hyper, incoming, np.int32(clock))
        elif clock + 1 == self.config.warmup:
            self.state, self.action = program.act(self.state, self.hyper, incoming, np.int32(clock))
        else:
            self.state, self.action = program.warm(self.state, incoming, np.int32(clock))

    def _gather(self) -> np.ndarray:
        """The board's rows as the device takes them; here, and only here, the protocol decides what an end is."""
        board, slots, width = self.pool.board, self.slots, self.pool.board.observation.shape[1]
        ends = board.terminated[slots]
        over = ends | board.truncated[slots]
        if self.config.protocol == "paper":
            ends = over
        rows = self._incoming = np.empty_like(self._incoming)  # the device may still read the last one
        rows[:, 0] = board.reward[slots]
        rows[:, 1] = ~ends
        rows[:, 2] = board.first[slots]
        rows[:, 3 : 3 + width] = board.next_observation[slots]
        rows[:, 3 + width :] = board.observation[slots]
        self.running_return += board.reward[slots]
        if np.any(over):
            self.finished_sum[over] += self.running_return[over]
            self.finished_count[over] += 1
            self.running_return[over] = 0.0
        return rows

    def take_metrics(self) -> list[tuple[Any, ...]]:
        """Rows of metrics.csv without their step, since the last call."""
        sums = np.asarray(self.state.sums, float)
        rows = []
        for i, member in enumerate(self.members):
            updates, episodes = sums[i, 0], int(self.finished_count[i])
            means = sums[i, 1:] / updates if updates else [None] * (len(SUMS) - 1)
            train_return = self.finished_sum[i] / episodes if episodes else None
            rows.append((member.member, episodes, train_return, int(updates), *means))
        self.state = self.state._replace(sums=jax.device_put(np.zeros_like(self.state.sums), self.device))
        self.finished_sum[:], self.finished_count[:] = 0.0, 0
        return rows
