"""DDPG with any critic rule: Lillicrap et al. (2015) without batch normalisation, as in the paper."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from bires import optimisers
from bires.agents.base import VALUE_BOUND, Agent, Diagnostics, Hyper, Parts, Slope
from bires.exploration import ornstein_uhlenbeck
from bires.networks import Actor, Critic, actor, critic, init_actor, init_critic
from bires.optimisers import Averages, descend, soft_update
from bires.rules import Needs, Values
from bires.types import Space, Transition

Regression = Callable[[jax.Array], tuple[jax.Array, tuple[jax.Array, jax.Array]]]
"""Q's values → a loss, and (pred, δ) to report."""


class State(NamedTuple):
    """The learner."""

    actor: Actor
    critic: Critic
    target_actor: Actor
    target_critic: Critic
    actor_adam: Averages
    critic_adam: Averages


def init(rng: np.random.Generator, space: Space, hidden: tuple[int, ...]) -> State:
    """Online networks, targets equal to them, fresh optimisers."""
    online_actor = init_actor(rng, space.observation, space.action, hidden)
    online_critic = init_critic(rng, space.observation, space.action, hidden)
    return State(
        online_actor,
        online_critic,
        jax.tree.map(jnp.copy, online_actor),
        jax.tree.map(jnp.copy, online_critic),
        optimisers.init(online_actor),
        optimisers.init(online_critic),
    )


def both_ends(params: Critic, batch: Transition, next_action: Any, pred: bool, succ: bool) -> Values:
    """Q(s, a) and Q(s', a') of one network, in one pass over the stacked batch; what nobody reads is zero."""
    zero = jnp.zeros_like(batch.reward)
    if pred and succ:
        values = critic(
            params,
            jnp.concatenate([batch.observation, batch.next_observation]),
            jnp.concatenate([batch.action, next_action]),
        )
        return Values(*jnp.split(values, 2))
    if pred:
        return Values(critic(params, batch.observation, batch.action), zero)
    if succ:
        return Values(zero, critic(params, batch.next_observation, next_action))
    return Values(zero, zero)


def critic_slope(state: State, hyper: Hyper, batch: Transition, needs: Needs) -> Slope:
    """The paper's critic update as a gradient (mean over the batch), with the online values and δ_b."""
    discount = hyper.gamma * batch.discount
    target_action = actor(state.target_actor, batch.next_observation) if needs.target_succ else None
    target = both_ends(state.target_critic, batch, target_action, needs.target_pred, needs.target_succ)
    online_action = actor(state.actor, batch.next_observation) if needs.online_succ else None

    def loss(params: Critic) -> tuple[jax.Array, Values]:
        online = both_ends(params, batch, online_action, True, needs.online_succ)
        rule = hyper.rule if needs.forward else hyper.rule.without_forward()
        return jnp.mean(rule(online, target, batch.reward, discount, hyper.eta)), online

    gradient, online = jax.grad(loss, has_aux=True)(state.critic)
    return Slope(gradient, online.pred, hyper.rule.backward(online, target, batch.reward, discount))


def regress(state: State, observation: jax.Array, action: jax.Array, loss: Regression) -> Slope:
    """The gradient of any loss of Q's values at some points."""
    gradient, seen = jax.grad(lambda params: loss(critic(params, observation, action)), has_aux=True)(state.critic)
    return Slope(gradient, *seen)


def actor_gradient(params: Actor, critic_params: Critic, batch: Transition) -> Actor:
    """∇ of −mean Q(s, μ(s)) in the actor's parameters."""

    def loss(params: Actor) -> jax.Array:
        return -jnp.mean(critic(critic_params, batch.observation, actor(params, batch.observation)))

    gradient: Actor = jax.grad(loss)(params)
    return gradient


def improve_critic(state: State, hyper: Hyper, slope: Slope, alive: jax.Array) -> tuple[State, Diagnostics]:
    """One step of the critic's optimiser, unless something is not finite."""
    gradient, pred, delta = slope
    loss = 0.5 * jnp.mean(delta**2)
    largest = jnp.maximum(jnp.max(jnp.abs(pred)), jnp.max(jnp.abs(delta)))
    ok = alive & jnp.isfinite(loss) & (largest < VALUE_BOUND) & reached_first_layer(gradient)
    new, adam = descend(gradient, state.critic_adam, state.critic, hyper.critic_lr, ok)
    return state._replace(critic=new, critic_adam=adam), Diagnostics(ok, loss, jnp.mean(pred), jnp.mean(jnp.abs(delta)))


def improve_actor(state: State, hyper: Hyper, batch: Transition, alive: jax.Array) -> tuple[State, jax.Array]:
    """One step of the actor's optimiser, with the critic as it is."""
    slope = actor_gradient(state.actor, state.critic, batch)
    ok = alive & reached_first_layer(slope)
    new, adam = descend(slope, state.actor_adam, state.actor, hyper.actor_lr, ok)
    return state._replace(actor=new, actor_adam=adam), ok


def follow(state: State, hyper: Hyper, alive: jax.Array) -> State:
    """Both targets: θ⁻ ← τ θ + (1 − τ) θ⁻."""
    return state._replace(
        target_actor=soft_update(state.actor, state.target_actor, hyper.tau, alive),
        target_critic=soft_update(state.critic, state.target_critic, hyper.tau, alive),
    )


def update(state: State, hyper: Hyper, batch: Transition, alive: jax.Array, needs: Needs) -> tuple[State, Diagnostics]:
    """Critic, then actor with the critic just updated, then both targets."""
    state, seen = improve_critic(state, hyper, critic_slope(state, hyper, batch, needs), alive)
    state, ok = improve_actor(state, hyper, batch, seen.alive)
    return follow(state, hyper, ok), seen._replace(alive=ok)


PARTS = Parts(
    slope=critic_slope,
    regress=regress,
    critic=improve_critic,
    actor=improve_actor,
    targets=follow,
    target_action=lambda state, observation: actor(state.target_actor, observation),
    target_value=lambda state, observation, action: critic(state.target_critic, observation, action),
)


def reached_first_layer(gradient: Actor | Critic) -> jax.Array:
    """Whether a gradient is finite where it ends: what is not finite on its way reaches the first layer.

    (And as every use of the old weights precedes this flag, XLA writes the new ones in their place.)
    """
    return jnp.isfinite(jnp.sum(gradient.layers[0].bias))


def ddpg(space: Space, hidden: tuple[int, ...], needs: Needs) -> Agent:
    """The agent for a task. ``needs`` says which values the rules of the population read."""

    def explore(
        key: jax.Array, state: State, hyper: Hyper, observation: jax.Array, noise: jax.Array, first: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        noise = ornstein_uhlenbeck(key, noise, first, hyper.noise)
        return space.clip(actor(state.actor, observation[None])[0] + noise), noise

    def random(key: jax.Array) -> jax.Array:
        low, high = jnp.asarray(space.low, jnp.float32), jnp.asarray(space.high, jnp.float32)
        return jax.random.uniform(key, (space.action,), minval=low, maxval=high)

    return Agent(
        init=lambda rng: init(rng, space, hidden),
        init_noise=lambda: jnp.zeros(space.action),
        explore=explore,
        random=random,
        greedy=lambda state, observation: space.clip(actor(state.actor, observation)),
        value=lambda state, observation, action: critic(state.critic, observation, action),
        update=lambda state, hyper, batch, alive: update(state, hyper, batch, alive, needs),
        parts=replace(PARTS, clip=space.clip),
    )
