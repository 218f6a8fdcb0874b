"""What hidden layers apply to each of their units, by name. An agent that takes `--activation` has the setting."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp

from bires.types import Setting

ACTIVATIONS: dict[str, Callable[[jax.Array], jax.Array]] = {
    "relu": jax.nn.relu,
    "leaky_relu": jax.nn.leaky_relu,
    "elu": jax.nn.elu,
    "gelu": jax.nn.gelu,
    "silu": jax.nn.silu,
    "tanh": jnp.tanh,
}
"""max(x, 0); x or 0.01 x; x or eˣ − 1; x Φ(x) by its approximation with tanh; x σ(x); tanh x."""


@jax.tree_util.register_static
@dataclass(frozen=True)
class Activation:
    """One of `ACTIVATIONS`. A network holds it beside its layers: a part of the tree without arrays."""

    name: str

    def __call__(self, x: jax.Array) -> jax.Array:
        return ACTIVATIONS[self.name](x)


RELU = Activation("relu")

ACTIVATION = Setting(
    "activation",
    RELU.name,
    "Activation function of the hidden layers of all networks; convolutions keep ReLU.",
    choices=tuple(ACTIVATIONS),
)
"""The setting of an agent whose networks are given `Design.activation`."""
