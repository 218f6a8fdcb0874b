"""A model of the environment: networks that predict the change of the observation, and the reward.

Pure functions of one member, which holds an ensemble of E such models (E = 1: the paper's). Every model of an ensemble
starts from weights of its own and trains on batches of its own; they predict their mean.

The paper's model is deterministic. A Gaussian one predicts a mean and a log-variance for each number, is trained by
likelihood, and can be drawn from (Chua et al. 2018, without their trained bounds).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from bires.agents import optimisers
from bires.agents.networks import Dense, dense, orthogonal
from bires.agents.optimisers import Averages, clip_norm, descend, norm
from bires.types import Space, Transition

LOG_VARIANCES = (-10.0, 4.0)
"""Soft bounds of predicted log-variances, in the units of the networks."""

SMALLEST_SPREAD = 1e-3
"""Dimensions that vary less than this are not scaled up further."""


@dataclass(frozen=True)
class ModelScale:
    """The sizes of a model and of its training."""

    change: tuple[int, ...]
    """Hidden layers of the network for s' − s."""
    reward: tuple[int, ...]
    """Hidden layers of the network for r."""
    batch: int
    updates: int
    """Updates per environment step."""
    normalised: bool
    """Whether inputs and targets are normalised by their running moments."""
    learning_rate: float = 1e-3
    clip: float = 0.5
    """Bound of the gradient's norm."""
    gaussian: bool = False
    """Whether the networks predict a variance, too."""


SCALES = {
    "paper": ModelScale((512,) * 8, (128,) * 4, batch=1024, updates=4, normalised=False),
    "small": ModelScale((128, 128), (64, 64), batch=256, updates=1, normalised=True),
}


Predict = Callable[[jax.Array, jax.Array], tuple[jax.Array, jax.Array]]
"""observations, actions → rewards, next observations."""


class Networks(NamedTuple):
    """One model's weights."""

    change: tuple[Dense, ...]
    reward: tuple[Dense, ...]


class RowMoments(NamedTuple):
    """Running mean and sum of squared deviations of vectors [s, s' − s, r]."""

    rows: jax.Array
    """How many vectors."""
    mean: jax.Array
    squares: jax.Array


class Ensemble(NamedTuple):
    """The models of one member: weights and optimiser have E in front."""

    networks: Networks
    adam: Averages
    moments: RowMoments


def init(rng: np.random.Generator, space: Space, scale: ModelScale, size: int) -> Ensemble:
    """Fresh models: orthogonal weights, zero biases (the authors' code)."""
    inputs = space.observation + space.action

    def perceptron(hidden: tuple[int, ...], outputs: int) -> tuple[Dense, ...]:
        sizes = (inputs, *hidden, outputs)
        return tuple(Dense(orthogonal(rng, n, m, 1.0), jnp.zeros(m)) for n, m in pairwise(sizes))

    heads = 2 if scale.gaussian else 1
    made = [
        Networks(perceptron(scale.change, heads * space.observation), perceptron(scale.reward, heads))
        for _ in range(size)
    ]
    networks: Networks = jax.tree.map(lambda *leaves: jnp.stack(leaves), *made)
    width = 2 * space.observation + 1
    moments = RowMoments(jnp.zeros(()), jnp.zeros(width), jnp.zeros(width))
    return Ensemble(networks, optimisers.init(networks)._replace(updates=jnp.zeros(size, jnp.int32)), moments)


def perceptron(layers: tuple[Dense, ...], x: jax.Array) -> jax.Array:
    for layer in layers[:-1]:
        x = jax.nn.relu(dense(layer, x))
    return dense(layers[-1], x)


class Outputs(NamedTuple):
    """What a model says: change (batch, observation), reward (batch,), and, of a Gaussian model, log-variances."""

    change: jax.Array
    reward: jax.Array
    change_noise: jax.Array | None = None
    reward_noise: jax.Array | None = None


def raw(networks: Networks, x: jax.Array) -> Outputs:
    """One model's outputs for inputs [s, a], in the units of the networks."""
    change, reward = perceptron(networks.change, x), perceptron(networks.reward, x)
    if reward.shape[-1] == 1:
        return Outputs(change, reward[:, 0])
    change, change_noise = jnp.split(change, 2, axis=-1)
    return Outputs(change, reward[:, 0], bounded(change_noise), bounded(reward[:, 1]))


def bounded(log_variance: jax.Array) -> jax.Array:
    """A log-variance within `LOG_VARIANCES`, softly."""
    low, high = LOG_VARIANCES
    below = high - jax.nn.softplus(high - log_variance)
    return low + jax.nn.softplus(below - low)


class Units(NamedTuple):
    """Shift and scale of the three things a model sees."""

    observation: tuple[jax.Array, jax.Array]
    change: tuple[jax.Array, jax.Array]
    reward: tuple[jax.Array, jax.Array]


def units(moments: RowMoments, observation: int, normalised: bool) -> Units:
    """Means and standard deviations, or 0 and 1."""
    mean = moments.mean if normalised else jnp.zeros_like(moments.mean)
    spread = jnp.sqrt(moments.squares / jnp.maximum(moments.rows, 1.0))
    scale = jnp.maximum(spread, SMALLEST_SPREAD) if normalised else jnp.ones_like(spread)
    parts = [slice(0, observation), slice(observation, 2 * observation), -1]
    return Units(*((mean[part], scale[part]) for part in parts))


def inputs(unit: Units, observation: jax.Array, action: jax.Array) -> jax.Array:
    mean, scale = unit.observation
    return jnp.concatenate([(observation - mean) / scale, action], -1)


def predict_each(
    ensemble: Ensemble, normalised: bool, observation: jax.Array, action: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Every model's reward (E, batch) and next observation (E, batch, ·)."""
    unit = units(ensemble.moments, observation.shape[-1], normalised)
    found = jax.vmap(raw, in_axes=(0, None))(ensemble.networks, inputs(unit, observation, action))
    return in_units(unit, observation, found.reward, found.change)


def in_units(unit: Units, observation: jax.Array, reward: jax.Array, change: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Rewards and next observations out of what networks say."""
    return unit.reward[0] + unit.reward[1] * reward, observation + unit.change[0] + unit.change[1] * change


def predict(
    ensemble: Ensemble, normalised: bool, observation: jax.Array, action: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """r̂, ŝ': the mean over the ensemble."""
    reward, following = predict_each(ensemble, normalised, observation, action)
    return jnp.mean(reward, 0), jnp.mean(following, 0)


def sample(
    ensemble: Ensemble, normalised: bool, key: jax.Array, observation: jax.Array, action: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """r̂, ŝ' drawn from a Gaussian model: for each row from one of the ensemble, chosen with equal chance."""
    unit = units(ensemble.moments, observation.shape[-1], normalised)
    found = jax.vmap(raw, in_axes=(0, None))(ensemble.networks, inputs(unit, observation, action))
    assert found.change_noise is not None
    assert found.reward_noise is not None
    which, first, second = jax.random.split(key, 3)
    rows = jnp.arange(len(observation))
    one = jax.random.randint(which, rows.shape, 0, found.reward.shape[0])

    def drawn(key: jax.Array, mean: jax.Array, log_variance: jax.Array) -> jax.Array:
        mean, spread = mean[one, rows], jnp.exp(0.5 * log_variance[one, rows])
        return mean + spread * jax.random.normal(key, mean.shape)

    reward = drawn(first, found.reward, found.reward_noise)
    return in_units(unit, observation, reward, drawn(second, found.change, found.change_noise))


def loss(networks: Networks, unit: Units, batch: Transition) -> jax.Array:
    """½ |ŝ' − s'|² + ½ (r̂ − r)², summed over dimensions, mean over the batch, in the units of the networks.

    Of a Gaussian model, with log-variances v: ½ (x̂ − x)² exp(−v) + ½ v, the negative log-likelihood without ½ log 2π.
    """
    found = raw(networks, inputs(unit, batch.observation, batch.action))
    true_change = (batch.next_observation - batch.observation - unit.change[0]) / unit.change[1]
    true_reward = (batch.reward - unit.reward[0]) / unit.reward[1]
    errors = (found.change - true_change) ** 2, (found.reward - true_reward) ** 2
    if found.change_noise is not None and found.reward_noise is not None:
        noises = found.change_noise, found.reward_noise
        errors = errors[0] * jnp.exp(-noises[0]) + noises[0], errors[1] * jnp.exp(-noises[1]) + noises[1]
    return 0.5 * jnp.mean(jnp.sum(errors[0], -1) + errors[1])


def update(ensemble: Ensemble, scale: ModelScale, batch: Transition, alive: jax.Array) -> tuple[Ensemble, jax.Array]:
    """One step of every model on its own batch (E, batch, ·): the new models, and their losses (E,).

    A model whose loss or gradient is not finite stays as it was; its loss says so.
    """
    moments = observe(ensemble.moments, batch) if scale.normalised else ensemble.moments
    unit = units(moments, batch.observation.shape[-1], scale.normalised)

    def one(networks: Networks, adam: Averages, batch: Transition) -> tuple[Networks, Averages, jax.Array]:
        value, gradient = jax.value_and_grad(loss)(networks, unit, batch)
        gradient = clip_norm(gradient, norm(gradient), scale.clip)
        finite = jnp.isfinite(value) & jnp.isfinite(jnp.sum(gradient.change[0].bias) + jnp.sum(gradient.reward[0].bias))
        networks, adam = descend(gradient, adam, networks, jnp.float32(scale.learning_rate), alive & finite)
        return networks, adam, value

    networks, adam, losses = jax.vmap(one)(ensemble.networks, ensemble.adam, batch)
    kept: RowMoments = jax.tree.map(lambda new, old: jnp.where(alive, new, old), moments, ensemble.moments)
    return Ensemble(networks, adam, kept), losses


def observe(moments: RowMoments, batch: Transition) -> RowMoments:
    """The moments with one more batch taken in (Chan et al. 1979)."""
    rows = jnp.concatenate(
        [batch.observation, batch.next_observation - batch.observation, batch.reward[..., None]], -1
    ).reshape(-1, moments.mean.shape[0])
    count, mean = jnp.float32(rows.shape[0]), jnp.mean(rows, 0)
    total = moments.rows + count
    difference = mean - moments.mean
    squares = moments.squares + jnp.sum((rows - mean) ** 2, 0) + difference**2 * (moments.rows * count / total)
    return RowMoments(total, moments.mean + difference * count / total, squares)
