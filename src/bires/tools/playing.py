"""Noise-free episodes of a member at a run's newest checkpoint, step by step."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from bires.envs.adapter import Environment
from bires.envs.slots import EVALUATE, episode_seed
from bires.errors import UserError
from bires.machine.blas import one_thread
from bires.runs.policies import Actor, load_actor, newest_checkpoint
from bires.runs.run import Run
from bires.settings import grid
from bires.training.evaluation import evaluation_number


@dataclass(frozen=True)
class Episode:
    """A whole episode."""

    seed: int
    observations: list[np.ndarray]
    """Flat, one more than there are actions."""
    actions: list[np.ndarray]
    """As the agent has them; `Environment.scaled` gives the environment's."""
    rewards: list[float]
    terminated: bool
    """Whether it came to a true end; else a time limit cut it."""


@dataclass(frozen=True)
class Player:
    """A member that can play."""

    environment: Environment
    step: int
    """Of its checkpoint."""
    _act: Actor
    _member: grid.Member
    _number: int

    def play(self, episode: int) -> Episode:
        """Plays the episode that starts where number ``episode`` of the evaluation at this step starts."""
        seed = episode_seed(self._member.seed, EVALUATE, episode, self._number)
        observations, actions, rewards = [self.environment.reset(seed)], [], []
        while True:
            action = self._act(observations[-1][None])[0]
            if not np.isfinite(action).all():
                raise UserError(
                    f"Member {self._member.member} has diverged: its actions are not numbers. See `status` in "
                    "members.csv."
                )
            outcome = self.environment.step(action)
            observations.append(outcome.observation)
            actions.append(np.atleast_1d(action))
            rewards.append(outcome.reward)
            if outcome.terminated or outcome.truncated:
                return Episode(seed, observations, actions, rewards, outcome.terminated)


@contextmanager
def player(run: Run, member: int) -> Iterator[Player]:
    """A member of a run, ready to play."""
    checkpoint = newest_checkpoint(run.path)
    environment, act = load_actor(run.config, member, checkpoint)
    number = evaluation_number(run.config, checkpoint.step)
    try:
        with one_thread():
            yield Player(environment, checkpoint.step, act, grid.members(run.config)[member], number)
    finally:
        environment.close()
