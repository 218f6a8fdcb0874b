"""Evaluation, on the device: members act without noise until the host has seen enough."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from bires.agents.base import Learner
from bires.machine.hostcalls import FLAG, HostHandle, shape
from bires.population.hosts import EvaluationHost
from bires.population.program import Program


def evaluate_members(
    program: Program, host: HostHandle[EvaluationHost], learner: Learner, observation: jax.Array
) -> jax.Array:
    """Acts without noise until the host has seen enough: (members, environments, observation)."""
    seen = shape(observation.shape, observation.dtype)

    def last() -> jax.Array:
        return policy(program, learner, host.ask(EvaluationHost.successor, seen))[1]

    def body(carry: tuple[jax.Array, jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array, jax.Array]:
        observation, ended, _ = carry
        action, value = policy(program, learner, observation)
        ends = jax.lax.cond(ended, last, lambda: jnp.zeros_like(value))
        more: tuple[jax.Array, jax.Array, jax.Array] = host.ask(
            EvaluationHost.evaluate, (seen, FLAG, FLAG), action, value, ends
        )
        return more

    begin = (observation, jnp.zeros((), bool), jnp.ones((), bool))
    return jax.lax.while_loop(lambda carry: carry[2], body, begin)[1]


def policy(program: Program, learner: Learner, observation: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Noise-free actions and their values: (members, environments, observation) → (members, environments, ·)."""

    def one(learner: Learner, observation: jax.Array) -> tuple[jax.Array, jax.Array]:
        action = program.agent.greedy(learner, observation)
        return action, program.agent.value(learner, observation, action)

    return jax.vmap(one)(learner, observation)
