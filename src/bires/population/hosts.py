"""What a compiled program may ask the host for: the abstract classes that `bires.training` implements.

A program writes ``host.ask(EnvironmentHost.step, shapes, action)``; the host's method of that name answers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np

from bires.machine.hostcalls import Host


class Incoming(NamedTuple):
    """What the environments report of one step."""

    rows: Any
    """For each member [reward, discount, first, successor, next observation]: one array, so one transfer."""
    observation: Any = None
    """Where observations are pixels, the next ones are here, and successors are not asked for."""


class EnvironmentHost(Host, ABC):
    """Steps the environments of a cohort for its program. A flag in an answer says whether to go on after the step."""

    @abstractmethod
    def step(self, action: np.ndarray) -> tuple[Incoming, bool]:
        """Takes a step with the members' actions."""

    @abstractmethod
    def send(self, action: np.ndarray, needed: np.ndarray) -> np.ndarray:
        """Begins a step. Its numbers are known at once if an update needs them, else after `receive`."""

    @abstractmethod
    def receive(self) -> tuple[Incoming, bool]:
        """Ends the step."""

    @abstractmethod
    def imagine(self, positions: np.ndarray, *actions: np.ndarray) -> tuple[tuple[np.ndarray, ...], bool]:
        """The simulator's answers about the first step of all rollouts, for each kind of planner."""

    @abstractmethod
    def imagine_on(self, *actions: np.ndarray) -> tuple[tuple[np.ndarray, ...], bool]:
        """The next step of the rollouts that go on, for each kind of planner that has such."""


class EvaluationHost(Host, ABC):
    """Steps the evaluation environments of a cohort."""

    @abstractmethod
    def evaluate(self, action: np.ndarray, value: np.ndarray, last: np.ndarray) -> tuple[np.ndarray, bool, bool]:
        """One step of every running episode, with the values of these actions and those of the last successors.

        What to act on next; whether any episode ended, so that its last successor is to be valued; whether to go on.
        """

    @abstractmethod
    def successor(self) -> np.ndarray:
        """The true successors of the last actions."""
