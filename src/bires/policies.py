"""Trained policies, out of a run's newest checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import jax
import numpy as np
from gymnasium.spaces import flatten

from bires import config as configs
from bires.checkpoint import Checkpoint, CorruptCheckpoint, Store
from bires.envs.adapter import Environment, recipe_of
from bires.errors import UserError
from bires.program import make_program
from bires.runs import Run
from bires.snapshots import unflatten_learners


def newest_checkpoint(run: Run) -> Checkpoint:
    """The newest checkpoint that is whole, without its replay."""
    store, problem = Store(run.path), "it has none yet"
    for step in store.steps():
        try:
            return store.load(step, with_replay=False)
        except CorruptCheckpoint as error:
            problem = str(error)
    raise UserError(f"{run.path} has no readable checkpoint ({problem}). Train it first: `bires resume {run.path}`.")


def load_actor(run: Run, member: int, checkpoint: Checkpoint) -> tuple[Environment, Callable[[np.ndarray], np.ndarray]]:
    """The task's environment, and a member's noise-free actor: a batch of observations → actions for its `step`."""
    members = configs.members(run.config)
    if not 0 <= member < len(members):
        raise UserError(f"{run.path} has members 0 to {len(members) - 1}; {member} was asked for.")
    environment = recipe_of(run.config).build()
    program = make_program(run.config, members, environment.space, 1)
    learner = unflatten_learners(program, checkpoint, np.array([member]))
    one = jax.tree.map(lambda leaf: leaf[0], learner)
    greedy = jax.jit(program.agent.greedy)
    return environment, lambda observations: np.asarray(greedy(one, observations))


def load_policy(run: Run, member: int) -> Callable[[Any], np.ndarray]:
    """A member's noise-free policy: an observation or a batch of them → action(s) as the environment takes them.

    Observations are as Gymnasium's environment of the task gives them (of DMControl: dictionaries), or flat.
    """
    environment, actor = load_actor(run, member, newest_checkpoint(run))
    environment.close()
    space = environment.space
    single = 3 if space.pixels else 1

    @cache
    def structure() -> Any:
        made = recipe_of(run.config).make()
        made.close()
        return made.observation_space

    def policy(observation: Any) -> np.ndarray:
        if isinstance(observation, Mapping | tuple):
            observation = flatten(structure(), observation)
        seen = np.asarray(observation, space.dtype)
        if seen.size == 0 or seen.size % space.observation:
            raise UserError(
                f"The policy was given {seen.size} numbers (shape {seen.shape}); accepted: an observation of "
                f"{run.config.task}, {space.observation} numbers, or several."
            )
        scaled = environment.scaled(actor(seen.reshape(-1, space.observation)))
        return scaled[0] if seen.size == space.observation and seen.ndim <= single else scaled

    return policy
