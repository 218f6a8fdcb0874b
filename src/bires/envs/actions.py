"""The actions since each episode began, by which it is rebuilt."""

from __future__ import annotations

import numpy as np

from bires.envs.slots import Start


class ActionLog:
    """The actions of every slot since its episode began."""

    def __init__(self, slots: int, action: int) -> None:
        self._actions = np.zeros((slots, 1024, action), np.float32)
        self._length = np.zeros(slots, int)

    def record(self, slots: np.ndarray, actions: np.ndarray) -> None:
        if slots.size == 0:
            return
        if self._length[slots].max() == self._actions.shape[1]:
            self._grow()
        self._actions[slots, self._length[slots]] = actions[slots]
        self._length[slots] += 1

    def _grow(self) -> None:
        self._actions = np.concatenate([self._actions, np.zeros_like(self._actions)], axis=1)

    def forget(self, slots: np.ndarray) -> None:
        self._length[slots] = 0

    def restart(self, start: Start) -> None:
        count = len(start.actions)
        while count > self._actions.shape[1]:
            self._grow()
        self._actions[start.slot, :count] = np.asarray(start.actions, np.float32).reshape(count, self._actions.shape[2])
        self._length[start.slot] = count

    def actions(self, slot: int) -> list[list[float]]:
        recorded: list[list[float]] = self._actions[slot, : self._length[slot]].tolist()
        return recorded
