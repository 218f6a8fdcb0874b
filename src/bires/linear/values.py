"""Three kinds of value function: linear in the features, a small neural network on them, and a spiral."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

Params = Any
"""A pytree of weights."""
Value = Callable[[Params, jax.Array], jax.Array]
"""value(params, x): the value of the state with features x."""


def linear(params: Params, x: jax.Array) -> jax.Array:
    """v(x) = wᵀx."""
    return jnp.dot(x, params)


def neural(params: Params, x: jax.Array) -> jax.Array:
    """v(x) = w₂ᵀ tanh(W₁x + b₁) + b₂."""
    hidden = jnp.tanh(jnp.dot(params["W1"], x) + params["b1"])
    return jnp.asarray(jnp.dot(params["w2"], hidden) + params["b2"])


def neural_params(key: jax.Array, features: int, hidden: int = 16) -> Params:
    """Normal weights of variance 1 / fan-in, zero biases."""
    first, second = jax.random.split(key)
    return {
        "W1": jax.random.normal(first, (hidden, features)) / jnp.sqrt(features),
        "b1": jnp.zeros(hidden),
        "w2": jax.random.normal(second, (hidden,)) / jnp.sqrt(hidden),
        "b2": jnp.zeros(()),
    }


GROWTH = 0.05
"""How fast the values of the spiral grow with its parameter."""
TURN = 0.75**0.5
"""How fast they turn."""
AXES = ((1.0, -0.5, -0.5), (0.0, TURN, -TURN))
"""Two orthogonal vectors of values, of the same length, in which no state is above or below the others on average."""


def spiral(w: Params, x: jax.Array) -> jax.Array:
    """v(x) = xᵀ V(w), V(w) = exp(0.05 w) (cos(θw) a + sin(θw) b), θ = √3 / 2: one parameter turns three values.

    dV/dw = Q V + 0.05 V, with the matrix Q of Tsitsiklis and Van Roy (1997).
    """
    a, b = jnp.asarray(AXES)
    return jnp.exp(GROWTH * w) * jnp.dot(x, jnp.cos(TURN * w) * a + jnp.sin(TURN * w) * b)
