"""Exploration noise."""

from __future__ import annotations

import jax
import jax.numpy as jnp

THETA, DT = 0.15, 0.01
"""Rate and time step of the Ornstein–Uhlenbeck process (the authors' code)."""


def ornstein_uhlenbeck(key: jax.Array, x: jax.Array, first: jax.Array, sigma: jax.Array) -> jax.Array:
    """x ← x − θ x dt + σ √dt N(0, 1), from 0 at the first step of an episode."""
    x = jnp.where(first, 0.0, x)
    return x - THETA * x * DT + sigma * jnp.sqrt(DT) * jax.random.normal(key, x.shape)


def epsilon(step: jax.Array, start: jax.Array, end: jax.Array, steps: jax.Array) -> jax.Array:
    """The share of random actions: linear from ``start`` to ``end`` in so many steps, then ``end``."""
    return start + (end - start) * jnp.minimum(step / jnp.maximum(steps, 1.0), 1.0)


def epsilon_greedy(key: jax.Array, q: jax.Array, share: jax.Array) -> jax.Array:
    """The index of the greatest value, or with probability ``share`` any index."""
    coin, choice = jax.random.split(key)
    anything = jax.random.randint(choice, (), 0, q.shape[-1])
    return jnp.where(jax.random.uniform(coin) < share, anything, jnp.argmax(q))
