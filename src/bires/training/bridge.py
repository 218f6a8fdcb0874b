"""The bridge from a cohort's program, on whatever device, to its environments.

The program runs for many steps in one call and asks here in each (see `bires.machine.hostcalls`). After an error the
answer says that the program shall end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import numpy as np

from bires.envs.episodes import is_end
from bires.envs.pool import Pool
from bires.envs.slots import report_width
from bires.population.hosts import EnvironmentHost, Incoming
from bires.population.program import Program
from bires.settings.config import Config
from bires.settings.grid import Member
from bires.training.simulator import SimulatorModel


class EnvironmentBridge(EnvironmentHost):
    """The environments of some members, with the returns of their episodes."""

    def __init__(self, pool: Pool, members: Sequence[Member], config: Config, program: Program) -> None:
        super().__init__()
        self.pool, self.config, self.space = pool, config, program.space
        self.count = count = len(members)
        self.simulator = SimulatorModel(pool, members, program, config.reward_scale) if program.oracle else None
        self.running_return = np.zeros(count)
        self.finished_sum, self.finished_count = np.zeros(count), np.zeros(count, int)
        self._clock = self._stop = 0
        self._here: Incoming | None = None
        """What the environments reported of the step under way."""
        self._blank = np.zeros((count, report_width(program.space)), np.float32)

    def expecting(self, start: int, stop: int) -> Self:
        """The program is about to ask for the steps [start, stop)."""
        self._clock, self._stop, self._here = start, stop, None
        return self

    def step(self, action: np.ndarray) -> tuple[Incoming, bool]:
        """Takes a step; the flag says whether the program goes on after it."""
        self._start(action)
        return self.receive()

    def send(self, action: np.ndarray, needed: np.ndarray) -> np.ndarray:
        """Begins a step. Its numbers are known at once if an update needs them, else after `receive`."""
        self._start(action)
        if not needed.any():
            return self._blank
        self._here = self._gather()
        rows: np.ndarray = self._here.rows
        return rows

    def receive(self) -> tuple[Incoming, bool]:
        """Ends the step."""
        found = self._here or self._gather()
        self._clock, self._here = self._clock + 1, None
        return found, self._going()

    def forget(self, member: int, since: int) -> None:
        """Removes a frozen member's episodes from step ``since`` on: it may be noticed earlier or later."""
        self.running_return[member] = self.finished_sum[member] = self.finished_count[member] = 0
        if self.simulator is not None:
            self.simulator.forget(member, range(since, self._clock))

    def imagine(self, positions: np.ndarray, *actions: np.ndarray) -> tuple[tuple[np.ndarray, ...], bool]:
        assert self.simulator is not None
        return self.simulator.first(self._clock, positions, *actions), self._going()

    def imagine_on(self, *actions: np.ndarray) -> tuple[tuple[np.ndarray, ...], bool]:
        assert self.simulator is not None
        return self.simulator.further(*actions), self._going()

    def _going(self) -> bool:
        return self._clock < self._stop and not self.pool.failures

    def _start(self, action: np.ndarray) -> None:
        self.pool.arrays.action[: self.count] = action
        self.pool.send(0)

    def _gather(self) -> Incoming:
        """The arrays' rows as the device takes them, valid until the next step begins.

        Here, and only here, rewards are clipped to their signs, where the family of environments says so, and scaled.
        """
        self.pool.wait(0)
        if self.simulator is not None:
            self.simulator.keep(self._clock)
        arrays, count = self.pool.arrays, self.count
        pixels = self.space.pixels
        terminated, truncated, reward = arrays.terminated[:count], arrays.truncated[:count], arrays.reward[:count]
        over = terminated | truncated
        rows = arrays.report[:count]
        clipped = np.sign(reward) if pixels is not None and pixels.clip_rewards else reward
        rows[:, 0] = self.config.reward_scale * clipped
        rows[:, 1] = ~is_end(self.config.protocol, terminated, truncated, arrays.life_lost[:count])
        rows[:, 2] = arrays.first[:count]
        self.running_return += reward
        if over.any():
            self.finished_sum[over] += self.running_return[over]
            self.finished_count[over] += 1
            self.running_return[over] = 0.0
        return Incoming(rows, arrays.observation[:count] if pixels is not None else None)
