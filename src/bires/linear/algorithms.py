"""Learning: every method on samples of a problem, or with its updates replaced by their expectation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from bires.errors import UserError
from bires.linear.exact import weighting
from bires.linear.mdp import Array, Problem
from bires.linear.methods import Method, family_of
from bires.linear.updates import FeatureTransition, GridPoint, Weights, settings, stack, start, update
from bires.linear.values import Params, Value, linear

KERNEL_BATCH = 8
"""Transitions of a sampled step down the kernel loss, which is one of pairs."""


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


def look_up(k: Tables, two: jax.Array, s: Any, first: tuple[Any, Any], second: tuple[Any, Any]) -> FeatureTransition:
    """The transition with these indices; ``second`` is (action, state) of the independent successor."""
    (a1, s1), (a2, s2) = first, second
    a2, s2 = jnp.where(two, a2, a1), jnp.where(two, s2, s1)
    ratio2 = jnp.where(two, k.ratio[s, a2], 1.0)
    x1 = k.X[s1]
    return FeatureTransition(
        k.X[s], k.r[a1, s, s1], x1, k.discount[a1, s, s1], k.ratio[s, a1], k.X[s2], k.discount[a2, s, s2], ratio2, x1
    )


def everything(given: Problem, method: Method) -> tuple[FeatureTransition, jax.Array]:
    """All transitions (s, a, s') of positive probability, with all second successors, and their probabilities.

    For the kernel loss the probabilities are those of pairs of transitions.
    """
    d = weighting(given)
    joint = np.einsum("sa,ast->sat", given.mu, given.P)
    s, a1, s1 = np.nonzero(joint)
    a2, s2, chance = a1, s1, d[s] * joint[s, a1, s1]
    two = method.successors == 2 and method.kind in ("rule", "baird")
    if two:
        begin = s1 if method.borrowed else s
        rows = [np.argwhere(joint[state]) for state in range(given.states)]
        i = np.repeat(np.arange(len(s)), [len(rows[state]) for state in begin])
        a2, s2 = np.concatenate([rows[state] for state in begin]).T
        chance = chance[i] * joint[begin[i], a2, s2]
        s, a1, s1 = s[i], a1[i], s1[i]
        s2 = (s + s2 - s1) % given.states if method.borrowed else s2
    weights = np.outer(chance, chance) if method.kind == "kernel" else chance
    return look_up(tables(given), jnp.asarray(two), s, (a1, s1), (a2, s2)), jnp.asarray(weights, float)


def draw(
    k: Tables, two: jax.Array, s: jax.Array, key: jax.Array, borrowed: jax.Array | None = None
) -> tuple[FeatureTransition, jax.Array]:
    """One transition from s under μ, a second successor, and where the first led.

    The second successor is an independent one of the same s, or borrowed from the future: s + (s₂ − s'), s₂ the state
    after s'.
    """
    u = jax.random.uniform(key, (4,))
    a1, a2 = pick(k.mu[s], u[0]), pick(k.mu[s], u[1])
    s1, s2 = pick(k.P[a1, s], u[2]), pick(k.P[a2, s], u[3])
    if borrowed is not None:
        again = pick(k.P[pick(k.mu[s1], u[1]), s1], u[3])
        s2 = jnp.where(borrowed, (s + again - s1) % len(k.d), s2)
    return look_up(k, two, s, (a1, s1), (a2, s2)), s1


def require_circle(given: Problem, methods: Sequence[Method]) -> None:
    """Refuses to borrow from the future where states are no places on a circle that the policy itself visits."""
    if any(method.borrowed for method in methods) and (given.ends.any() or not np.array_equal(given.mu, given.pi)):
        raise UserError(
            f"{given.name!r} is off-policy or has episodes; borrowing from the future needs the states of a circle, "
            "visited by the policy itself, such as problems.ring()."
        )


def pick(chances: jax.Array, u: jax.Array) -> jax.Array:
    """The index that the uniform number u falls on."""
    return jnp.minimum(jnp.sum(jnp.cumsum(chances) <= u), len(chances) - 1)


def independent(k: Tables, key: jax.Array) -> tuple[FeatureTransition, jax.Array]:
    """`KERNEL_BATCH` transitions from d_μ, independent of each other, and 1 / n (n − 1) for every pair of two."""

    def one(key: jax.Array) -> FeatureTransition:
        jump, move = jax.random.split(key)
        return draw(k, jnp.asarray(False), pick(k.d, jax.random.uniform(jump)), move)[0]

    n = KERNEL_BATCH
    return jax.vmap(one)(jax.random.split(key, n)), (1.0 - jnp.eye(n)) / (n * (n - 1))


@partial(jax.jit, static_argnames=("family", "value", "steps", "every", "trajectory"))
def _sampled(
    family: str, value: Value, k: Tables, params: Params, grid: GridPoint, keys: jax.Array,
    steps: int, every: int, trajectory: bool,
) -> jax.Array:  # fmt: skip
    def one(setting: GridPoint, key: jax.Array) -> jax.Array:
        def step(carry: tuple[Weights, jax.Array], n: jax.Array) -> tuple[tuple[Weights, jax.Array], None]:
            memory, s = carry
            jump, move = jax.random.split(jax.random.fold_in(key, n))
            s = s if trajectory else pick(k.d, jax.random.uniform(jump))
            transition, s1 = draw(k, setting.two, s, move, setting.borrowed)
            batch, weights = jax.tree.map(lambda leaf: leaf[None], transition), jnp.ones(1)
            if family == "kernel":
                batch, weights = independent(k, jax.random.fold_in(move, 1))
            return (update(family, value, memory, batch, weights, setting), s1), None

        def block(carry: tuple[Weights, jax.Array], n: jax.Array) -> tuple[tuple[Weights, jax.Array], jax.Array]:
            values = jax.vmap(lambda x: value(carry[0].online, x))(k.X)
            return jax.lax.scan(step, carry, n * every + jnp.arange(every))[0], values

        first = pick(k.d, jax.random.uniform(jax.random.fold_in(key, steps + every)))
        carry, curve = jax.lax.scan(block, (start(family, params), first), jnp.arange(steps // every))
        return jnp.concatenate([curve, jax.vmap(lambda x: value(carry[0].online, x))(k.X)[None]])

    return jax.vmap(lambda setting: jax.vmap(lambda key: one(setting, key))(keys))(grid)


def learn(
    given: Problem, pairs: Sequence[tuple[Method, float]], seeds: int, steps: int, *,
    every: int = 1, value: Value = linear, params: Params | None = None, trajectory: bool = True,
) -> Array:  # fmt: skip
    """Run every (algorithm, step size) on every seed: v of all states, shape (pairs, seeds, steps // every + 1, S).

    With ``trajectory`` the states follow one another; else each is drawn afresh from d_μ, as those of the
    kernel loss always are. Seed i sees the same
    transitions under every algorithm. A diverged run holds inf or nan from then on.
    """
    keys = jax.vmap(jax.random.key)(jnp.arange(seeds))
    begin = jnp.asarray(given.w0, float) if params is None else params
    methods = [method for method, _ in pairs]
    require_circle(given, methods)
    k, family = tables(given), family_of(methods)
    curves = _sampled(family, value, k, begin, stack(pairs), keys, steps, every, trajectory)
    return np.asarray(curves, dtype=np.float64)


@partial(jax.jit, static_argnames=("family", "value", "steps", "every"))
def _expected(
    family: str, value: Value, X: jax.Array, batch: FeatureTransition, weights: jax.Array, params: Params,
    grid: GridPoint, steps: int, every: int,
) -> jax.Array:  # fmt: skip
    def one(setting: GridPoint) -> jax.Array:
        def block(memory: Weights, _: None) -> tuple[Weights, jax.Array]:
            values = jax.vmap(lambda x: value(memory.online, x))(X)
            after = jax.lax.fori_loop(0, every, lambda _, m: update(family, value, m, batch, weights, setting), memory)
            return after, values

        memory, curve = jax.lax.scan(block, start(family, params), None, length=steps // every)
        return jnp.concatenate([curve, jax.vmap(lambda x: value(memory.online, x))(X)[None]])

    return jax.vmap(one)(grid)


def learn_expected(
    given: Problem, method: Method, alphas: Sequence[float], steps: int, *,
    every: int = 1, value: Value = linear, params: Params | None = None,
) -> Array:  # fmt: skip
    """The same algorithm with each update replaced by its expectation: shape (alphas, steps // every + 1, S)."""
    require_circle(given, [method])
    method = replace(method, forget=1.0)  # the expected gradients are known: no traces
    batch, weights = everything(given, method)
    begin = jnp.asarray(given.w0, float) if params is None else params
    X, grid = jnp.asarray(given.X, float), settings(method, alphas)
    curves = _expected(method.family, value, X, batch, weights, begin, grid, steps, every)
    return np.asarray(curves, dtype=np.float64)
