"""A complete agent in one file, as a user would write it: twin critics with smoothed targets, and any rule.

Nothing in `src/` knows it. `bires train TASK --algorithm tests.own_agent:twin --algorithm …` finds it by its module.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from bires.agents import optimisers
from bires.agents.activations import ACTIVATION
from bires.agents.base import (
    CRITIC_METRICS,
    VALUE_BOUND,
    Agent,
    AgentSpec,
    Algorithm,
    Design,
    Diagnostics,
    Hyper,
    critic_metrics,
)
from bires.agents.networks import Actor, Critic, actor, critic, init_actor, init_critic
from bires.agents.optimisers import Averages, descend, soft_update
from bires.rules import Values
from bires.types import Setting, Transition


class TwinLearner(NamedTuple):
    """An actor and two critics (stacked), their targets and optimisers."""

    actor: Actor
    critics: Critic
    target_actor: Actor
    target_critics: Critic
    actor_adam: Averages
    critic_adam: Averages


both = jax.vmap(critic, in_axes=(0, None, None))
"""Q of each critic: (2, batch)."""


def make(design: Design) -> Agent:
    space, smoothing = design.space, design.own["smoothing"]
    sizes = (space.observation, space.action, design.hidden)

    def init(rng: np.random.Generator) -> TwinLearner:
        policy = init_actor(rng, *sizes, design.activation)
        pair = [init_critic(rng, *sizes, activation=design.activation) for _ in range(2)]
        critics = jax.tree.map(lambda *leaves: jnp.stack(leaves), *pair)
        targets = [jax.tree.map(jnp.copy, online) for online in (policy, critics)]
        return TwinLearner(policy, critics, targets[0], targets[1], optimisers.init(policy), optimisers.init(critics))

    def update(
        key: jax.Array, state: TwinLearner, hyper: Hyper, batch: Transition, alive: jax.Array
    ) -> tuple[TwinLearner, Diagnostics]:
        noise = jnp.clip(smoothing * jax.random.normal(key, batch.action.shape), -0.5, 0.5)
        following = space.clip(actor(state.target_actor, batch.next_observation) + noise)
        discount = hyper.gamma * batch.discount
        target = Values(
            both(state.target_critics, batch.observation, batch.action),
            jnp.min(both(state.target_critics, batch.next_observation, following), 0),
        )

        def loss(critics: Critic) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
            pred = both(critics, batch.observation, batch.action)
            online = Values(pred, jnp.min(both(critics, batch.next_observation, following), 0))
            delta = hyper.rule.backward(online, target, batch.reward, discount)
            return jnp.mean(hyper.rule(online, target, batch.reward, discount, hyper.eta)), (pred, delta)

        slope, (pred, delta) = jax.grad(loss, has_aux=True)(state.critics)
        seen = critic_metrics(alive, pred, delta)
        ok = alive & jnp.isfinite(seen.metrics["critic_loss"]) & (jnp.max(jnp.abs(pred)) < VALUE_BOUND)
        critics, critic_adam = descend(slope, state.critic_adam, state.critics, hyper.own["critic_lr"], ok)
        first = jax.tree.map(lambda leaf: leaf[0], critics)

        def climb(policy: Actor) -> jax.Array:
            return -jnp.mean(critic(first, batch.observation, actor(policy, batch.observation)))

        policy, actor_adam = descend(
            jax.grad(climb)(state.actor), state.actor_adam, state.actor, hyper.own["actor_lr"], ok
        )
        new = TwinLearner(
            policy,
            critics,
            soft_update(policy, state.target_actor, hyper.own["tau"], ok),
            soft_update(critics, state.target_critics, hyper.own["tau"], ok),
            actor_adam,
            critic_adam,
        )
        gap = jnp.mean(jnp.abs(pred[0] - pred[1]))
        return new, Diagnostics(ok, {**seen.metrics, "twin_gap": gap})

    def explore(key, state, hyper, observation, noise, first):
        drawn = hyper.own["noise"] * jax.random.normal(key, (space.action,))
        return space.clip(actor(state.actor, observation[None])[0] + drawn), noise

    return Agent(
        init=init,
        init_noise=lambda: jnp.zeros(()),
        explore=explore,
        random=lambda key: jax.random.uniform(
            key, (space.action,), minval=jnp.asarray(space.low), maxval=jnp.asarray(space.high)
        ),
        greedy=lambda state, observation: space.clip(actor(state.actor, observation)),
        value=lambda state, observation, action: jnp.min(both(state.critics, observation, action), 0),
        update=update,
    )


SPEC = AgentSpec(
    name="twin",
    actions="continuous",
    settings=(
        Setting("tau", 5e-3, "τ of the target networks.", low=0.0, high=1.0, varies=True),
        Setting("actor_lr", 1e-3, "Learning rate of the actor.", low=0.0, varies=True, rate=True),
        Setting("critic_lr", 1e-3, "Learning rate of the critics.", low=0.0, varies=True, rate=True),
        Setting("noise", 0.1, "σ of the Gaussian exploration noise.", low=0.0, varies=True),
        Setting("smoothing", 0.2, "σ of the noise on target actions.", low=0.0),
        ACTIVATION,
    ),
    run={
        "vector": {
            "steps": 10_000,
            "warmup": 1_000,
            "eval_every": 1_000,
            "batch": 64,
            "replay": 10_000,
            "update_every": 1,
            "hidden": (64, 64),
        }
    },
    algorithms={
        "twin": Algorithm("twin", "td", None, "twin critics with smoothed targets"),
        "bi-res-twin": Algorithm("twin", "bi", None, "the same with the bidirectional target network"),
    },
    baseline="twin",
    make=make,
    metrics=(*CRITIC_METRICS, "twin_gap"),
    layers=2,
)
