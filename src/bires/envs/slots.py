"""Slots: a row of shared memory, the environment behind it, and the rule that starts its episodes.

The same code runs inside a worker process and in this one. An episode's start depends on the member's seed and the
episode's number alone, so any state is rebuilt by starting the episode again and repeating its actions.
"""

from __future__ import annotations

import math
import traceback
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bires.envs.adapter import Environment
from bires.envs.memory import Layout
from bires.envs.recipe import Recipe
from bires.types import Space

IDLE, ACTIVE, FAILED = 0, 1, 2
TRAIN, EVALUATE, EVALUATE_AGAIN = 0, 1, 2
"""Streams of episode seeds: of training, of a run's evaluations, and of evaluations afterwards."""


def episode_seed(member_seed: int, stream: int, episode: int, evaluation: int = 0) -> int:
    """The seed of one episode: a hash of the member's seed, the stream, the episode's number and the evaluation's.

    Every evaluation has starts of its own; members with the same seed share them, for all algorithms.
    """
    return int(np.random.SeedSequence([member_seed, stream, episode, evaluation]).generate_state(1)[0])


@dataclass(frozen=True)
class Start:
    """Begins a slot: at which episode, what follows it, and the actions to repeat (to rebuild a running episode)."""

    slot: int
    seed: int
    stream: int
    episode: int = 0
    stride: int = 1
    limit: int | None = None
    """No episode of this number or higher is started; None: no end."""
    actions: Sequence[Sequence[float]] = field(default_factory=tuple)
    evaluation: int = 0
    """The number of the evaluation that the episode belongs to; 0 in training."""


def report_width(space: Space) -> int:
    """The numbers in a row of `SharedArrays.report`."""
    return 3 if space.pixels is not None else 3 + 2 * space.observation


class SharedArrays:
    """What slots and population exchange, one row per slot."""

    def __init__(self, layout: Layout, slots: int, space: Space, physics: int = 0) -> None:
        take, observation, action = layout.take, space.observation, space.action
        self.action = take((slots, action), np.float32)
        self.report = take((slots, report_width(space)), np.float32)
        """Each row [reward, discount, first] as learners take them, and, unless they are pixels, both observations."""
        seen = (self.report[:, 3 : 3 + observation], self.report[:, 3 + observation :])
        if space.pixels is not None:
            seen = (take((slots, observation), space.dtype), take((slots, observation), space.dtype))
        self.next_observation, self.observation = seen
        """The true successor of the last action; what to act on next: that, or the start of a new episode."""
        self.reward = take((slots,), np.float64)
        self.episode = take((slots,), np.int64)
        self.status = take((slots,), np.uint8)
        self.terminated = take((slots,), np.bool_)
        self.truncated = take((slots,), np.bool_)
        self.first = take((slots,), np.bool_)
        """Whether `observation` starts an episode."""
        self.life_lost = take((slots,), np.bool_)
        """Whether the last action lost a life of a game: to a learner an end, though the episode goes on."""
        self.busy = take((slots,), np.bool_)
        """Whether a step or a start is under way: what a process was at when it was lost."""
        self.physics = take((slots, physics), np.float64)
        """The physics state before the last action; of size 0 unless the population plans with the oracle."""
        self.next_physics = take((slots, physics), np.float64)
        """The physics state after it, before any new episode."""

    def rest(self, slot: int, status: int = IDLE) -> None:
        """Zeros the row of a slot that takes no more steps, so that it is the same before and after a resume."""
        self.status[slot] = status
        for row in (self.next_observation, self.observation, self.reward, self.physics, self.next_physics):
            row[slot] = 0
        for flag in (self.terminated, self.truncated, self.first, self.life_lost):
            flag[slot] = False


class Slots:
    """The environments of some rows of the shared arrays."""

    def __init__(self, recipe: Recipe, arrays: SharedArrays) -> None:
        self._recipe = recipe
        self._arrays = arrays
        self._environments: dict[int, Environment] = {}
        self._starts: dict[int, Start] = {}
        self.failures: dict[int, str] = {}
        """Slot → traceback, for slots that failed since this was last emptied."""

    def begin(self, start: Start) -> None:
        """Builds the slot's environment if it is not there yet, starts the episode and repeats its actions."""
        slot = start.slot
        self._starts[slot] = start
        self._guard(slot, self._begin, start)

    def step(self, slots: Iterable[int]) -> None:
        """One step of every active slot among these."""
        for slot in slots:
            if self._arrays.status[slot] == ACTIVE:
                self._guard(slot, self._step, slot)

    def close(self) -> None:
        for environment in self._environments.values():
            environment.close()

    def _guard(self, slot: int, action: Any, *arguments: Any) -> None:
        self._arrays.busy[slot] = True
        try:
            action(*arguments)
        except Exception:
            self._arrays.rest(slot, FAILED)
            self.failures[slot] = traceback.format_exc()
        self._arrays.busy[slot] = False

    def _begin(self, start: Start) -> None:
        if start.slot not in self._environments:
            self._environments[start.slot] = self._recipe.build()
        self._start_episode(start.slot, start.episode)
        for action in start.actions:
            self._arrays.action[start.slot] = action
            self._step(start.slot)

    def _start_episode(self, slot: int, episode: int) -> None:
        start = self._starts[slot]
        observation = self._environments[slot].reset(episode_seed(start.seed, start.stream, episode, start.evaluation))
        require_finite(observation)
        arrays = self._arrays
        arrays.observation[slot] = observation
        arrays.episode[slot] = episode
        arrays.first[slot] = True
        arrays.status[slot] = ACTIVE

    def _step(self, slot: int) -> None:
        arrays = self._arrays
        environment = self._environments[slot]
        physics = environment.physics() if arrays.physics.shape[1] else None
        if physics is not None:
            arrays.physics[slot] = physics.read()
        outcome = environment.step(arrays.action[slot])
        require_finite(outcome.observation, outcome.reward)
        if physics is not None:
            arrays.next_physics[slot] = physics.read()
        arrays.next_observation[slot] = outcome.observation
        arrays.reward[slot] = outcome.reward
        arrays.terminated[slot] = outcome.terminated
        arrays.truncated[slot] = outcome.truncated
        arrays.life_lost[slot] = outcome.life_lost
        arrays.first[slot] = False
        arrays.observation[slot] = outcome.observation
        if outcome.terminated or outcome.truncated:
            start = self._starts[slot]
            following = int(arrays.episode[slot]) + start.stride
            if start.limit is None or following < start.limit:
                self._start_episode(slot, following)
            else:
                arrays.status[slot] = IDLE


def require_finite(observation: np.ndarray, reward: float = 0.0) -> None:
    """Refuses what is not finite. (A finite sum of squares has finite terms, and is quicker to ask.)"""
    if math.isfinite(reward) and (math.isfinite(observation.dot(observation)) or np.isfinite(observation).all()):
        return
    what, value = ("an observation", observation) if math.isfinite(reward) else ("a reward", reward)
    raise FloatingPointError(f"the environment gave {what} that is not finite: {value}")
