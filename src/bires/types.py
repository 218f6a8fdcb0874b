"""Records that the parts exchange."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import numpy as np

Params = Any
"""A pytree of arrays."""


@dataclass(frozen=True)
class Space:
    """What an agent must know of a task: the sizes, and the range its actions are clipped to."""

    observation: int
    action: int
    """Numbers in an action; a discrete one is a single number, its index."""
    low: tuple[float, ...]
    high: tuple[float, ...]
    choices: int | None = None
    """How many discrete actions there are; None: actions are continuous."""
    pixels: tuple[int, int, int] | None = None
    """(frames, height, width) of an observation of bytes; None: an observation is a vector of floats."""

    @property
    def dtype(self) -> np.dtype:
        """The type of an observation's numbers."""
        return np.dtype(np.uint8 if self.pixels else np.float32)

    def clip(self, action: jax.Array) -> jax.Array:
        """An action within the bounds."""
        return jax.numpy.clip(action, np.asarray(self.low, np.float32), np.asarray(self.high, np.float32))


class Transition(NamedTuple):
    """One step of experience, or a batch of them. ``discount`` is 0 at a true end, else 1; γ is the learner's."""

    observation: jax.Array
    action: jax.Array
    reward: jax.Array
    discount: jax.Array
    next_observation: jax.Array
