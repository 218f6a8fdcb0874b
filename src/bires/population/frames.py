"""Uniform replay of pixels: every frame is stored once, as bytes; the stacks an agent sees are made when sampling.

Slot t of a ring holds the newest frame of the observation of step t, whether that observation starts an episode, and
the step's action, reward and discount. The older frames of its stack are in the slots before, those of the successor's
stack in the slot after; where an episode starts within a stack, its first frame stands for those before it, as it does
in the environment. All slots of step t are written at once, so a step can be learnt from when the next one is stored.

A step cut off by a time limit has a successor that is in no slot (the next slot starts another episode). Where an
update would bootstrap from that successor, the step is skipped and another one is drawn.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from bires.types import Space, Transition

TRIES = 4
"""Draws for one place in the batch; all of them are cut off with probability (1 / episode length)⁴."""


class Frames(NamedTuple):
    """The rings of all members: (members, capacity, …); of one member: (capacity, …)."""

    frames: jax.Array
    first: jax.Array
    numbers: jax.Array
    """The numbers of the action, then reward and discount."""


def init(space: Space, members: int, capacity: int) -> Frames:
    """Empty rings."""
    return Frames(
        jnp.zeros((members, capacity, frame_size(space)), jnp.uint8),
        jnp.zeros((members, capacity), bool),
        jnp.zeros((members, capacity, space.action + 2)),
    )


def frame_size(space: Space) -> int:
    assert space.pixels is not None
    return space.pixels.picture


def entry(space: Space, made: Transition, first: jax.Array) -> Frames:
    """A slot's contents: what is stored of a step of all members."""
    numbers = jnp.concatenate([made.action, made.reward[:, None], made.discount[:, None]], -1)
    return Frames(made.observation[:, -frame_size(space) :], first, numbers)


def sample(space: Space, key: jax.Array, storage: Frames, clock: jax.Array, batch: int) -> Transition:
    """``batch`` transitions of one member, uniform over the steps before ``clock`` whose frames are all there."""
    assert space.pixels is not None
    stack, capacity = space.pixels.stack, storage.first.shape[0]
    draws = candidates(key, stack, capacity, clock, batch)
    over = storage.first[(draws + 1) % capacity]
    cut = over & (storage.numbers[draws % capacity, -1] > 0)
    chosen = jnp.argmin(cut, 0)[None]
    step, lost = (jnp.take_along_axis(x, chosen, 0)[0] for x in (draws, cut))
    pictures = storage.frames[around(storage.first, step, stack) % capacity]
    numbers = storage.numbers[step % capacity]
    return Transition(
        pictures[:, :-1].reshape(batch, -1),
        numbers[:, :-2],
        numbers[:, -2],
        jnp.where(lost, 0.0, numbers[:, -1]),
        pictures[:, 1:].reshape(batch, -1),
    )


def candidates(key: jax.Array, stack: int, capacity: int, clock: jax.Array, batch: int) -> jax.Array:
    """Steps before ``clock``, of which the first that will do is taken for each place in the batch: (TRIES, batch)."""
    size = jnp.clip(clock, 1, capacity - stack).astype(jnp.uint32)
    bits = jax.random.bits(key, (TRIES, batch))
    return jnp.maximum(clock - 1 - (bits % size).astype(jnp.int32), 0)


def around(first: jax.Array, step: jax.Array, stack: int) -> jax.Array:
    """The steps whose frames make the stacks of ``step`` and its successor, oldest first: (batch, stack + 1)."""
    back = jnp.arange(stack)
    starts = first[(step[:, None] - back) % first.shape[0]]
    reach = jnp.where(jnp.any(starts, 1), jnp.argmax(starts, 1), stack - 1)  # frames back to the episode's first one
    return step[:, None] - jnp.minimum(jnp.arange(stack - 1, -2, -1), reach[:, None])
