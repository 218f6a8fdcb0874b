"""Adam and RMSProp, written so that a population updates in place and a diverged member keeps what it had.

Optax's Adam gives the same numbers (a test compares them), but selecting between its result and the old state
afterwards makes XLA read every old array in two places and so copy all of them, which on a CPU took half as long again.
Here every array is read and written by one pass.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

BETA_1, BETA_2, EPSILON = 0.9, 0.999, 1e-8


class Averages(NamedTuple):
    """Running means of the gradient and of its square."""

    mean: Any
    square: Any
    updates: jax.Array


def init(params: Any) -> Averages:
    zeros = partial(jax.tree.map, jnp.zeros_like)
    return Averages(zeros(params), zeros(params), jnp.zeros((), jnp.int32))


def descend(
    gradient: Any, state: Averages, params: Any, learning_rate: jax.Array, ok: jax.Array, beta_1: float = BETA_1
) -> tuple[Any, Averages]:
    """m ← β₁ m + (1 − β₁) g,  v ← β₂ v + (1 − β₂) g²,  θ ← θ − α m̂ / (√v̂ + ε); nothing moves unless ``ok``."""
    updates = state.updates + ok
    mean = jax.tree.map(lambda m, g: jnp.where(ok, beta_1 * m + (1 - beta_1) * g, m), state.mean, gradient)
    square = jax.tree.map(lambda v, g: jnp.where(ok, BETA_2 * v + (1 - BETA_2) * g * g, v), state.square, gradient)
    steps = jnp.maximum(updates, 1).astype(jnp.float32)
    rate = learning_rate / (1 - beta_1**steps)
    spread = jax.lax.rsqrt(1 - BETA_2**steps)
    moved = jax.tree.map(
        lambda p, m, v: jnp.where(ok, p - rate * m / (jnp.sqrt(v) * spread + EPSILON), p), params, mean, square
    )
    return moved, Averages(mean, square, updates)


DECAY, RMSPROP_EPSILON = 0.95, 0.01
"""RMSProp's, as in the authors' code for Atari."""


def descend_rmsprop(
    gradient: Any, state: Averages, params: Any, learning_rate: jax.Array, ok: jax.Array
) -> tuple[Any, Averages]:
    """m ← ρ m + (1 − ρ) g,  v ← ρ v + (1 − ρ) g²,  θ ← θ − α g / (√(v − m²) + ε); nothing moves unless ``ok``."""
    mean = jax.tree.map(lambda m, g: jnp.where(ok, DECAY * m + (1 - DECAY) * g, m), state.mean, gradient)
    square = jax.tree.map(lambda v, g: jnp.where(ok, DECAY * v + (1 - DECAY) * g * g, v), state.square, gradient)
    moved = jax.tree.map(
        lambda p, g, m, v: jnp.where(
            ok, p - learning_rate * g / (jnp.sqrt(jnp.maximum(v - m * m, 0.0)) + RMSPROP_EPSILON), p
        ),
        params,
        gradient,
        mean,
        square,
    )
    return moved, Averages(mean, square, state.updates + ok)


Descend = Callable[[Any, Any, Any, jax.Array, jax.Array], tuple[Any, Averages]]
"""A step: gradient, state, parameters, learning rate, ok → parameters, state."""
OPTIMISERS: dict[str, Descend] = {"adam": descend, "rmsprop": descend_rmsprop}
"""By name; `init` is the first state of both."""


def norm(gradient: Any) -> jax.Array:
    """√ Σ g² over all parameters."""
    return jnp.sqrt(sum(jnp.vdot(leaf, leaf) for leaf in jax.tree.leaves(gradient)))


def clip_norm(gradient: Any, length: jax.Array, bound: float) -> Any:
    """The gradient, whose norm is ``length``, scaled down to ``bound`` where that is longer."""
    scale = jnp.minimum(1.0, bound / jnp.maximum(length, 1e-6))
    return jax.tree.map(lambda leaf: leaf * scale, gradient)


def hard_update(online: Any, target: Any, now: jax.Array) -> Any:
    """θ⁻ ← θ where ``now``, else nothing."""
    return jax.tree.map(lambda o, t: jnp.where(now, o, t), online, target)


def soft_update(online: Any, target: Any, tau: jax.Array, ok: jax.Array) -> Any:
    """θ⁻ ← τ θ + (1 − τ) θ⁻; nothing moves unless ``ok``."""
    return jax.tree.map(lambda o, t: jnp.where(ok, t + tau * (o - t), t), online, target)
