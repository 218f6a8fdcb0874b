"""A member's random numbers: each is a function of its own key, a purpose and the step's number."""

from __future__ import annotations

import jax
import jax.numpy as jnp

WARMUP, STEP, IMAGINE, MODEL, UPDATE, DELAYED, AGAIN = 1, 2, 3, 4, 5, 6, 7
"""Purposes. (A key that is folded with 0, 1 … gives what `jax.random.split` makes of it: what splits its key shares
it with nothing that folds it.)"""


def stream(key: jax.Array, name: int, clock: jax.Array | int = 0) -> jax.Array:
    """The random key of one member for one purpose at one step."""
    return jax.random.fold_in(jax.random.fold_in(jax.random.wrap_key_data(key), name), clock)


def step_keys(key: jax.Array, clock: jax.Array) -> jax.Array:
    """Two keys of a member for a step with an update: to sample its batch, and for the noise of the action after it."""
    return jax.random.split(stream(key, STEP, clock))


def update_key(key: jax.Array, turn: jax.Array | int) -> jax.Array:
    """A member's key for update number ``turn`` of those in the same step; the first has the member's own."""
    if isinstance(turn, int) and turn == 0:
        return key
    return jnp.where(turn == 0, key, jax.random.key_data(stream(key, AGAIN, turn)))
