"""One update for all methods, on samples or in expectation, linear or neural.

Every method is a pseudo-loss whose gradient is its update. TD, RG and RA(η), with any placement of target networks, are
the rules of `bires.rules`, the same that train the deep agents; the others are here. A sampled step averages the
pseudo-loss over one transition, an expected step over all of them with their probabilities: nothing else differs. Step
size, η, τ and the rule are arrays, so one compiled program runs a whole grid of settings × seeds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.lax import stop_gradient

from bires import rules
from bires.errors import UserError
from bires.linear.methods import Method
from bires.linear.values import Params, Value
from bires.rules import Ahead, Rule, Values, least_weight, some


class FeatureTransition(NamedTuple):
    """One transition s → s' as the learner sees it, with a second successor s'' that carries the forward gradient."""

    x: jax.Array
    reward: jax.Array
    x1: jax.Array
    """Features of s', which δ sees."""
    discount1: jax.Array
    ratio1: jax.Array
    """ρ = π(a|s) / μ(a|s); weighs the whole update."""
    x2: jax.Array
    """Features of s''; equal to x1 where there is one successor."""
    discount2: jax.Array
    ratio2: jax.Array
    """ρ of the second successor's own action; 1 where there is one successor."""
    x1_target: jax.Array
    """What the target network sees of s': x1, but its own greedy action in control."""


class GridPoint(NamedTuple):
    """What may vary inside one compiled grid."""

    alpha: jax.Array
    eta: jax.Array
    tau: jax.Array
    ratio: jax.Array
    rule: Rule
    gtd2: jax.Array
    """Whether a Gradient-TD method is GTD2 (else TDC)."""
    two: jax.Array
    """Whether the second successor is not the first."""
    borrowed: jax.Array | None
    """Whether the second successor is borrowed from the future; None: nobody's is."""
    decay: jax.Array
    forget: jax.Array
    width: jax.Array


class Weights(NamedTuple):
    """Everything a learner carries from step to step."""

    online: Params
    target: Params
    h: Params
    """The second weights of Gradient-TD methods; the traces (direct, residual) of Baird's φ."""


def settings(algorithm: Method, alphas: Sequence[float]) -> GridPoint:
    """One setting for each step size, stacked."""
    if not alphas or min(alphas) <= 0:
        raise UserError(f"The step sizes are {list(alphas)}; accepted is a list of numbers above 0, like [0.01, 0.1].")
    return stack([(algorithm, alpha) for alpha in alphas])


def stack(pairs: Sequence[tuple[Method, float]]) -> GridPoint:
    """One setting for each pair (algorithm, step size), stacked."""
    used = [algorithm for algorithm, _ in pairs]
    return GridPoint(
        jnp.asarray([alpha for _, alpha in pairs], float),
        jnp.asarray([a.eta for a in used], float),
        jnp.asarray([a.tau for a in used], float),
        jnp.asarray([a.ratio for a in used], float),
        rules.stack(rules.get(a.rule) for a in used),
        jnp.asarray([a.kind == "gtd2" for a in used]),
        jnp.asarray([a.successors == 2 for a in used]),
        jnp.asarray([a.borrowed for a in used]) if any(a.borrowed for a in used) else None,
        *(jnp.asarray([getattr(a, name) for a in used], float) for name in ("decay", "forget", "width")),
    )


def start(family: str, params: Params) -> Weights:
    """Target weights equal to the online ones; h, or traces, of 0."""
    zero = jax.tree.map(jnp.zeros_like, params)
    return Weights(params, params, (zero, zero) if family == "baird" else zero)


def rule_loss(value: Value, memory: Weights, t: FeatureTransition, setting: GridPoint) -> jax.Array:
    """ρ · RULES[...](online, target, r, ·, η) with the discount inside the successor values.

    The number of the online successor comes from s', its gradient from s''; each has its own discount (one of them may
    end the episode), so the discounted values enter the rule with a discount of 1. An orthogonal rule takes the
    gradient of succ'' without its part along that of pred, transition by transition.
    """
    succ1 = t.discount1 * value(memory.online, t.x1)
    succ2 = t.ratio2 * t.discount2 * value(memory.online, t.x2)
    online = Values(value(memory.online, t.x), stop_gradient(succ1 - succ2) + succ2)
    target = Values(value(memory.target, t.x), t.discount1 * value(memory.target, t.x1_target))
    rest = (t.reward, jnp.ones_like(t.reward), setting.eta)
    ahead = None
    if some(setting.rule.orthogonal):
        across = succ2 - stop_gradient(setting.rule.orthogonal * shared(value, memory.online, t)) * online.pred
        ahead = Ahead(online, target, across)
    backward, forward = setting.rule.terms(online, target, *rest, ahead)
    return t.ratio1 * (backward if forward is None else backward + forward)


def shared(value: Value, params: Params, t: FeatureTransition) -> jax.Array:
    """⟨∇succ'', ∇pred⟩ / ‖∇pred‖²."""
    here, there = (jax.grad(value)(params, x) for x in (t.x, t.x2))
    return t.ratio2 * t.discount2 * dot(here, there) / jnp.maximum(dot(here, here), 1e-30)


def dot(one: Params, other: Params) -> jax.Array:
    """The inner product of two sets of weights."""
    return jnp.asarray(sum(jax.tree.leaves(jax.tree.map(jnp.vdot, one, other))))


def gradient_td_loss(value: Value, memory: Weights, t: FeatureTransition, setting: GridPoint) -> jax.Array:
    """GTD2 and TDC (Sutton et al. 2009), with the curvature term of Bhatnagar et al. 2009 for nonlinear v.

    h ← h + βρ (δ − φᵀh) φ,   φ = ∇v(s), φ' = ∇v(s')
    GTD2: w ← w + αρ [(φ − γφ') φᵀh − (δ − φᵀh) ∇²v(s) h]
    TDC:  w ← w + αρ [δφ − γφ' φᵀh − (δ − φᵀh) ∇²v(s) h]
    """
    pred, along_h = jax.jvp(lambda w: value(w, t.x), (memory.online,), (stop_gradient(memory.h),))
    succ = t.discount1 * value(memory.online, t.x1)
    frozen = stop_gradient(memory.online)
    predicted = jax.jvp(lambda w: value(w, t.x), (frozen,), (memory.h,))[1]  # φᵀh as a function of h
    delta, correct = stop_gradient(t.reward + succ - pred), stop_gradient(along_h)
    own = jnp.where(setting.gtd2, correct, delta)
    w_loss = -own * pred + correct * succ + (delta - correct) * along_h
    h_loss = -setting.ratio * (delta - correct) * predicted
    return jnp.asarray(t.ratio1 * (w_loss + h_loss))


def kernel_loss(
    value: Value, params: Params, batch: FeatureTransition, weights: jax.Array, setting: GridPoint
) -> jax.Array:
    """Σ_ij weights_ij ρ_i ρ_j K(s_i, s_j) δ_i δ_j, with δ_i held constant (Feng et al. 2019).

    Two transitions are independent, so one successor each is enough: E[δ_i δ_j] = E[δ_i] E[δ_j] for i ≠ j.
    """

    def error(t: FeatureTransition) -> jax.Array:
        return t.ratio1 * (t.reward + t.discount1 * value(params, t.x1) - value(params, t.x))

    delta = jax.vmap(error)(batch)
    apart = jnp.sum((batch.x[:, None] - batch.x[None]) ** 2, -1)
    kernel = jnp.exp(-apart / (2 * setting.width**2))
    return jnp.einsum("i,ij,j->", stop_gradient(delta), weights * kernel, delta)


def update(
    family: str, value: Value, memory: Weights, batch: FeatureTransition, weights: jax.Array, setting: GridPoint
) -> Weights:
    """One step down the weighted mean of the pseudo-loss, then the soft target update.

    ``weights``: one for each transition; for the kernel loss one for each pair.
    """
    if family == "baird":
        direction, h = adaptive(value, memory, batch, weights, setting)
    else:

        def loss(online: Params, h: Params) -> jax.Array:
            if family == "kernel":
                return kernel_loss(value, online, batch, weights, setting)
            current = Weights(online, memory.target, h)
            if family == "rule":
                return jnp.dot(weights, jax.vmap(lambda t: rule_loss(value, current, t, setting))(batch))
            each = jax.vmap(lambda t: gradient_td_loss(value, current, t, setting))(batch)
            return jnp.dot(weights, each) + 0.5 * setting.ratio * setting.decay * dot(h, h)

        direction, second = jax.grad(loss, argnums=(0, 1))(memory.online, memory.h)
        h = jax.tree.map(lambda w, g: w - setting.alpha * g, memory.h, second)
    online = jax.tree.map(lambda w, g: w - setting.alpha * g, memory.online, direction)
    target = jax.tree.map(lambda old, new: old + setting.tau * (new - old), memory.target, online)
    return Weights(online, target, h)


def adaptive(
    value: Value, memory: Weights, batch: FeatureTransition, weights: jax.Array, setting: GridPoint
) -> tuple[Params, tuple[Params, Params]]:
    """The gradient (1 − φ) g_d + φ g_rg, and the traces of g_d and g_rg that φ is made of (Baird 1995, section 5)."""

    def gradient(eta: float) -> Params:
        point = setting._replace(eta=jnp.asarray(eta))

        def loss(online: Params) -> jax.Array:
            current = memory._replace(online=online)
            return jnp.dot(weights, jax.vmap(lambda t: rule_loss(value, current, t, point))(batch))

        return jax.grad(loss)(memory.online)

    direct, residual = gradient(0.0), gradient(1.0)
    traces = jax.tree.map(lambda old, new: old + setting.forget * (new - old), memory.h, (direct, residual))
    phi = jnp.minimum(least_weight(dot(*traces), dot(traces[1], traces[1])) + setting.eta, 1.0)
    return jax.tree.map(lambda d, g: (1 - phi) * d + phi * g, direct, residual), traces
