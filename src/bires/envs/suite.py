"""DMControl tasks, stepped without the layers of an ordinary call.

A step of walker-stand is 0.15 ms of simulation. Through Gymnasium's wrappers, the conversion of specifications and
DMControl's look-up of names it takes twice that; here the same numbers are read from the same simulation, and they are
written into one vector. `tests/envs/test_envs.py` and `test_suite.py` compare the two, bit for bit.
"""

from __future__ import annotations

import sys
from functools import wraps
from itertools import accumulate
from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np


def is_suite(env: gymnasium.Env[Any, Any]) -> bool:
    """Whether this is a task of DMControl's suite."""
    control: Any = sys.modules.get("dm_control.rl.control")  # imported, if such a task has been made
    return control is not None and isinstance(getattr(env.unwrapped, "_env", None), control.Environment)


class Suite(gymnasium.Wrapper[np.ndarray, np.ndarray, Any, Any]):
    """A task as Gymnasium makes it, with its observations already flat and in float32."""

    def __init__(self, env: gymnasium.Env[Any, np.ndarray]) -> None:
        super().__init__(env)
        self._suite: Any = env.unwrapped._env  # type: ignore[attr-defined]
        spaces: Any = env.observation_space
        sizes = {name: int(np.prod(space.shape)) for name, space in spaces.items()}
        ends = dict(zip(sizes, accumulate(sizes.values()), strict=True))
        self._parts = [(name, slice(end - sizes[name], end)) for name, end in ends.items()]
        self._size = sum(sizes.values())
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (self._size,), np.float32)
        remember_names(self._suite.physics)
        shorten_step(self._suite.physics)
        shorten_rewards()

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        observation: Any
        observation, info = self.env.reset(seed=seed, options=options)
        return self._flat(observation), info

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        moment = self._suite.step(action)
        over, terminal = moment.last(), moment.discount == 0
        return self._flat(moment.observation), moment.reward, over and terminal, over and not terminal, {}

    def _flat(self, observation: dict[str, Any]) -> np.ndarray:
        flat = np.empty(self._size, np.float32)
        for name, part in self._parts:
            value = observation[name]
            flat[part] = value.reshape(-1) if isinstance(value, np.ndarray) else value
        return flat


def shorten_rewards() -> None:
    """Lets DMControl's `tolerance`, of which rewards are made, take a short way, with the same bits.

    A single number is not made an array: a step of cheetah-run is 15 % shorter by it, one of humanoid-run 8 %. Of an
    array, the distance to zero is the absolute value: cartpole-swingup 22 %, humanoid-stand 6 %. It is replaced for the
    whole process.
    """
    from dm_control.utils import rewards

    if hasattr(rewards.tolerance, "__wrapped__"):
        return
    usual, sigmoids = rewards.tolerance, rewards._sigmoids

    @wraps(usual)
    def tolerance(
        x: Any,
        bounds: tuple[float, float] = (0.0, 0.0),
        margin: float = 0.0,
        sigmoid: str = "gaussian",
        value_at_margin: float = rewards._DEFAULT_VALUE_AT_MARGIN,
    ) -> Any:
        lower, upper = bounds
        if type(x) is np.ndarray and x.ndim and lower == upper == 0 and margin > 0:
            return sigmoids(np.abs(x) / margin, value_at_margin, sigmoid)  # where x = 0, any of them is 1
        if type(x) not in (float, np.float64) or lower > upper or margin < 0:
            return usual(x, bounds, margin, sigmoid, value_at_margin)
        if lower <= x <= upper:
            return 1.0
        if margin == 0:
            return 0.0
        distance = np.float64((lower - x if x < lower else x - upper) / margin)
        return float(sigmoids(distance, value_at_margin, sigmoid))

    rewards.tolerance = tolerance


def shorten_step(physics: Any) -> None:
    """Lets a simulation advance without the layers around MuJoCo's functions: a fifth of cheetah-run's step, 13 µs.

    The same functions are called in the same order. Where MuJoCo warns (numbers that are not finite, say), DMControl's
    own check is shown what has changed.
    """
    import mujoco
    from dm_control.mujoco import engine

    if type(physics).step is not engine.Physics.step or not physics.legacy_step:
        return
    runge_kutta = physics.model.opt.integrator == mujoco.mjtIntegrator.mjINT_RK4.value

    def step(nstep: int = 1) -> None:
        model, data, warned = physics.model.ptr, physics.data.ptr, physics._warnings
        before = warned.tobytes()
        if runge_kutta:
            mujoco.mj_step(model, data, nstep)
        else:  # the first half of a step has been made already: at the end of the one before
            mujoco.mj_step2(model, data)
            if nstep > 1:
                mujoco.mj_step(model, data, nstep - 1)
        mujoco.mj_step1(model, data)
        if warned.tobytes() != before:
            now = warned.copy()
            warned[:] = np.frombuffer(before, warned.dtype)
            with physics.check_invalid_state():
                warned[:] = now

    physics.step = step


def remember_names(physics: Any) -> None:
    """Lets DMControl look up what each name means ("torso", "zz") once, not at every step."""
    structs = (
        SimpleNamespace(**{name: Names(indexer) for name, indexer in struct._asdict().items()})
        for struct in physics.named
    )
    physics._named = type(physics.named)(*structs)


class Names:
    """An array of a simulation, indexed by names; what a name means is looked up once."""

    __slots__ = ("_field", "_indexer", "_known")

    def __init__(self, indexer: Any) -> None:
        self._indexer = indexer
        self._field = indexer._field
        self._known: dict[Any, Any] = {}

    def __getitem__(self, key: Any) -> Any:
        return self._field[self._index(key)]

    def __setitem__(self, key: Any, value: Any) -> None:
        self._field[self._index(key)] = value

    def __getattr__(self, name: str) -> Any:
        return getattr(self._indexer, name)

    def _index(self, key: Any) -> Any:
        # Lists and slices cannot be keys of a dictionary, so their text is; as a tuple, it is never taken for a name.
        label = key if type(key) is str else (repr(key),)
        index = self._known.get(label)
        if index is None:
            index = self._indexer._convert_key(key)
            if "array(" not in repr(label):  # the text of a long array is not all of it
                self._known[label] = index
        return index
