"""The agents' networks, as plain pytrees and pure functions."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from bires.agents.activations import RELU, Activation
from bires.types import Space

LAST_LAYER_SCALE = 1e-3
"""Scale of the last layers' initial weights (the authors' code)."""

NORM_EPSILON = 1e-5

barrier: Any = lax.optimization_barrier  # JAX leaves it without types


class Dense(NamedTuple):
    """An affine layer; weights are (inputs, outputs)."""

    weight: jax.Array
    bias: jax.Array


class Actor(NamedTuple):
    """μ(s): observation → action in [−1, 1]."""

    layers: tuple[Dense, ...]
    activation: Activation = RELU


class Norm(NamedTuple):
    """Layer normalisation of one hidden layer."""

    scale: jax.Array
    offset: jax.Array


class Critic(NamedTuple):
    """Q(s, a): the action enters at the second layer, through a weight matrix of its own."""

    layers: tuple[Dense, ...]
    action: jax.Array
    norms: tuple[Norm, ...] = ()
    """One for each hidden layer, or none."""
    activation: Activation = RELU


class Mlp(NamedTuple):
    """A multilayer perceptron."""

    layers: tuple[Dense, ...]
    norms: tuple[Norm, ...] = ()
    """One for each hidden layer, or none."""
    activation: Activation = RELU


class Choices(NamedTuple):
    """Q(s, ·): observation → one value for each discrete action."""

    convolutions: tuple[Dense, ...]
    """None where an observation is a vector. Weights are (kernel × kernel × inputs, outputs)."""
    layers: tuple[Dense, ...]
    activation: Activation = RELU
    """Of the layers; convolutions have ReLU."""


@jax.custom_vjp
def matmul(x: jax.Array, w: jax.Array) -> jax.Array:
    """x @ w for a batch x, with a gradient rule that suits XLA on a CPU.

    It gives ∂w as (inputs, outputs) directly: JAX's rule computes it transposed, and the optimiser then reads it with
    a stride, which took four times as long. And ∂x comes without a copy of w transposed, see `_matmul_backward`.
    """
    return x @ w


def _matmul_forward(x: jax.Array, w: jax.Array) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
    return x @ w, (x, w)


def _matmul_backward(saved: tuple[jax.Array, jax.Array], grad: jax.Array) -> tuple[jax.Array, jax.Array]:
    x, w = saved
    if jax.default_backend() == "cpu" and len(grad) < min(w.shape):
        # XLA transposes the right-hand matrix, so the smaller one goes there. The barrier keeps XLA from merging both
        # transpositions into the product that is slow.
        back = barrier(w @ grad.T).T
    else:
        back = lax.dot_general(grad, w, (((1,), (1,)), ((), ())))
    return back, lax.dot_general(x, grad, (((0,), (0,)), ((), ())))


matmul.defvjp(_matmul_forward, _matmul_backward)


def dense(layer: Dense, x: jax.Array) -> jax.Array:
    """x W + b for a batch x."""
    return matmul(x, layer.weight) + layer.bias


def orthogonal(rng: np.random.Generator, inputs: int, outputs: int, scale: float = 1.0) -> jax.Array:
    """A random matrix with orthonormal rows or columns, uniform among them, times ``scale``.

    Made by NumPy: the same weights on every device, and no factorisation in a compiled program (XLA on a CPU of few
    cores blocks for ever when one program runs several of them at once).
    """
    tall = (max(inputs, outputs), min(inputs, outputs))
    q, r = np.linalg.qr(rng.standard_normal(tall))
    q *= np.sign(np.diag(r))
    return jnp.asarray(scale * (q if inputs >= outputs else q.T), jnp.float32)


def init_layers(
    rng: np.random.Generator, inputs: tuple[int, ...], outputs: tuple[int, ...], last: float = LAST_LAYER_SCALE
) -> list[Dense]:
    """Orthogonal weights, zero biases, the last layer scaled (the authors' code)."""
    scales = [1.0] * (len(inputs) - 1) + [last]
    return [
        Dense(orthogonal(rng, n, m, scale), jnp.zeros(m)) for n, m, scale in zip(inputs, outputs, scales, strict=True)
    ]


def init_actor(
    rng: np.random.Generator, observation: int, action: int, hidden: tuple[int, ...], activation: Activation = RELU
) -> Actor:
    """An actor with the given hidden layers (paper: 400–300)."""
    return Actor(tuple(init_layers(rng, (observation, *hidden), (*hidden, action))), activation)


def init_critic(
    rng: np.random.Generator,
    observation: int,
    action: int,
    hidden: tuple[int, ...],
    layer_norm: bool = False,
    activation: Activation = RELU,
) -> Critic:
    """A critic with the given hidden layers, at least two (paper: 400–300)."""
    layers = init_layers(rng, (observation, hidden[0] + action, *hidden[1:]), (*hidden, 1))
    joint = layers[1]  # orthogonal as one matrix over (features, action), then split
    layers[1] = Dense(joint.weight[: hidden[0]], joint.bias)
    norms = init_norms(hidden) if layer_norm else ()
    return Critic(tuple(layers), joint.weight[hidden[0] :], norms, activation)


def actor(params: Actor, observation: jax.Array) -> jax.Array:
    """μ(s) for a batch: (batch, observation) → (batch, action)."""
    x = observation
    for layer in params.layers[:-1]:
        x = params.activation(dense(layer, x))
    return jnp.tanh(dense(params.layers[-1], x))


def critic(params: Critic, observation: jax.Array, action: jax.Array) -> jax.Array:
    """Q(s, a) for a batch: (batch, observation), (batch, action) → (batch,)."""
    x = observation
    for i, layer in enumerate(params.layers[:-1]):
        x = dense(layer, x) + matmul(action, params.action) if i == 1 else dense(layer, x)
        x = params.activation(normalise(params.norms, i, x))
    return dense(params.layers[-1], x)[:, 0]


def init_norms(hidden: tuple[int, ...]) -> tuple[Norm, ...]:
    return tuple(Norm(jnp.ones(size), jnp.zeros(size)) for size in hidden)


def normalise(norms: tuple[Norm, ...], number: int, x: jax.Array) -> jax.Array:
    """(x − mean) / √(variance + ε) over the features, scaled and shifted (Ba et al. 2016); without norms, x itself."""
    if not norms:
        return x
    centred = x - jnp.mean(x, -1, keepdims=True)
    deviation = jax.lax.rsqrt(jnp.mean(centred**2, -1, keepdims=True) + NORM_EPSILON)
    return centred * deviation * norms[number].scale + norms[number].offset


def init_mlp(
    rng: np.random.Generator, sizes: tuple[int, ...], layer_norm: bool = False, activation: Activation = RELU
) -> Mlp:
    """Weights and biases uniform in ±1/√inputs, as PyTorch's layers begin (so do TD3's and SAC's authors')."""

    def uniform(inputs: int, *shape: int) -> jax.Array:
        return jnp.asarray(rng.uniform(-1.0, 1.0, shape) / np.sqrt(inputs), jnp.float32)

    layers = (Dense(uniform(n, n, m), uniform(n, m)) for n, m in pairwise(sizes))
    return Mlp(tuple(layers), init_norms(sizes[1:-1]) if layer_norm else (), activation)


def mlp(params: Mlp, x: jax.Array) -> jax.Array:
    """The last layer's values for a batch: (batch, inputs) → (batch, outputs)."""
    for i, layer in enumerate(params.layers[:-1]):
        x = params.activation(normalise(params.norms, i, dense(layer, x)))
    return dense(params.layers[-1], x)


def init_choices(
    rng: np.random.Generator, space: Space, hidden: tuple[int, ...], activation: Activation = RELU
) -> Choices:
    """Q for discrete actions; its last layer is not scaled (the authors' code)."""
    assert space.choices is not None
    convolutions, features = [], space.observation
    if space.pixels is not None:
        channels, sides = space.pixels.stack * space.pixels.channels, [space.pixels.height, space.pixels.width]
        for kernel, stride, outputs in space.pixels.convolutions:
            convolutions.append(Dense(orthogonal(rng, kernel * kernel * channels, outputs), jnp.zeros(outputs)))
            channels, sides = outputs, [(side - kernel) // stride + 1 for side in sides]
        features = channels * sides[0] * sides[1]
    layers = init_layers(rng, (features, *hidden), (*hidden, space.choices), last=1.0)
    return Choices(tuple(convolutions), tuple(layers), activation)


def choices(params: Choices, space: Space, observation: jax.Array) -> jax.Array:
    """Q(s, ·) for a batch: (batch, observation) → (batch, choices)."""
    x = observation
    if space.pixels is not None:
        pixels = space.pixels
        x = jnp.moveaxis(x.reshape(-1, pixels.stack * pixels.channels, pixels.height, pixels.width), 1, -1)
        for i, (layer, (kernel, stride, _)) in enumerate(zip(params.convolutions, pixels.convolutions, strict=True)):
            if any(size % stride for size in (kernel, *x.shape[1:3])):
                rest = stride
            else:
                x, kernel, rest = space_to_depth(x, stride), kernel // stride, 1
            x = x.astype(jnp.float32) / 255 if i == 0 else x
            x = jax.nn.relu(convolve(layer, x, kernel, rest))
        x = x.reshape(len(x), -1)
    for layer in params.layers[:-1]:
        x = params.activation(dense(layer, x))
    return dense(params.layers[-1], x)


def space_to_depth(x: jax.Array, side: int) -> jax.Array:
    """Squares of pixels as channels: (batch, h, w, c) → (batch, h / side, w / side, side² c).

    A convolution with that stride, where kernel and sides are multiples of it, becomes one with stride 1 and a smaller
    kernel: fewer and larger products, up to 1.6 times as fast on a CPU.
    """
    batch, height, width, channels = x.shape
    x = x.reshape(batch, height // side, side, width // side, side, channels)
    return x.transpose(0, 1, 3, 2, 4, 5).reshape(batch, height // side, width // side, -1)


def convolve(layer: Dense, x: jax.Array, kernel: int, stride: int) -> jax.Array:
    """A convolution without padding: (batch, h, w, c) → (batch, (h − k) // stride + 1, …, outputs).

    It is a sum of matrix products, one for each row of the kernel. XLA on a CPU computes its own convolutions inside a
    loop twenty times as slowly as outside of one, and a training step is inside one.
    """
    height, width = ((side - kernel) // stride + 1 for side in x.shape[1:3])
    rows = layer.weight.reshape(kernel, kernel * x.shape[-1], -1)
    side_by_side = jnp.concatenate([every(x, 2, j, stride, width) for j in range(kernel)], -1)
    pieces = (every(side_by_side, 1, i, stride, height).reshape(-1, rows.shape[1]) for i in range(kernel))
    products = [matmul(piece, row) for piece, row in zip(pieces, rows, strict=True)]
    return (sum(products[1:], products[0]) + layer.bias).reshape(len(x), height, width, -1)


def every(x: jax.Array, axis: int, start: int, stride: int, count: int) -> jax.Array:
    """``count`` slices of an axis, from ``start`` on, each ``stride`` after the last."""
    return lax.slice_in_dim(x, start, start + stride * (count - 1) + 1, stride, axis)
