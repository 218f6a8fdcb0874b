"""From a rule to a step of a critic: the gradient of a rule's update, and the optimiser's step. All agents share it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from bires.agents import optimisers
from bires.agents.base import VALUE_BOUND, Diagnostics, Hyper, Slope, critic_metrics
from bires.agents.optimisers import Averages, Descend, descend
from bires.rules import Ahead, Needs, Values, least_weight, some
from bires.types import Params, Transition

ESTIMATE_DECAY = 1.0
"""β, how much the last layer's weights of an estimate of the error are drawn to zero (Ghiassian et al. 2020, whose
estimate is linear in features). In all layers, and with Adam, it would make every estimate a constant."""

SMALLEST = 1e-30
"""In place of a squared norm of zero."""

Ends = Callable[[Params], tuple[Values, Values, Ahead | None]]
"""A critic's parameters → its values of both ends, the target network's, and what else the rules read."""


class Trained(NamedTuple):
    """A critic with its optimiser, and an estimate of its error where a rule reads one."""

    params: Params
    adam: Averages
    """Those of its optimiser: Adam, or RMSProp."""
    estimate: Params = None
    estimate_adam: Averages | None = None


def with_estimate(init: Callable[[], Params], estimated: bool) -> Trained:
    """A fresh critic, and beside it a network of the same kind where a rule reads an estimate of its error."""
    params = init()
    if not estimated:
        return Trained(params, optimisers.init(params))
    estimate = init()
    return Trained(params, optimisers.init(params), estimate, optimisers.init(estimate))


class Estimating(NamedTuple):
    """An estimate h(s, a) of the error: parameters, and how they give values like those of pred."""

    params: Params
    values: Callable[[Params], jax.Array]


def rule_slope(
    ends: Ends, params: Params, hyper: Hyper, batch: Transition, needs: Needs, estimating: Estimating | None = None
) -> Slope:
    """The rule's update as a gradient: the mean over the batch, summed over critics; with pred and δ_b."""
    rule, rest = needs.simplify(hyper.rule), (batch.reward, hyper.gamma * batch.discount, hyper.eta)
    estimate = None if estimating is None else estimating.values(estimating.params)

    def terms(params: Params) -> tuple[tuple[jax.Array, jax.Array | None], tuple[jax.Array, jax.Array]]:
        online, target, ahead = ends(params)
        read = (ahead or Ahead(online, target, online.succ))._replace(estimate=estimate)
        delta, _ = rule.errors(online, target, *rest, read)
        backward, forward = rule.terms(online, target, *rest, read)
        return (backward, forward), (online.pred, delta)

    used = None
    if some(rule.orthogonal) or some(rule.adaptive):
        backward, forward, (pred, delta) = gradients_apart(terms, params)
        if some(rule.adaptive):
            used = jnp.where(rule.adaptive, adapted(backward, forward, jnp.mean(hyper.eta)), jnp.mean(hyper.eta))
            weight = jnp.where(rule.adaptive, used, 1.0)
            forward = jax.tree.map(lambda leaf: weight * leaf, forward)
        gradient = added(backward, forward, rule.orthogonal if some(rule.orthogonal) else False)
    else:
        gradient, (pred, delta) = jax.grad(lambda params: summed(*terms(params)), has_aux=True)(params)
    return Slope(gradient, pred, delta, None if estimating is None else estimate_slope(estimating, delta), used)


def summed(parts: tuple[jax.Array, jax.Array | None], seen: Any) -> tuple[jax.Array, Any]:
    """The pseudo-loss out of its two terms."""
    backward, forward = parts
    return total(backward if forward is None else backward + forward), seen


def gradients_apart(terms: Callable[[Params], Any], params: Params) -> tuple[Params, Params, Any]:
    """The gradients of the two terms, apart."""

    def totals(params: Params) -> tuple[tuple[jax.Array, jax.Array], Any]:
        (backward, forward), seen = terms(params)
        return (total(backward), total(forward)), seen

    _, pull, seen = jax.vjp(totals, params, has_aux=True)
    zero, one = jnp.zeros(()), jnp.ones(())
    return pull((one, zero))[0], pull((zero, one))[0], seen


def inner(one: Params, other: Params) -> jax.Array:
    """⟨g, g'⟩ of two gradients."""
    leaves = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    return jnp.sum(jnp.stack([jnp.vdot(a, b) for a, b in leaves]))


def adapted(backward: Params, forward: Params, margin: jax.Array) -> jax.Array:
    """Baird's φ of a batch, plus a margin, at most 1: the weight of g_f with which Σδ² does not grow.

    The semi-gradient's step is d = −g_b, the residual gradient's g = −(g_b + g_f), where g_f has no weight yet.
    """
    square, along = optimisers.norm(backward) ** 2, inner(backward, forward)
    whole = square + 2 * along + optimisers.norm(forward) ** 2
    return jnp.minimum(least_weight(square + along, whole) + margin, 1.0)


def total(loss: jax.Array) -> jax.Array:
    """The mean over the batch, summed over critics."""
    return jnp.sum(jnp.mean(loss, -1))


def added(backward: Params, forward: Params, orthogonal: bool | jax.Array) -> Params:
    """g_b + g_f, or g_b + g_f − (⟨g_b, g_f⟩ / ‖g_b‖²) g_b where the two are to be orthogonal."""
    if orthogonal is False:
        return jax.tree.map(jnp.add, backward, forward)
    along = inner(backward, forward)
    share = jnp.where(orthogonal, along / jnp.maximum(optimisers.norm(backward) ** 2, SMALLEST), 0.0)
    return jax.tree.map(lambda b, f: b + f - share * b, backward, forward)


def estimate_slope(estimating: Estimating, delta: jax.Array) -> Params:
    """The gradient of ½ (δ − h)², mean over the batch, and of ½ β ‖w‖², w the weights of h's last layer."""

    def loss(params: Params) -> jax.Array:
        return total(0.5 * (jax.lax.stop_gradient(delta) - estimating.values(params)) ** 2)

    gradient: Any = jax.grad(loss)(estimating.params)
    *before, last = gradient.layers
    decayed = last._replace(weight=last.weight + ESTIMATE_DECAY * estimating.params.layers[-1].weight)
    return gradient._replace(layers=(*before, decayed))


def improve(
    slope: Slope, critic: Trained, rate: jax.Array, alive: jax.Array, step: Descend = descend, bound: float = 0.0
) -> tuple[Trained, Diagnostics]:
    """One step of a critic's optimiser, and of its estimate's, unless something is not finite or too large.

    Gradients are scaled down to the norm ``bound``; 0: never.
    """
    seen = critic_metrics(alive, slope.pred, slope.delta, slope.eta)
    largest = jnp.maximum(jnp.max(jnp.abs(slope.pred)), jnp.max(jnp.abs(slope.delta)))
    gradient, finite = bounded(slope.gradient, bound)
    ok = alive & jnp.isfinite(seen.metrics["critic_loss"]) & (largest < VALUE_BOUND) & finite
    params, adam = step(gradient, critic.adam, critic.params, rate, ok)
    new = critic._replace(params=params, adam=adam)
    if slope.estimate is not None:
        gradient, _ = bounded(slope.estimate, bound)
        estimate, estimate_adam = step(gradient, critic.estimate_adam, critic.estimate, rate, ok)
        new = new._replace(estimate=estimate, estimate_adam=estimate_adam)
    return new, seen._replace(alive=ok)


def bounded(gradient: Params, bound: float) -> tuple[Params, jax.Array]:
    """The gradient, scaled down to the norm ``bound`` unless that is 0, and whether it is finite."""
    if bound == 0:
        return gradient, reached_first_layer(gradient)
    length = optimisers.norm(gradient)
    return optimisers.clip_norm(gradient, length, bound), jnp.isfinite(length)


def reached_first_layer(gradient: Any) -> jax.Array:
    """Whether a gradient is finite, by its first layer, which a value that is not finite reaches through active units.

    (All uses of the old weights come before this flag, so XLA can write the new ones in place.)
    """
    first, *_ = getattr(gradient, "convolutions", ()) or gradient.layers
    return jnp.isfinite(jnp.sum(first.bias))
