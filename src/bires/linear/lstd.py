"""Least-squares TD: the TD fixed point straight from the data, without a step size."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from bires.linear.algorithms import Tables, draw, pick, tables
from bires.linear.mdp import Array, Problem


@partial(jax.jit, static_argnames=("steps", "every"))
def _sums(k: Tables, keys: jax.Array, steps: int, every: int) -> tuple[jax.Array, jax.Array]:
    """Running sums of ρ x (x − discount·x')ᵀ and ρ x r along one trajectory per key."""
    size = k.X.shape[1]

    def one(key: jax.Array) -> tuple[jax.Array, jax.Array]:
        def step(carry: tuple[jax.Array, jax.Array, jax.Array], n: jax.Array):  # type: ignore[no-untyped-def]
            A, b, s = carry
            t, s1 = draw(k, jnp.asarray(False), s, jax.random.split(jax.random.fold_in(key, n))[1])
            A = A + t.ratio1 * jnp.outer(t.x, t.x - t.discount1 * t.x1)
            return (A, b + t.ratio1 * t.reward * t.x, s1), None

        def block(carry, n):  # type: ignore[no-untyped-def]
            carry = jax.lax.scan(step, carry, n * every + jnp.arange(every))[0]
            return carry, (carry[0], carry[1])

        first = pick(k.d, jax.random.uniform(jax.random.fold_in(key, steps + every)))
        begin = (jnp.zeros((size, size)), jnp.zeros(size), first)
        sums: tuple[jax.Array, jax.Array] = jax.lax.scan(block, begin, jnp.arange(steps // every))[1]
        return sums

    return jax.vmap(one)(keys)


def lstd(given: Problem, seeds: int, steps: int, *, every: int = 1, ridge: float = 1e-3) -> Array:
    """w_n = (Σ ρ x (x − discount·x')ᵀ + ridge · I)⁻¹ Σ ρ x r after every ``every`` steps: (seeds, steps // every, d).

    Seed i sees the same trajectory as under the other algorithms.
    """
    A, b = _sums(tables(given), jax.vmap(jax.random.key)(jnp.arange(seeds)), steps, every)
    A64, b64 = np.asarray(A, np.float64), np.asarray(b, np.float64)
    return np.asarray(np.linalg.solve(A64 + ridge * np.eye(A64.shape[-1]), b64[..., None])[..., 0], np.float64)
