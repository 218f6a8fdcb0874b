"""Two kinds of value function: linear in the features, and a small neural network on them."""

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
