"""Control with linear action values: Q-learning, residual Q-learning, RA(η) and Greedy-GQ.

A control problem is a policy-evaluation problem whose successor features are chosen greedily by the weights being
learned: Q-learning is then TD, residual Q-learning RG, and Greedy-GQ (Maei et al. 2010) TDC. The target network, where
there is one, looks at its own greedy action.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from bires.errors import UserError
from bires.linear.algorithms import pick
from bires.linear.exact import true_value, weighting
from bires.linear.four_rooms import four_rooms, room_features
from bires.linear.mdp import Array, Problem
from bires.linear.methods import RG, TD, TDC, Method, family_of
from bires.linear.problems import baird_star
from bires.linear.updates import FeatureTransition, GridPoint, Weights, stack, start, update
from bires.linear.values import Params, linear

Q_LEARNING = replace(TD, name="Q-learning", successors=1)
RESIDUAL_Q = replace(RG, name="residual Q-learning")
GREEDY_GQ = replace(TDC, name="Greedy-GQ")


@dataclass(frozen=True)
class Control:
    """An MDP with a behaviour policy, and features of state-action pairs."""

    problem: Problem
    Phi: Array
    """Phi[s, a, :]."""
    w0: Array


def control(given: Problem, Phi: Array, w0: Array | None = None) -> Control:
    """A checked control problem."""
    if Phi.ndim != 3 or Phi.shape[:2] != (given.states, given.actions):
        raise UserError(
            f"Phi has shape {Phi.shape}; accepted is ({given.states}, {given.actions}, features): one vector for each "
            "state and action of P."
        )
    return Control(given, Phi, np.zeros(Phi.shape[2]) if w0 is None else w0)


def baird_control(gamma: float = 0.99) -> Control:
    """Baird's star with action values: the solid action keeps the shared weights, each dashed one has its own.

    All rewards are 0, so q* = 0 is representable.
    """
    star = baird_star(gamma)
    Phi = np.zeros((7, 2, 15))
    Phi[:, 1, :8] = star.X
    Phi[:, 0, 8:] = np.eye(7)
    return control(star, Phi, np.append(star.w0, np.zeros(7)))


def rooms_control(features: str = "tiles", gamma: float = 0.9) -> Control:
    """Four rooms, with the state features repeated for each action; the behaviour is the random walk."""
    X = room_features(features)
    Phi = np.einsum("ab,sd->sabd", np.eye(4), X).reshape(len(X), 4, -1)
    return control(four_rooms(features, "random", gamma), Phi)


def optimal_q(given: Problem, tolerance: float = 1e-12) -> Array:
    """q*(s, a) = Σ_s' P (r + discount · max_a' q*(s', a')), by value iteration."""
    q = np.zeros((given.states, given.actions))
    while True:
        better: Array = np.einsum("ast,ast->sa", given.P, given.r + given.discount * q.max(1))
        if np.abs(better - q).max() < tolerance:
            return better
        q = better


def greedy_value(given: Problem, q: Array) -> Array:
    """v of the policy that is greedy in q (the first of equal actions)."""
    return true_value(replace(given, pi=np.eye(given.actions)[q.argmax(1)]))


class ControlTables(NamedTuple):
    Phi: jax.Array
    d: jax.Array
    mu: jax.Array
    P: jax.Array
    r: jax.Array
    discount: jax.Array


def _greedy(params: Params, features: jax.Array) -> jax.Array:
    """The features of the action with the highest value."""
    return features[jnp.argmax(jax.vmap(lambda x: linear(params, x))(features))]


def _transition(
    k: ControlTables, memory: Weights, two: jax.Array, s: jax.Array, a: jax.Array, s1: jax.Array, s2: jax.Array
) -> FeatureTransition:
    """(s, a, s') with greedy successors; no importance ratio, because (s, a) may come from anywhere."""
    s2 = jnp.where(two, s2, s1)
    one = jnp.ones(())
    x1, x2 = _greedy(memory.online, k.Phi[s1]), _greedy(memory.online, k.Phi[s2])
    x1_target = _greedy(memory.target, k.Phi[s1])
    discounts = k.discount[a, s, s1], k.discount[a, s, s2]
    return FeatureTransition(k.Phi[s, a], k.r[a, s, s1], x1, discounts[0], one, x2, discounts[1], one, x1_target)


@partial(jax.jit, static_argnames=("family", "steps", "every"))
def _sampled(
    family: str, k: ControlTables, w0: jax.Array, grid: GridPoint, keys: jax.Array, steps: int, every: int
) -> jax.Array:
    def one(setting: GridPoint, key: jax.Array) -> jax.Array:
        def step(memory: Weights, n: jax.Array) -> tuple[Weights, None]:
            u = jax.random.uniform(jax.random.fold_in(key, n), (4,))
            s = pick(k.d, u[0])
            a = pick(k.mu[s], u[1])
            t = _transition(k, memory, setting.two, s, a, pick(k.P[a, s], u[2]), pick(k.P[a, s], u[3]))
            batch = jax.tree.map(lambda leaf: leaf[None], t)
            return update(family, linear, memory, batch, jnp.ones(1), setting), None

        def block(memory: Weights, n: jax.Array) -> tuple[Weights, jax.Array]:
            return jax.lax.scan(step, memory, n * every + jnp.arange(every))[0], memory.online

        memory, curve = jax.lax.scan(block, start(family, w0), jnp.arange(steps // every))
        return jnp.concatenate([curve, memory.online[None]])

    return jax.vmap(lambda setting: jax.vmap(lambda key: one(setting, key))(keys))(grid)


def learn_control(
    given: Control, pairs: Sequence[tuple[Method, float]], seeds: int, steps: int, every: int = 1
) -> Array:
    """Every (algorithm, step size) on every seed, states drawn from d_μ: w, (pairs, seeds, steps // every + 1, d)."""
    p = given.problem
    k = ControlTables(*(jnp.asarray(a, float) for a in (given.Phi, weighting(p), p.mu, p.P, p.r, p.discount)))
    keys = jax.vmap(jax.random.key)(jnp.arange(seeds))
    curves = _sampled(
        family_of([method for method, _ in pairs]), k, jnp.asarray(given.w0, float), stack(pairs), keys, steps, every
    )
    return np.asarray(curves, dtype=np.float64)


@partial(jax.jit, static_argnames=("family", "steps", "every"))
def _expected(
    family: str, k: ControlTables, w0: jax.Array, grid: GridPoint, index: jax.Array, weights: jax.Array,
    steps: int, every: int,
) -> jax.Array:  # fmt: skip
    def one(setting: GridPoint) -> jax.Array:
        def step(_: jax.Array, memory: Weights) -> Weights:
            batch = jax.vmap(lambda i: _transition(k, memory, setting.two, i[0], i[1], i[2], i[3]))(index)
            return update(family, linear, memory, batch, weights, setting)

        def block(memory: Weights, _: None) -> tuple[Weights, jax.Array]:
            return jax.lax.fori_loop(0, every, step, memory), memory.online

        memory, curve = jax.lax.scan(block, start(family, w0), None, length=steps // every)
        return jnp.concatenate([curve, memory.online[None]])

    return jax.vmap(one)(grid)


def learn_control_expected(given: Control, pairs: Sequence[tuple[Method, float]], steps: int, every: int = 1) -> Array:
    """The same with each update replaced by its expectation over (s, a, s', s''): w, (pairs, steps // every + 1, d)."""
    p = given.problem
    k = ControlTables(*(jnp.asarray(a, float) for a in (given.Phi, weighting(p), p.mu, p.P, p.r, p.discount)))
    rows = [
        (s, a, s1, s2, weighting(p)[s] * p.mu[s, a] * p.P[a, s, s1] * p.P[a, s, s2])
        for s, a in np.argwhere(p.mu > 0)
        for s1 in np.flatnonzero(p.P[a, s])
        for s2 in np.flatnonzero(p.P[a, s])
    ]
    index = jnp.asarray([row[:4] for row in rows])
    weights = jnp.asarray([row[4] for row in rows], float)
    family, w0 = family_of([method for method, _ in pairs]), jnp.asarray(given.w0, float)
    return np.asarray(_expected(family, k, w0, stack(pairs), index, weights, steps, every), dtype=np.float64)
