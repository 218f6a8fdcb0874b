"""Training a model beside the agent, and its error against the horizon on transitions it has not been trained on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from bires.planning import models as network
from bires.planning.base import Model
from bires.planning.models import Ensemble, ModelScale
from bires.types import Space, Transition


class Tally(NamedTuple):
    """Sums since the last log."""

    fits: jax.Array
    loss: jax.Array
    errors: jax.Array
    """Squared error of the predicted observation (mean over dimensions), by horizon."""
    reward_error: jax.Array
    """Squared error of the predicted reward, one step ahead."""
    disagreement: jax.Array
    """Variance over the ensemble of the predicted observation (mean over dimensions), one step ahead."""
    windows: jax.Array
    """Predictions scored, by horizon."""


class ModelState(NamedTuple):
    """A member's models, and what is known of their error."""

    ensemble: Ensemble
    tally: Tally


@dataclass(frozen=True)
class Learning:
    """How the members of a population learn their models."""

    space: Space
    scale: ModelScale
    size: int
    """Models per member."""
    horizon: int
    """Errors are measured 1 … horizon steps ahead."""
    start: int
    """The first step with model updates."""

    @property
    def held_out(self) -> int:
        """How many of the newest transitions are not trained on yet."""
        return held_out(self.horizon)


HELD_OUT = 10
"""The least number of newest transitions that models are not trained on: with horizons up to this, how a member's
model learns does not depend on the horizons of others."""


def held_out(horizon: int) -> int:
    return max(HELD_OUT, horizon)


class Memory(NamedTuple):
    """One member's replay after step number ``clock``, as models read it."""

    read: Callable[[jax.Array], Transition]
    """Positions → the transitions there."""
    capacity: int
    clock: jax.Array


def empty_tally(horizon: int) -> Tally:
    zero = jnp.zeros(())
    return Tally(zero, zero, jnp.zeros(horizon), zero, zero, jnp.zeros(horizon))


def init(rng: np.random.Generator, learning: Learning) -> ModelState:
    return ModelState(network.init(rng, learning.space, learning.scale, learning.size), empty_tally(learning.horizon))


def predict(learning: Learning, state: ModelState) -> network.Predict:
    """The mean of the ensemble."""
    return partial(network.predict, state.ensemble, learning.scale.normalised)


def model(learning: Learning, state: ModelState) -> Model:
    """The model as planners take it: the mean of the ensemble, or a draw from a Gaussian one."""
    if learning.scale.gaussian:
        return partial(network.sample, state.ensemble, learning.scale.normalised)
    return lambda key, observation, action: predict(learning, state)(observation, action)


def predict_each(learning: Learning, state: ModelState) -> network.Predict:
    """The models of the ensemble one by one."""
    return partial(network.predict_each, state.ensemble, learning.scale.normalised)


def fit(
    learning: Learning, state: ModelState, key: jax.Array, memory: Memory, alive: jax.Array
) -> tuple[ModelState, jax.Array]:
    """Scores the newest transitions, then trains on older ones; the second result is false if a model is not finite."""
    scale = learning.scale
    tally = score(learning, state, memory)

    def once(i: jax.Array, carried: tuple[Ensemble, jax.Array]) -> tuple[Ensemble, jax.Array]:
        ensemble, total = carried
        index = older(jax.random.fold_in(key, i), (learning.size, scale.batch), learning.held_out, memory)
        batch = memory.read(index)
        ensemble, losses = network.update(ensemble, scale, batch, alive)
        return ensemble, total + jnp.mean(losses)

    ensemble, total = jax.lax.fori_loop(0, scale.updates, once, (state.ensemble, jnp.zeros(())))
    tally = tally._replace(fits=tally.fits + scale.updates, loss=tally.loss + total)
    ok = alive & jnp.isfinite(total)
    kept: Tally = jax.tree.map(lambda new, old: jnp.where(ok, new, old), tally, state.tally)
    return ModelState(ensemble, kept), ok


def older(key: jax.Array, shape: tuple[int, ...], newest: int, memory: Memory) -> jax.Array:
    """Uniform positions of transitions other than the ``newest`` ones."""
    filled = jnp.minimum(memory.clock + 1, memory.capacity)
    size = jnp.maximum(filled - newest, 1).astype(jnp.uint32)
    back = (jax.random.bits(key, shape) % size).astype(jnp.int32)
    return (memory.clock - newest - back) % memory.capacity


def score(learning: Learning, state: ModelState, memory: Memory) -> Tally:
    """Predicts the newest observation from 1 … horizon steps before it, with the actions that were taken."""
    horizon = learning.horizon
    rows = memory.read((memory.clock - horizon + 1 + jnp.arange(horizon)) % memory.capacity)
    guess = rows.observation
    for step in range(horizon):
        # Row i of `guess` is the prediction that began at row i; those that have not begun stay where they are.
        begun = jnp.arange(horizon) <= step
        action = jnp.broadcast_to(rows.action[step], rows.action.shape)
        reward, following = network.predict(state.ensemble, learning.scale.normalised, guess, action)
        guess = jnp.where(begun[:, None], following, guess)
    errors = jnp.mean((guess - rows.next_observation[-1]) ** 2, -1)[::-1]
    counted = unbroken(rows)
    tally = state.tally
    last = (state.ensemble, learning.scale.normalised, rows.observation[-1:], rows.action[-1:])
    spread = jnp.mean(jnp.var(network.predict_each(*last)[1], 0))
    return tally._replace(
        errors=tally.errors + jnp.where(counted, errors, 0.0),
        reward_error=tally.reward_error + (reward[-1] - rows.reward[-1]) ** 2,
        disagreement=tally.disagreement + spread,
        windows=tally.windows + counted,
    )


def unbroken(rows: Transition) -> jax.Array:
    """Whether the last 1, 2, … rows belong to one episode: each continues where the one before it ended."""
    joined = jnp.all(rows.next_observation[:-1] == rows.observation[1:], -1)
    return jnp.cumprod(jnp.concatenate([jnp.ones(1, bool), joined[::-1]])).astype(bool)


def columns(learning: Learning) -> tuple[str, ...]:
    """Names of what `summary` gives."""
    ahead = tuple(f"model_error_{h}" for h in range(1, learning.horizon + 1))
    return ("model_loss", "model_reward_error", "model_disagreement", *ahead)


def summary(learning: Learning, tally: Tally) -> list[float | None]:
    """A tally as means and root mean squares; None where nothing was counted."""
    windows = np.asarray(tally.windows, float)
    steps = float(windows[0])

    def root(total: jax.Array | float, count: float) -> float | None:
        return float(np.sqrt(float(total) / count)) if count else None

    fits = float(tally.fits)
    return [
        float(tally.loss) / fits if fits else None,
        root(float(tally.reward_error), steps),
        root(float(tally.disagreement), steps) if learning.size > 1 else None,
        *(root(float(error), count) for error, count in zip(np.asarray(tally.errors), windows, strict=True)),
    ]
