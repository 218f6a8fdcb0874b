"""One environment as the population sees it: flat float32 observations, a fixed action range, a seeded start."""

from __future__ import annotations

import copy
import re
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from bires.envs import tasks
from bires.errors import UserError
from bires.types import Space

Protocol = Literal["modern", "paper"]


@dataclass(frozen=True)
class Outcome:
    """What one step did."""

    observation: np.ndarray
    reward: float
    terminated: bool
    truncated: bool


class Environment:
    """A Gymnasium environment with continuous actions.

    `modern` scales actions from [−1, 1] to the bounds; `paper` passes them on, already clipped to the bounds.
    """

    def __init__(self, env: Any, protocol: Protocol) -> None:
        self._env = env
        self.space = space_of(env, protocol)
        box = env.action_space
        self._scale = (box.high - box.low) / 2 if protocol == "modern" else np.ones_like(box.high)
        self._shift = (box.high + box.low) / 2 if protocol == "modern" else np.zeros_like(box.high)
        self._shape, self._dtype = box.shape, box.dtype

    def reset(self, seed: int) -> np.ndarray:
        """Starts an episode that depends on the seed alone."""
        observation, _ = self._env.reset(seed=seed)
        return np.asarray(observation, np.float32).reshape(-1)

    def step(self, action: np.ndarray) -> Outcome:
        observation, reward, terminated, truncated, _ = self._env.step(self.scaled(action))
        return Outcome(
            np.asarray(observation, np.float32).reshape(-1), float(reward), bool(terminated), bool(truncated)
        )

    def scaled(self, action: np.ndarray) -> np.ndarray:
        """An agent's action, or a batch of them, as the environment takes it."""
        shaped = action.reshape(*action.shape[:-1], *self._shape)
        return np.asarray(shaped * self._scale + self._shift, self._dtype)

    def frame(self) -> np.ndarray:
        """The picture of the present state, (height, width, 3) bytes; only of an environment built to render."""
        picture = np.asarray(self._env.render())
        if picture.ndim != 3 or picture.shape[2] != 3 or picture.dtype != np.uint8:
            raise UserError(
                f"The environment's render() gave {picture.dtype} of shape {picture.shape}; accepted: uint8 of shape "
                "(height, width, 3), as render_mode='rgb_array' promises."
            )
        return picture

    @property
    def steps_per_second(self) -> float:
        """How many steps are a second of the simulated world."""
        dt = getattr(self._env.unwrapped, "dt", None)
        return 1 / float(dt) if dt else float(self._env.metadata.get("render_fps", 30))

    def close(self) -> None:
        self._env.close()


def space_of(env: Any, protocol: Protocol) -> Space:
    """The sizes and the action range an agent is given, or why DDPG cannot act there."""
    from gymnasium import spaces

    name = env.spec.id if env.spec else type(env.unwrapped).__name__
    if isinstance(env.action_space, spaces.Discrete):
        raise UserError(
            f"Task {name!r} has {env.action_space.n} discrete actions; DDPG and its variants need continuous ones. "
            "Choose a continuous-control task such as 'cartpole-balance' or 'MountainCarContinuous-v0': "
            "see `bires list tasks`."
        )
    if not isinstance(env.action_space, spaces.Box):
        raise UserError(f"Task {name!r} has actions {env.action_space}; accepted: one Box of finite bounds.")
    if not isinstance(env.observation_space, spaces.Box) or env.observation_space.dtype == np.uint8:
        raise UserError(f"Task {name!r} has observations {env.observation_space}; accepted: vectors of floats.")
    low, high = env.action_space.low.reshape(-1), env.action_space.high.reshape(-1)
    if not (np.all(np.isfinite(low)) and np.all(np.isfinite(high))):
        raise UserError(
            f"Task {name!r} has unbounded actions {env.action_space}; wrap it with gymnasium.wrappers.ClipAction "
            "or RescaleAction so that the bounds are finite."
        )
    if protocol == "modern":
        low, high = -np.ones_like(low), np.ones_like(high)
    return Space(
        int(np.prod(env.observation_space.shape)),
        int(low.size),
        tuple(float(x) for x in low),
        tuple(float(x) for x in high),
    )


@dataclass(frozen=True)
class Recipe:
    """How to build one environment, as text: what a worker process is told."""

    id: str
    protocol: Protocol
    spec: str | None = None
    """The Gymnasium specification as JSON, for an environment that this package does not know by itself."""
    portable: bool = True
    """Whether another process can build it."""

    def build(self, render: bool = False) -> Environment:
        import gymnasium
        from gymnasium import spaces, wrappers
        from gymnasium.envs.registration import EnvSpec

        tasks.register()
        known = self.id in gymnasium.registry or self.spec is None
        env = gymnasium.make(
            self.id if known else EnvSpec.from_json(str(self.spec)),
            disable_env_checker=True,
            render_mode="rgb_array" if render else None,
        )
        if isinstance(env.observation_space, spaces.Dict | spaces.Tuple):
            env = wrappers.FlattenObservation(env)
        return Environment(env, self.protocol)


def recipe(task: str, protocol: Protocol) -> Recipe:
    """The recipe for a task name. An environment that no other process could build has no specification."""
    import gymnasium

    name = tasks.resolve(task)
    if name.startswith("dm_control/"):
        return Recipe(name, protocol)
    spec = copy.copy(gymnasium.spec(name))
    if callable(spec.entry_point):
        entry = spec.entry_point
        spec.entry_point = f"{getattr(entry, '__module__', '')}:{getattr(entry, '__qualname__', '<')}"
    if re.search(r"^__main__\b|^:|<", str(spec.entry_point)):
        return Recipe(name, protocol, portable=False)
    try:
        return Recipe(name, protocol, spec.to_json())
    except (TypeError, ValueError):  # keyword arguments that are no data
        return Recipe(name, protocol, portable=False)
