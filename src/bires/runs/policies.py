"""Trained policies, from a run's newest checkpoint."""

from __future__ import annotations

import os
import reprlib
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, final

import jax
import numpy as np
from gymnasium.spaces import flatten

from bires.envs.adapter import Environment
from bires.errors import UserError
from bires.machine.terminal import counted
from bires.population.program import make_program
from bires.runs.arrays import unflatten_learners
from bires.runs.checkpoint import Checkpoint, CorruptCheckpoint, Store
from bires.runs.deploying import Deployed, deployed, read, save
from bires.settings import grid
from bires.settings.config import Config
from bires.settings.recipes import recipe_of
from bires.settings.validation import validate
from bires.settings.values import proper

Actor = Callable[[np.ndarray], np.ndarray]
"""A batch of observations → noise-free actions for an environment's `step`."""


@final
@dataclass(frozen=True)
class Policy:
    """A member's noise-free policy: call it with an observation, or a batch of them, to get action(s).

    Observations are as Gymnasium's environment of the task gives them (dictionaries of DMControl, numbers of Taxi), or
    flat.
    """

    act: Callable[[Any], np.ndarray]
    network: Callable[[], Deployed]
    """The policy as plain arrays; an error if it cannot be saved."""
    about: Mapping[str, str]
    """Whose it is: `task`, `id` (Gymnasium's), `algorithm`, `member`, `seed`, `step`."""

    def __call__(self, observation: Any) -> np.ndarray:
        return self.act(observation)

    def __repr__(self) -> str:
        words = {"algorithm": "", "member": "member ", "seed": "seed ", "task": "", "step": "step "}
        return f"Policy({', '.join(word + self.about[name] for name, word in words.items() if name in self.about)})"

    def predict(
        self, observation: Any, state: None = None, episode_start: Any = None, deterministic: bool = True
    ) -> tuple[np.ndarray, None]:
        """Action(s) and None, for code that was written for policies of Stable-Baselines3.

        The policy has no state and no noise, so only the observation counts.
        """
        return self.act(observation), None

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Writes the policy as .safetensors, or as .onnx (needs `bires[onnx]`), for use without this package."""
        if not isinstance(path, str | os.PathLike):
            raise UserError(f"path was given {path!r}; accepted: the path of a file.")
        save(self.network(), Path(path))
        return Path(path)


def kept_checkpoint(path: Path, step: int) -> Checkpoint:
    """The checkpoint of a step: one that was kept, or one of the newest."""
    stores = [Store(path, "kept"), Store(path)]
    for store in stores:
        if step in store.steps():
            try:
                return store.load(step, with_replay=False)
            except CorruptCheckpoint as error:
                raise UserError(f"The checkpoint of step {step} cannot be used: {error}. Take another.") from error
    there = sorted({known for store in stores for known in store.steps()})
    raise UserError(f"step was given {step}; {path} has checkpoints of: {', '.join(map(str, there)) or 'no step'}.")


def newest_checkpoint(path: Path) -> Checkpoint:
    """The newest checkpoint that is whole, without its replay."""
    store, problem = Store(path), "it has none yet"
    for step in store.steps():
        try:
            return store.load(step, with_replay=False)
        except CorruptCheckpoint as error:
            problem = str(error)
    raise UserError(
        f"{path} has no readable checkpoint ({problem}). Train it first: `bires resume {shlex.quote(str(path))}`."
    )


def load_actor(config: Config, member: int, checkpoint: Checkpoint) -> tuple[Environment, Actor]:
    """The task's environment, and a member's noise-free actor: a batch of observations → actions for its `step`."""
    environment, one, greedy = load_learner(config, member, checkpoint)
    return environment, lambda observations: np.asarray(greedy(one, observations))


def load_learner(config: Config, member: int, checkpoint: Checkpoint) -> tuple[Environment, Any, Any]:
    """The task's environment, a member's learner, and how it acts without noise."""
    validate(config)
    members = grid.members(config)
    if not 0 <= proper("member", member, int) < len(members):
        raise UserError(f"Member {member} was given; the run has {grid.numbered(len(members))}.")
    member = int(member)
    environment = recipe_of(config).build()
    program = make_program(config, members, environment.space, 1)
    learner = unflatten_learners(program, checkpoint, np.array([member]))
    one = jax.tree.map(lambda leaf: leaf[0], learner)
    return environment, one, jax.jit(program.agent.greedy)


def load_policy(path: Path, config: Config, member: int, step: int | None = None) -> Policy:
    """A member's noise-free policy at the newest checkpoint, or at that of a step."""
    checkpoint = newest_checkpoint(path) if step is None else kept_checkpoint(path, proper("step", step, int))
    environment, learner, greedy = load_learner(config, member, checkpoint)
    environment.close()
    space, shape = environment.space, environment.observation_space.shape

    @cache
    def structure() -> Any:
        if space.pixels is not None:  # Gymnasium alone cannot build it
            return environment.observation_space
        made = recipe_of(config).make()
        made.close()
        return made.observation_space

    def vector(observation: Any, choices: bool) -> Any:
        """A structured observation as a vector; ``choices``: numbers of choices, which must be among them."""
        try:
            if choices and not structure().contains(observation):
                raise ValueError("not among the choices")
            return flatten(structure(), observation)
        except (TypeError, ValueError, KeyError) as error:
            raise UserError(
                f"The policy was given {reprlib.repr(observation)}; accepted: an observation of {config.task}, in "
                f"{structure()}, or as a vector of {space.observation} numbers; several as vectors."
            ) from error

    def policy(observation: Any) -> np.ndarray:
        if isinstance(observation, Mapping | tuple):
            observation = vector(observation, choices=False)
        elif (given := numbers(observation)).size % space.observation and given.shape == structure().shape:
            observation = vector(observation, choices=True)
        seen = numbers(observation, space.dtype)
        require_whole(seen, space.observation, config.task, shape, space.pixels is not None)
        scaled = environment.scaled(np.asarray(greedy(learner, seen.reshape(-1, space.observation))))
        return scaled[0] if seen.shape == shape or (seen.size == space.observation and seen.ndim < 2) else scaled

    mine = grid.members(config)[int(member)]
    about = {
        "task": config.task,
        "id": recipe_of(config).id,
        "algorithm": mine.label,
        "step": str(checkpoint.reached(mine.member)),
    }
    about |= {"member": str(mine.member), "seed": str(mine.seed)}
    return Policy(policy, lambda: deployed(learner, environment, policy, about), about)


def numbers(observation: Any, dtype: Any = None) -> np.ndarray:
    """An observation, or several, as an array."""
    try:
        given = np.asarray(observation)
        if given.dtype.kind in "OSUMm":  # None would be nan, and text its number
            raise TypeError(f"{given.dtype} is not a kind of number")
        return np.asarray(given, dtype)
    except (TypeError, ValueError) as error:
        raise UserError(
            f"The policy was given {reprlib.repr(observation)}; accepted: numbers, several observations in rows of "
            "equal length."
        ) from error


def require_whole(seen: np.ndarray, size: int, task: str, shape: tuple[int, ...] = (), pixels: bool = False) -> None:
    """Refuses what is not one observation of a size, or several; and pictures whose channels are last."""
    turned = pixels and seen.ndim > 2 and seen.shape[-3:] != shape
    if turned or seen.size == 0 or seen.size % size:
        form = f" of shape {shape}" if len(shape) > 1 else ""
        raise UserError(
            f"The policy was given {counted(seen.size, 'number')} (shape {seen.shape}); accepted: an observation "
            f"of {task}, {counted(size, 'number')}{form}, or several."
        )


def saved_policy(path: Path) -> Policy:
    """A policy as `Policy.save` wrote it into a .safetensors file; NumPy computes its actions."""
    made = read(path)
    size = made.arrays["mean"].size

    def policy(observation: Any) -> np.ndarray:
        if isinstance(observation, Mapping | tuple):
            raise UserError(
                f"The policy was given a {type(observation).__name__}; a policy from a file takes flat vectors: "
                "gymnasium.spaces.flatten(env.observation_space, observation)."
            )
        seen = numbers(observation, np.float32)
        require_whole(seen, size, made.about.get("task", "its task"))
        actions = made.act(seen.reshape(-1, size))
        return np.asarray(actions[0] if seen.ndim < 2 and seen.size == size else actions)

    return Policy(policy, lambda: made, made.about)
