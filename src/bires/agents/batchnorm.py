"""Batch normalisation for networks that see both ends of a transition in one pass, as CrossQ has it.

The inputs of every layer are normalised: while a network learns, by the mean μ_B and the deviation σ_B of its batch,

    x̂ = scale · ((x − μ_B) / σ_B · r + d) + offset

and when it acts, by running means μ and σ of these. For the first `PLAIN_UPDATES` updates r = 1 and d = 0 (Ioffe and
Szegedy 2015). From then on r = σ_B / σ and d = (μ_B − μ) / σ, clipped and held constant, so that both normalise almost
alike (Ioffe 2017). A network that acts is a plain one, into whose layers the running means are `folded`.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.lax import stop_gradient

from bires.agents.activations import RELU, Activation
from bires.agents.networks import Dense, Mlp, Norm, dense, init_mlp, init_norms

MOMENTUM = 0.99
"""The share of the running means that an update keeps."""
EPSILON = 1e-3
"""Added to variances."""
PLAIN_UPDATES = 100_000
LARGEST_RATIO, LARGEST_SHIFT = 3.0, 5.0
"""The bounds of r, 1/r and |d|. All five numbers are those of CrossQ's authors and of SBX."""


class BatchMlp(NamedTuple):
    """A multilayer perceptron, with a normalisation before every layer."""

    layers: tuple[Dense, ...]
    norms: tuple[Norm, ...]
    activation: Activation = RELU


class BatchMoments(NamedTuple):
    """Mean and variance of each input of a layer."""

    mean: jax.Array
    variance: jax.Array


class RunningMoments(NamedTuple):
    """Running means of the moments of every layer, and how many updates they have seen."""

    moments: tuple[BatchMoments, ...]
    updates: jax.Array


def init(rng: np.random.Generator, sizes: tuple[int, ...], activation: Activation = RELU) -> BatchMlp:
    """Layers as those of a plain network; norms that change nothing."""
    return BatchMlp(init_mlp(rng, sizes).layers, init_norms(sizes[:-1]), activation)


def begin(params: BatchMlp) -> RunningMoments:
    """Running means before the first update: 0 and 1."""
    moments = (BatchMoments(jnp.zeros_like(norm.scale), jnp.ones_like(norm.scale)) for norm in params.norms)
    return RunningMoments(tuple(moments), jnp.zeros((), jnp.int32))


def learning(
    params: BatchMlp, running: RunningMoments, x: jax.Array, rows: int | None = None
) -> tuple[jax.Array, tuple[BatchMoments, ...]]:
    """The last layer's values for a batch from which the network learns, and the moments of that batch.

    ``rows``: only so many, the first, make the moments; None: all.
    """
    renorm = running.updates >= PLAIN_UPDATES
    seen = []
    for i, (layer, norm, usual) in enumerate(zip(params.layers, params.norms, running.moments, strict=True)):
        x = params.activation(x) if i else x
        batch = BatchMoments(jnp.mean(x[:rows], 0), jnp.var(x[:rows], 0))
        deviation, usually = jnp.sqrt(batch.variance + EPSILON), jnp.sqrt(usual.variance + EPSILON)
        ratio = jnp.clip(stop_gradient(deviation / usually), 1 / LARGEST_RATIO, LARGEST_RATIO)
        shift = jnp.clip(stop_gradient((batch.mean - usual.mean) / usually), -LARGEST_SHIFT, LARGEST_SHIFT)
        x = (x - batch.mean) / deviation * jnp.where(renorm, ratio, 1.0) + jnp.where(renorm, shift, 0.0)
        x = dense(layer, x * norm.scale + norm.offset)
        seen.append(batch)
    return x, tuple(seen)


def follow(running: RunningMoments, seen: tuple[BatchMoments, ...], ok: jax.Array) -> RunningMoments:
    """The running means after an update that saw a batch of these moments; unchanged unless ``ok``."""
    kept = jnp.float32(MOMENTUM)
    moments = jax.tree.map(lambda old, new: jnp.where(ok, kept * old + (1 - kept) * new, old), running.moments, seen)
    return RunningMoments(moments, running.updates + ok)


def folded(params: BatchMlp, running: RunningMoments) -> Mlp:
    """The network as it acts: a plain one, whose layers hold the normalisation by running means."""

    def fold(layer: Dense, norm: Norm, usual: BatchMoments) -> Dense:
        factor = norm.scale / jnp.sqrt(usual.variance + EPSILON)
        shift = norm.offset - usual.mean * factor
        return Dense(factor[:, None] * layer.weight, layer.bias + shift @ layer.weight)

    return Mlp(tuple(map(fold, params.layers, params.norms, running.moments)), activation=params.activation)
