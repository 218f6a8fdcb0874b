"""Records that the parts exchange."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import jax
import numpy as np

from bires.errors import UserError

Params = Any
"""A pytree of arrays."""


Sight = Literal["vector", "pixels"]
"""What an agent sees: vectors of floats, or stacks of pictures of bytes."""


class Pixels(NamedTuple):
    """An observation of bytes: a stack of pictures, each (channels, height, width)."""

    stack: int
    height: int
    width: int
    channels: int = 1
    convolutions: tuple[tuple[int, int, int], ...] = ((8, 4, 32), (4, 2, 64), (3, 1, 64))
    """Kernel, stride and outputs of each convolution; Mnih et al. (2015) unless the family says otherwise."""
    clip_rewards: bool = True
    """Whether learners see only the signs of rewards."""

    @property
    def picture(self) -> int:
        """Bytes of one picture."""
        return self.channels * self.height * self.width

    @property
    def shape(self) -> tuple[int, int, int]:
        """The shape of an observation."""
        return self.stack * self.channels, self.height, self.width


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
    pixels: Pixels | None = None
    """None: an observation is a vector of floats."""

    @property
    def dtype(self) -> np.dtype:
        """The type of an observation's numbers."""
        return np.dtype(np.uint8 if self.pixels else np.float32)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Space:
        """The space that `dataclasses.asdict` and JSON made plain data of."""
        pixels = data["pixels"]
        if pixels is not None:
            pixels = Pixels(*pixels)
            pixels = pixels._replace(convolutions=tuple((k, s, o) for k, s, o in pixels.convolutions))
        return cls(**{**data, "low": tuple(data["low"]), "high": tuple(data["high"]), "pixels": pixels})

    def clip(self, action: jax.Array) -> jax.Array:
        """An action within the bounds."""
        return jax.numpy.clip(action, np.asarray(self.low, np.float32), np.asarray(self.high, np.float32))

    def uniform(self, key: jax.Array) -> jax.Array:
        """A random continuous action."""
        low, high = np.asarray(self.low, np.float32), np.asarray(self.high, np.float32)
        return jax.random.uniform(key, (self.action,), minval=low, maxval=high)


class Transition(NamedTuple):
    """One step of experience, or a batch of them. ``discount`` is 0 at a true end, else 1; γ is the learner's."""

    observation: jax.Array
    action: jax.Array
    reward: jax.Array
    discount: jax.Array
    next_observation: jax.Array


@dataclass(frozen=True)
class Setting:
    """A setting of an agent, a planner or a family of environments.

    The command line, the grid of members, the manifest, the columns of members.csv and the tables of the docs are made
    from these records. A setting's type is that of its default.
    """

    name: str
    default: Any
    """A value, or one for each kind of observation: {"vector": …, "pixels": …}."""
    help: str
    low: float = -math.inf
    high: float = math.inf
    choices: tuple[str, ...] = ()
    """What a text may be."""
    varies: bool = False
    """Whether it may vary inside a population: then it is an array there (text cannot be one), and several values make
    a grid."""
    hint: str = ""
    """What an error message adds, such as the paper's value."""
    rate: bool = False
    """Whether it is a learning rate, which `lr_end` moves; it must vary, too."""

    def __post_init__(self) -> None:
        """Refuses what could never be trained, where it is written."""
        if self.varies and self.type is str:
            raise UserError(
                f"The setting {self.name!r} is text and has varies=True; members' numbers are arrays, so accepted: "
                "numbers and flags. Make it False, or give it a number for each choice."
            )

    def default_for(self, sight: Sight) -> Any:
        """The default for a kind of observation."""
        if not isinstance(self.default, Mapping):
            return self.default
        return self.default.get(sight, next(iter(self.default.values())))

    @property
    def type(self) -> type:
        return type(self.default_for("vector"))

    @property
    def accepted(self) -> str:
        """What a value may be, in words."""
        return ", ".join(self.choices) if self.choices else accepted(self.type, self.low, self.high)


def accepted(kind: type, low: float = -math.inf, high: float = math.inf) -> str:
    """The values of a type within bounds, in words."""
    words = {int: "whole numbers", float: "numbers", bool: "True or False", str: "text"}[kind]
    least = f" from {low:.10g}" if low > -math.inf else ""
    most = f" to {high:.10g}" if high < math.inf else ""
    return words + least + most
