"""The full physics state of a simulator: everything that decides what its next step does, as one vector.

Setting it and stepping gives, bit for bit, what the environment itself did: that makes the simulator an *oracle*, a
model without error. MuJoCo's integration state is not enough everywhere: eight DMControl tasks keep the episode's
target in the model, and some Gymnasium tasks read positions that MuJoCo computed before its last integration.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from bires.errors import UserError

TARGETS: dict[str, tuple[tuple[str, str], ...]] = {
    "finger": (("site_pos", "target"),),
    "fish": (("geom_pos", "target"),),
    "manipulator": (("body_pos", "target_ball"), ("body_quat", "target_ball")),
    "reacher": (("geom_pos", "target"),),
    "swimmer": (("geom_pos", "target"),),
}
"""DMControl domain → what its reset writes into the model: (array, name of the row)."""

STALE: dict[str, tuple[str, ...]] = {
    "AntEnv": ("xpos",),
    "HumanoidEnv": ("xipos",),
    "HumanoidStandupEnv": ("xipos",),
    "PusherEnv": ("xpos",),
    "ReacherEnv": ("xpos",),
}
"""Gymnasium class → derived positions that its step reads before it simulates: they belong to an earlier moment."""


class Physics(Protocol):
    """A simulator whose state can be read and set."""

    size: int
    """Numbers in a state."""

    def read(self) -> np.ndarray:
        """The state, float64."""

    def write(self, state: np.ndarray) -> None:
        """Puts the simulator into a state, so that its environment's next `step` starts from there."""


class Simulator:
    """A MuJoCo model and its data, with arrays beside MuJoCo's own state that belong to it."""

    def __init__(self, model: Any, data: Any, arrays: Sequence[np.ndarray]) -> None:
        import mujoco

        state = mujoco.mjtState
        # Without the applied forces (two thirds of the vector, and no task applies any) and the control (every step
        # sets it); `check` finds an environment for which that is not so.
        left_out = state.mjSTATE_QFRC_APPLIED | state.mjSTATE_XFRC_APPLIED | state.mjSTATE_CTRL
        self._spec = int(state.mjSTATE_INTEGRATION) & ~int(left_out)
        self._model, self._data, self._arrays = model, data, arrays
        self._get, self._set = mujoco.mj_getState, mujoco.mj_setState
        self._inner = mujoco.mj_stateSize(model, self._spec)
        self.size: int = self._inner + sum(array.size for array in arrays)

    def read(self) -> np.ndarray:
        state = np.empty(self.size)
        self._get(self._model, self._data, state[: self._inner], self._spec)
        offset = self._inner
        for array in self._arrays:
            state[offset : offset + array.size] = array.reshape(-1)
            offset += array.size
        return state

    def write(self, state: np.ndarray) -> None:
        self._set(self._model, self._data, state[: self._inner], self._spec)
        offset = self._inner
        for array in self._arrays:
            array[...] = state[offset : offset + array.size].reshape(array.shape)
            offset += array.size


class DMControl(Simulator):
    """A DMControl task: its clock is set back, and what depends on position and velocity is brought up to date."""

    def __init__(self, env: Any, domain: str) -> None:
        import mujoco

        physics = env.physics
        named = physics.named.model
        rows = [getattr(physics.model, array)[named_row(named, array, row)] for array, row in TARGETS.get(domain, ())]
        super().__init__(physics.model.ptr, physics.data.ptr, rows)
        self._env = env
        runge_kutta = physics.model.opt.integrator == mujoco.mjtIntegrator.mjINT_RK4.value
        self._settle = None if runge_kutta else mujoco.mj_step1  # dm_control's step begins with mj_step2

    def write(self, state: np.ndarray) -> None:
        super().write(state)
        if self._settle is not None:
            self._settle(self._model, self._data)
        self._env._step_count, self._env._reset_next_step = 0, False


class OwnMethods:
    """An environment that brings `physics_state()` and `set_physics_state(state)`."""

    def __init__(self, env: Any) -> None:
        self._env = env
        self.size: int = self.read().size

    def read(self) -> np.ndarray:
        return np.asarray(self._env.physics_state(), float).reshape(-1)

    def write(self, state: np.ndarray) -> None:
        self._env.set_physics_state(state)


def named_row(named: Any, array: str, row: str) -> int:
    """The number of a named row of one of the model's arrays."""
    return int(getattr(named, array)._axes.row.convert_key_item(row))


def physics_of(env: Any) -> Physics | None:
    """How to read and set the physics state of a Gymnasium environment that has been reset; None: it cannot be done."""
    inner = env.unwrapped
    if hasattr(inner, "physics_state") and hasattr(inner, "set_physics_state"):
        return OwnMethods(inner)
    suite = getattr(inner, "_env", None)
    if hasattr(suite, "physics") and hasattr(suite, "_reset_next_step"):
        name = env.spec.id.removeprefix("dm_control/") if env.spec else ""
        return DMControl(suite, name.split("-")[0])
    if hasattr(inner, "model") and hasattr(inner, "data") and hasattr(inner, "do_simulation"):
        return Simulator(inner.model, inner.data, [getattr(inner.data, a) for a in STALE.get(type(inner).__name__, ())])
    return None


def missing(task: str) -> UserError:
    """The refusal of `--model oracle` for a task whose state cannot be set."""
    return UserError(
        f"--model oracle (the default) needs the physics state of task {task!r}, which cannot be set. The oracle needs "
        "a DMControl or Gymnasium MuJoCo task, or an environment with the methods `physics_state()` (a vector of "
        "floats) and `set_physics_state(state)`. Use --model learned."
    )


def inexact(task: str, what: str) -> UserError:
    """The refusal of `--model oracle` for a task whose state, once set, does not give the same step again."""
    return UserError(
        f"--model oracle was given, but task {task!r}, set back to a state and given the same action, gave another "
        f"{what}. Its state holds something that is not in its physics state; give its environment the methods "
        "`physics_state()` and `set_physics_state(state)` that cover it, or use --model learned."
    )
