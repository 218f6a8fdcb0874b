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
