"""The algorithms themselves: one update for all, on samples or in expectation, linear or neural.

Every algorithm is a per-transition pseudo-loss whose gradient is its update. TD, RG and RA(η), with any placement of
target networks, are the rules of `bires.rules`, the same that train the deep agents; GTD2 and TDC add a second set of
weights h. A sampled step averages the pseudo-loss over one transition, an expected step over all of them with their
probabilities: nothing else differs. Step size, η, τ and the rule are arrays, so one compiled program runs a whole grid
of settings × seeds.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.lax import stop_gradient

from bires import rules
from bires.errors import UserError
from bires.linear.dynamics import Algorithm
from bires.linear.exact import weighting
from bires.linear.mdp import Array, Problem
from bires.linear.values import Params, Value, linear
from bires.rules import Rule, Values


class Transition(NamedTuple):
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


class Setting(NamedTuple):
    """What may vary inside one compiled grid."""

    alpha: jax.Array
    eta: jax.Array
    tau: jax.Array
    ratio: jax.Array
    rule: Rule
    gtd2: jax.Array
    """Whether a Gradient-TD method is GTD2 (else TDC)."""
    two: jax.Array
    """Whether the second successor is independent of the first."""


class Memory(NamedTuple):
    """Everything a learner carries from step to step."""

    online: Params
    target: Params
    h: Params


def settings(algorithm: Algorithm, alphas: Sequence[float]) -> Setting:
    """One setting for each step size, stacked."""
    if not alphas or min(alphas) <= 0:
        raise UserError(f"The step sizes are {list(alphas)}; accepted is a list of numbers above 0, like [0.01, 0.1].")
    return stack([(algorithm, alpha) for alpha in alphas])


def stack(pairs: Sequence[tuple[Algorithm, float]]) -> Setting:
    """One setting for each pair (algorithm, step size), stacked."""
    used = [algorithm for algorithm, _ in pairs]
    return Setting(
        jnp.asarray([alpha for _, alpha in pairs], float),
        jnp.asarray([a.eta for a in used], float),
        jnp.asarray([a.tau for a in used], float),
        jnp.asarray([a.ratio for a in used], float),
        rules.stack(rules.get(a.rule) for a in used),
        jnp.asarray([a.kind == "gtd2" for a in used]),
        jnp.asarray([a.successors == 2 for a in used]),
    )


def one_family(pairs: Sequence[tuple[Algorithm, float]]) -> str:
    """`rule` or `gradient-td`: the two pseudo-losses. One compiled grid holds one of them."""
    families = {"rule" if algorithm.kind == "rule" else "gradient-td" for algorithm, _ in pairs}
    if len(families) != 1:
        names = [algorithm.name for algorithm, _ in pairs]
        raise UserError(
            f"The algorithms {names} mix rules with Gradient-TD methods; one grid accepts either. Call once for each."
        )
    return families.pop()


def start(params: Params) -> Memory:
    """Target weights equal to the online ones, h = 0."""
    return Memory(params, params, jax.tree.map(jnp.zeros_like, params))


def rule_loss(value: Value, memory: Memory, t: Transition, setting: Setting) -> jax.Array:
    """ρ · RULES[...](online, target, r, ·, η) with the discount inside the successor values.

    The number of the online successor comes from s', its gradient from s''; each has its own discount (one of them may
    end the episode), so the discounted values enter the rule with a discount of 1.
    """
    succ1 = t.discount1 * value(memory.online, t.x1)
    succ2 = t.ratio2 * t.discount2 * value(memory.online, t.x2)
    online = Values(value(memory.online, t.x), stop_gradient(succ1 - succ2) + succ2)
    target = Values(value(memory.target, t.x), t.discount1 * value(memory.target, t.x1_target))
    return t.ratio1 * setting.rule(online, target, t.reward, jnp.ones_like(t.reward), setting.eta)


def gradient_td_loss(value: Value, memory: Memory, t: Transition, setting: Setting) -> jax.Array:
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


def update(
    family: str, value: Value, memory: Memory, batch: Transition, weights: jax.Array, setting: Setting
) -> Memory:
    """One step down the weighted mean of the pseudo-loss, then the soft target update."""

    def loss(online: Params, h: Params) -> jax.Array:
        current = Memory(online, memory.target, h)
        if family == "rule":
            each = jax.vmap(lambda t: rule_loss(value, current, t, setting))(batch)
        else:
            each = jax.vmap(lambda t: gradient_td_loss(value, current, t, setting))(batch)
        return jnp.dot(weights, each)

    downhill = jax.grad(loss, argnums=(0, 1))(memory.online, memory.h)
    online, h = jax.tree.map(lambda w, g: w - setting.alpha * g, (memory.online, memory.h), downhill)
    target = jax.tree.map(lambda old, new: old + setting.tau * (new - old), memory.target, online)
    return Memory(online, target, h)


class Tables(NamedTuple):
    """A problem as arrays that a compiled program can index."""

    X: jax.Array
    d: jax.Array
    mu: jax.Array
    P: jax.Array
    r: jax.Array
    discount: jax.Array
    ratio: jax.Array


def tables(given: Problem) -> Tables:
    """A problem as arrays on the device."""
    arrays = (given.X, weighting(given), given.mu, given.P, given.r, given.discount, given.ratio)
    return Tables(*(jnp.asarray(array, float) for array in arrays))


def look_up(k: Tables, two: jax.Array, s: Any, first: tuple[Any, Any], second: tuple[Any, Any]) -> Transition:
    """The transition with these indices; ``second`` is (action, state) of the independent successor."""
    (a1, s1), (a2, s2) = first, second
    a2, s2 = jnp.where(two, a2, a1), jnp.where(two, s2, s1)
    ratio2 = jnp.where(two, k.ratio[s, a2], 1.0)
    x1 = k.X[s1]
    return Transition(
        k.X[s], k.r[a1, s, s1], x1, k.discount[a1, s, s1], k.ratio[s, a1], k.X[s2], k.discount[a2, s, s2], ratio2, x1
    )


def everything(given: Problem, algorithm: Algorithm) -> tuple[Transition, jax.Array]:
    """All transitions (s, a, s') of positive probability, with all second successors, and their probabilities."""
    d = weighting(given)
    joint = np.einsum("sa,ast->sat", given.mu, given.P)
    s, a1, s1 = np.nonzero(joint)
    a2, s2, chance = a1, s1, d[s] * joint[s, a1, s1]
    if algorithm.successors == 2 and algorithm.kind == "rule":
        pairs = [(i, j) for i in range(len(s)) for j in np.flatnonzero(s == s[i])]
        i, j = np.array(pairs).T
        chance = chance[i] * joint[s[j], a1[j], s1[j]]
        s, a1, s1, a2, s2 = s[i], a1[i], s1[i], a1[j], s1[j]
    two = jnp.asarray(algorithm.successors == 2 and algorithm.kind == "rule")
    return look_up(tables(given), two, s, (a1, s1), (a2, s2)), jnp.asarray(chance, float)


def draw(k: Tables, two: jax.Array, s: jax.Array, key: jax.Array) -> tuple[Transition, jax.Array]:
    """One transition from s under μ, an independent second successor of the same s, and where the first led."""
    u = jax.random.uniform(key, (4,))
    a1, a2 = pick(k.mu[s], u[0]), pick(k.mu[s], u[1])
    s1, s2 = pick(k.P[a1, s], u[2]), pick(k.P[a2, s], u[3])
    return look_up(k, two, s, (a1, s1), (a2, s2)), s1


def pick(chances: jax.Array, u: jax.Array) -> jax.Array:
    """The index that the uniform number u falls on."""
    return jnp.minimum(jnp.sum(jnp.cumsum(chances) <= u), len(chances) - 1)


@partial(jax.jit, static_argnames=("family", "value", "steps", "every", "trajectory"))
def _sampled(
    family: str, value: Value, k: Tables, params: Params, grid: Setting, keys: jax.Array,
    steps: int, every: int, trajectory: bool,
) -> jax.Array:  # fmt: skip
    def one(setting: Setting, key: jax.Array) -> jax.Array:
        def step(carry: tuple[Memory, jax.Array], n: jax.Array) -> tuple[tuple[Memory, jax.Array], None]:
            memory, s = carry
            jump, move = jax.random.split(jax.random.fold_in(key, n))
            s = s if trajectory else pick(k.d, jax.random.uniform(jump))
            transition, s1 = draw(k, setting.two, s, move)
            batch = jax.tree.map(lambda leaf: leaf[None], transition)
            return (update(family, value, memory, batch, jnp.ones(1), setting), s1), None

        def block(carry: tuple[Memory, jax.Array], n: jax.Array) -> tuple[tuple[Memory, jax.Array], jax.Array]:
            values = jax.vmap(lambda x: value(carry[0].online, x))(k.X)
            return jax.lax.scan(step, carry, n * every + jnp.arange(every))[0], values

        first = pick(k.d, jax.random.uniform(jax.random.fold_in(key, steps + every)))
        carry, curve = jax.lax.scan(block, (start(params), first), jnp.arange(steps // every))
        return jnp.concatenate([curve, jax.vmap(lambda x: value(carry[0].online, x))(k.X)[None]])

    return jax.vmap(lambda setting: jax.vmap(lambda key: one(setting, key))(keys))(grid)


def learn(
    given: Problem, pairs: Sequence[tuple[Algorithm, float]], seeds: int, steps: int, *,
    every: int = 1, value: Value = linear, params: Params | None = None, trajectory: bool = True,
) -> Array:  # fmt: skip
    """Run every (algorithm, step size) on every seed: v of all states, shape (pairs, seeds, steps // every + 1, S).

    With ``trajectory`` the states follow one another; else each is drawn afresh from d_μ. Seed i sees the same
    transitions under every algorithm. A diverged run holds inf or nan from then on.
    """
    keys = jax.vmap(jax.random.key)(jnp.arange(seeds))
    begin = jnp.asarray(given.w0, float) if params is None else params
    k, family = tables(given), one_family(pairs)
    curves = _sampled(family, value, k, begin, stack(pairs), keys, steps, every, trajectory)
    return np.asarray(curves, dtype=np.float64)


@partial(jax.jit, static_argnames=("family", "value", "steps", "every"))
def _expected(
    family: str, value: Value, X: jax.Array, batch: Transition, weights: jax.Array, params: Params, grid: Setting,
    steps: int, every: int,
) -> jax.Array:  # fmt: skip
    def one(setting: Setting) -> jax.Array:
        def block(memory: Memory, _: None) -> tuple[Memory, jax.Array]:
            values = jax.vmap(lambda x: value(memory.online, x))(X)
            after = jax.lax.fori_loop(0, every, lambda _, m: update(family, value, m, batch, weights, setting), memory)
            return after, values

        memory, curve = jax.lax.scan(block, start(params), None, length=steps // every)
        return jnp.concatenate([curve, jax.vmap(lambda x: value(memory.online, x))(X)[None]])

    return jax.vmap(one)(grid)


def learn_expected(
    given: Problem, algorithm: Algorithm, alphas: Sequence[float], steps: int, *,
    every: int = 1, value: Value = linear, params: Params | None = None,
) -> Array:  # fmt: skip
    """The same algorithm with each update replaced by its expectation: shape (alphas, steps // every + 1, S)."""
    batch, weights = everything(given, algorithm)
    begin = jnp.asarray(given.w0, float) if params is None else params
    X, grid = jnp.asarray(given.X, float), settings(algorithm, alphas)
    curves = _expected(one_family([(algorithm, 0.0)]), value, X, batch, weights, begin, grid, steps, every)
    return np.asarray(curves, dtype=np.float64)
