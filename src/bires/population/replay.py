"""Uniform replay of a lockstep population.

All members share the clock, so the write position and the size are functions of the step number alone. A transition is
one row of floats: inserting is one slice update, sampling is one gather whose cost is the batch, never the capacity.
Observations of pixels are stored otherwise, see `bires.population.frames`.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from bires.population import frames
from bires.types import Space, Transition


def width(space: Space) -> int:
    """Floats in one stored transition."""
    return 2 * space.observation + space.action + 2


def pack(transition: Transition) -> jax.Array:
    """Transitions as rows: (..., width)."""
    observation, action, reward, discount, following = transition
    return jnp.concatenate([observation, action, reward[..., None], discount[..., None], following], -1)


def unpack(space: Space, rows: jax.Array) -> Transition:
    """Rows as transitions."""
    o, a = space.observation, space.action
    observation, action, rest = rows[..., :o], rows[..., o : o + a], rows[..., o + a :]
    return Transition(observation, action, rest[..., 0], rest[..., 1], rest[..., 2:])


def at(space: Space, storage: jax.Array, index: jax.Array) -> Transition:
    """The transitions at some positions of one member's storage."""
    return unpack(space, storage[index])


def init(space: Space, members: int, capacity: int) -> Any:
    """Empty storage for all members."""
    if space.pixels is not None:
        return frames.init(space, members, capacity)
    return jnp.zeros((members, capacity, width(space)))


def write(space: Space, storage: Any, made: Transition, first: jax.Array, clock: jax.Array) -> Any:
    """Stores step number ``clock`` of all members; ``first`` says whose observation starts an episode."""

    def one(ring: jax.Array, row: jax.Array) -> jax.Array:
        return jax.lax.dynamic_update_slice_in_dim(ring, row[:, None], clock % ring.shape[1], axis=1)

    return jax.tree.map(one, storage, frames.entry(space, made, first) if space.pixels is not None else pack(made))


def positions(key: jax.Array, capacity: int, clock: jax.Array, batch: int) -> jax.Array:
    """``batch`` positions in one member's storage, uniform over what step ``clock`` has filled.

    The remainder of 32 random bits favours low indices by at most size / 2³², here 0.02 %.
    """
    size = jnp.minimum(clock + 1, capacity).astype(jnp.uint32)
    return jax.random.bits(key, (batch,)) % size


def sample(space: Space, key: jax.Array, storage: Any, clock: jax.Array, batch: int) -> Transition:
    """``batch`` transitions of one member, at random `positions` of its storage."""
    if space.pixels is not None:
        return frames.sample(space, key, storage, clock, batch)
    return at(space, storage, positions(key, storage.shape[0], clock, batch))


def reads_newest(space: Space, key: jax.Array, capacity: int, clock: jax.Array, batch: int) -> jax.Array:
    """Whether `sample` reads what the environments say of step ``clock``: rarely. Otherwise it need not wait for them.

    Of pixels it never does: in that step's slot it reads the frame that is the successor of the step before.
    """
    if space.pixels is not None:
        return jnp.zeros((), bool)
    return jnp.any(positions(key, capacity, clock, batch) == clock % capacity)
