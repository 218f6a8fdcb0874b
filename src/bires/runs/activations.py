"""Activation functions without JAX: in NumPy, as text for a reader, and as nodes of an ONNX graph.

They are those of `bires.agents.activations`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

import numpy as np


class Node(Protocol):
    """Adds a node of a kind to a graph, with its inputs; the name of what it gives."""

    def __call__(self, kind: str, *inputs: str, **attributes: float) -> str: ...


class Elsewhere(NamedTuple):
    """An activation function for those who read a saved policy."""

    compute: Callable[[np.ndarray], np.ndarray]
    text: str
    """The same as it is typed."""
    nodes: Callable[[Node, str], str]
    """How to add nodes, the name of their input → the name of their output."""
    constants: Mapping[str, float] = {}
    """What the nodes read beside their input."""


def gelu(node: Node, x: str) -> str:
    """x σ(2 √(2/π) (x + 0.044715 x³)): x (1 + tanh(√(2/π) (x + 0.044715 x³))) / 2."""
    cube = node("Mul", "gelu.cubic", node("Mul", x, node("Mul", x, x)))
    return node("Mul", x, node("Sigmoid", node("Mul", "gelu.slope", node("Add", x, cube))))


ELSEWHERE = {
    "relu": Elsewhere(
        lambda x: np.maximum(x, 0),
        "lambda x: np.maximum(x, 0)",
        lambda node, x: node("Relu", x),
    ),
    "leaky_relu": Elsewhere(
        lambda x: np.maximum(x, 0.01 * x),
        "lambda x: np.maximum(x, 0.01 * x)",
        lambda node, x: node("LeakyRelu", x, alpha=0.01),
    ),
    "elu": Elsewhere(
        lambda x: np.maximum(x, np.expm1(np.minimum(x, 0))),
        "lambda x: np.maximum(x, np.expm1(np.minimum(x, 0)))",
        lambda node, x: node("Elu", x, alpha=1.0),
    ),
    "gelu": Elsewhere(
        lambda x: x * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x**3))) / 2,
        "lambda x: x * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x**3))) / 2",
        gelu,
        {"gelu.cubic": 0.044715, "gelu.slope": 2 * 0.7978845608},
    ),
    "silu": Elsewhere(
        lambda x: x * (1 + np.tanh(x / 2)) / 2,
        "lambda x: x * (1 + np.tanh(x / 2)) / 2",
        lambda node, x: node("Mul", x, node("Sigmoid", x)),
    ),
    "tanh": Elsewhere(np.tanh, "np.tanh", lambda node, x: node("Tanh", x)),
}
