"""One environment as the population sees it: flat float32 observations, a fixed action range, a seeded start."""

from __future__ import annotations

import math
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from bires.envs import families
from bires.envs.physics import Physics, physics_of
from bires.errors import UserError
from bires.types import Pixels, Space

Protocol = Literal["modern", "paper"]
MANY_CHOICES = 1000
"""More combinations of choices than this are too many for one Discrete."""
DISTURBANCES = 1_951
"""Keeps the noise on actions apart from other numbers drawn from the same seeds."""


class StepResult(NamedTuple):
    """What one step did."""

    observation: np.ndarray
    reward: float
    terminated: bool
    truncated: bool
    life_lost: bool = False


def refuse_unwrapped(error: Exception) -> None:
    """Refuses what step() returned, where a wrapper of Gymnasium could not take it apart."""
    place = Path(traceback.extract_tb(error.__traceback__)[-1].filename)
    if "unpack" in str(error) and {"gymnasium", "wrappers"} <= set(place.parts):
        raise UserError(
            "The environment's step() did not return a tuple (observation, reward, terminated, truncated, info): "
            f"{error}. Four values are those of the old Gym; Gymnasium has `terminated` and `truncated` for `done`."
        ) from error


class Environment:
    """A Gymnasium environment.

    `modern` scales continuous actions from [−1, 1] to the bounds; `paper` passes them on, already clipped to them.
    ``disturb`` makes the world stochastic: σ of Gaussian noise on every action.
    """

    def __init__(
        self,
        env: Any,
        protocol: Protocol,
        pixels: Pixels | None = None,
        disturb: float = 0.0,
        limited: bool = False,
    ) -> None:
        self._env, self.protocol = env, protocol
        self.limited = limited
        """Whether `bires.envs.limits` gave it a time limit, as it had none."""
        self.space = space_of(env, protocol, pixels)
        self._disturb, self._noise = disturb, np.random.default_rng(0)
        if disturb > 0 and self.space.choices is not None:
            raise UserError(f"--disturb was given {disturb:g}; it needs a task with continuous actions.")
        self._dtype = self.space.dtype
        self._convert = from_index(env.action_space) if self.space.choices else from_box(env.action_space, protocol)
        self._physics: Physics | None = None

    def reset(self, seed: int) -> np.ndarray:
        """Starts an episode that depends on the seed alone."""
        self.draw_from(seed)
        found = self._env.reset(seed=seed)
        if not isinstance(found, tuple) or len(found) != 2:
            raise UserError(f"The environment's reset() returned {found!r}; accepted: a tuple (observation, info).")
        return self._flat(found[0])

    def draw_from(self, *seeds: int) -> None:
        """Makes what disturbs the next actions a function of some numbers."""
        if self._disturb > 0:
            self._noise = np.random.default_rng([DISTURBANCES, *seeds])

    def step(self, action: np.ndarray) -> StepResult:
        if self._disturb > 0:
            shaken = action + self._disturb * self._noise.standard_normal(action.shape)
            action = np.clip(shaken, self.space.low, self.space.high).astype(np.float32)
        try:
            made = self._env.step(self.scaled(action))
        except (TypeError, ValueError) as error:
            refuse_unwrapped(error)
            raise
        try:
            observation, reward, terminated, truncated, info = made
            ends = float(reward), bool(terminated), bool(truncated), bool(info.get("life_lost", False))
        except (TypeError, ValueError, AttributeError) as error:
            raise UserError(
                f"The environment's step() returned {made!r}; accepted: a tuple (observation, reward, terminated, "
                "truncated, info) with a number as reward and a dictionary as info."
            ) from error
        return StepResult(self._flat(observation), *ends)

    def _flat(self, observation: Any) -> np.ndarray:
        """An observation as a vector of the size that its space promises."""
        seen = np.asarray(observation, self._dtype).reshape(-1)
        if seen.size != self.space.observation:
            raise UserError(
                f"The environment gave an observation of shape {np.shape(observation)}; its observation_space says "
                f"{self._env.observation_space.shape}."
            )
        return seen

    def physics(self) -> Physics | None:
        """How to read and set the full physics state, once the environment has been reset; None: it cannot be done."""
        if self._physics is None:
            self._physics = physics_of(self._env)
        return self._physics

    def scaled(self, action: np.ndarray) -> np.ndarray:
        """An agent's action, or a batch of them, as the environment takes it."""
        return self._convert(action)

    @property
    def action_space(self) -> Any:
        """That of Gymnasium."""
        return self._env.action_space

    @property
    def observation_space(self) -> Any:
        """That of Gymnasium, flattened where observations are."""
        return self._env.observation_space

    def frame(self) -> np.ndarray:
        """The picture of the present state, (height, width, 3) bytes; only of an environment built to render."""
        try:
            picture = np.asarray(self._env.render())
        except NotImplementedError as error:
            raise UserError(
                "The environment has no render(), although its metadata names render_modes; it should return uint8 of "
                "shape (height, width, 3)."
            ) from error
        if picture.ndim != 3 or picture.shape[2] != 3 or picture.dtype != np.uint8:
            raise UserError(
                f"The environment's render() gave {picture.dtype} of shape {picture.shape}; accepted: uint8 of shape "
                "(height, width, 3), as render_mode='rgb_array' promises."
            )
        return picture

    @property
    def drawable(self) -> bool:
        """Whether it can be built to render."""
        return "rgb_array" in self._env.metadata.get("render_modes", ())

    @property
    def steps_per_second(self) -> float:
        """How many steps are a second of the simulated world."""
        dt = getattr(self._env.unwrapped, "dt", None)
        return 1 / float(dt) if dt else float(self._env.metadata.get("render_fps", 30))

    def close(self) -> None:
        self._env.close()


def from_index(discrete: Any) -> Callable[[np.ndarray], np.ndarray]:
    """An agent's discrete action is the number of a choice."""
    return lambda action: action[..., 0].astype(np.int64) + discrete.start


def from_box(box: Any, protocol: Protocol) -> Callable[[np.ndarray], np.ndarray]:
    """An agent's continuous action is scaled, or not, and shaped."""
    scale, shift = scale_of(box, protocol)
    if (scale == 1).all() and (shift == 0).all():
        return lambda action: np.asarray(action.reshape(*action.shape[:-1], *box.shape), box.dtype)
    return lambda action: np.asarray(
        action.reshape(*action.shape[:-1], *box.shape) * scale + shift,
        box.dtype,
    )


def scale_of(box: Any, protocol: Protocol) -> tuple[np.ndarray, np.ndarray]:
    """An agent's action times the first, plus the second, is the environment's."""
    if protocol == "modern":
        return (box.high - box.low) / 2, (box.high + box.low) / 2
    return np.ones_like(box.high), np.zeros_like(box.high)


def several_choices(space: Any) -> str:
    """How one Discrete takes the place of several choices at once."""
    sizes = getattr(space, "nvec", None)  # MultiDiscrete
    sizes = np.full(space.shape, 2) if hasattr(space, "n") else sizes  # MultiBinary
    if sizes is None or sizes.ndim != 1 or np.prod(sizes, dtype=float) > MANY_CHOICES:
        return ""
    shape = tuple(map(int, sizes))
    return (
        " A function of yours, MODULE:FUNCTION, may wrap it: gymnasium.wrappers.TransformAction(env, lambda action: "
        f"np.array(np.unravel_index(action, {shape})), Discrete({math.prod(shape)}))."
    )


def space_of(env: Any, protocol: Protocol, pixels: Pixels | None = None) -> Space:
    """The sizes and the action range that an agent needs, or an error if no agent can act there."""
    from gymnasium import spaces

    name = env.spec.id if env.spec else type(env.unwrapped).__name__
    for needed in ("observation_space", "action_space"):
        if getattr(env, needed, None) is None:
            raise UserError(f"Task {name!r} has no {needed}; a gymnasium.Env sets it in its __init__.")
    seen = env.observation_space
    if not isinstance(seen, spaces.Box) or (seen.dtype == np.uint8 and pixels is None):
        known = ", ".join(families.FAMILIES)
        raise UserError(
            f"Task {name!r} has observations {seen}; accepted: vectors of floats, or pixels of a known family "
            f"({known}; your own is a PixelFamily in your module)."
        )
    if pixels is not None and (seen.shape != pixels.shape or seen.dtype != np.uint8):
        raise UserError(
            f"Task {name!r} has observations of {seen.dtype} and shape {seen.shape}; its family promises uint8 and "
            f"shape {pixels.shape}, which is (stack × channels, height, width)."
        )
    observation = int(np.prod(seen.shape))
    if isinstance(env.action_space, spaces.Discrete):
        choices = int(env.action_space.n)
        return Space(observation, 1, (0.0,), (choices - 1.0,), choices, pixels)
    if not isinstance(env.action_space, spaces.Box):
        raise UserError(
            f"Task {name!r} has actions {env.action_space}; accepted: one Box of finite bounds, or one Discrete."
            + several_choices(env.action_space)
        )
    low, high = env.action_space.low.reshape(-1), env.action_space.high.reshape(-1)
    if not (np.all(np.isfinite(low)) and np.all(np.isfinite(high))):
        raise UserError(
            f"Task {name!r} has unbounded actions {env.action_space}; give action_space finite bounds, or wrap it: "
            "gymnasium.wrappers.TransformAction(env, lambda action: action, Box(low, high))."
        )
    if protocol == "modern":
        low, high = -np.ones_like(low), np.ones_like(high)
    return Space(observation, int(low.size), tuple(map(float, low)), tuple(map(float, high)), None, pixels)
