"""DDPG with any critic rule: Lillicrap et al. (2015) without batch normalisation, as in the paper."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from bires.agents import optimisers
from bires.agents.activations import ACTIVATION, RELU, Activation
from bires.agents.base import Agent, AgentSpec, Algorithm, Design, Diagnostics, Hyper, Parts, Regression, Second, Slope
from bires.agents.exploration import ornstein_uhlenbeck
from bires.agents.networks import Actor, Critic, actor, critic, init_actor, init_critic
from bires.agents.optimisers import Averages, descend, soft_update
from bires.agents.slopes import Estimating, Trained, improve, reached_first_layer, rule_slope, with_estimate
from bires.rules import Ahead, Needs, Values
from bires.types import Setting, Space, Transition


class DDPGLearner(NamedTuple):
    """Networks, targets and optimisers."""

    actor: Actor
    critic: Critic
    target_actor: Actor
    target_critic: Critic
    actor_adam: Averages
    critic_adam: Averages
    estimate: Critic | None = None
    """Of the critic's error, where a rule reads one."""
    estimate_adam: Averages | None = None

    @property
    def trained(self) -> Trained:
        return Trained(self.critic, self.critic_adam, self.estimate, self.estimate_adam)


def init(
    rng: np.random.Generator,
    space: Space,
    hidden: tuple[int, ...],
    layer_norm: bool = False,
    estimated: bool = False,
    activation: Activation = RELU,
) -> DDPGLearner:
    """Online networks, targets equal to them, fresh optimisers; an estimate of the critic's error where it is read."""
    sizes = (space.observation, space.action, hidden)
    online_actor = init_actor(rng, *sizes, activation)
    made = with_estimate(lambda: init_critic(rng, *sizes, layer_norm, activation), estimated)
    return DDPGLearner(
        online_actor,
        made.params,
        jax.tree.map(jnp.copy, online_actor),
        jax.tree.map(jnp.copy, made.params),
        optimisers.init(online_actor),
        made.adam,
        made.estimate,
        made.estimate_adam,
    )


def both_ends(params: Critic, batch: Transition, next_action: Any, pred: bool, succ: bool) -> Values:
    """Q(s, a) and Q(s', a') of one network, in one pass over the stacked batch; values that no rule reads are zero."""
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


def critic_slope(
    state: DDPGLearner, hyper: Hyper, batch: Transition, needs: Needs, second: Second | None = None
) -> Slope:
    """The paper's critic update as a gradient (mean over the batch), with the online values and δ_b.

    ``second``: where the forward term takes its gradient; None: in the successors of the batch.
    """
    target_action = actor(state.target_actor, batch.next_observation) if needs.target_succ else None
    target = both_ends(state.target_critic, batch, target_action, needs.target_pred, needs.target_succ)
    online_action = actor(state.actor, batch.next_observation) if needs.online_succ else None

    def ends(params: Critic) -> tuple[Values, Values, Ahead | None]:
        online = both_ends(params, batch, online_action, True, needs.online_succ)
        if second is None:
            return online, target, None
        seen, discount = second.observation, hyper.gamma * second.discount
        return online, target, Ahead(online, target, critic(params, seen, actor(state.actor, seen)), discount=discount)

    estimating = None
    if state.estimate is not None:
        estimating = Estimating(state.estimate, lambda params: critic(params, batch.observation, batch.action))
    return rule_slope(ends, state.critic, hyper, batch, needs, estimating)


def regress(state: DDPGLearner, observation: jax.Array, action: jax.Array, loss: Regression) -> Slope:
    """The gradient of any loss of Q's values at some points."""
    gradient, seen = jax.grad(lambda params: loss(critic(params, observation, action)), has_aux=True)(state.critic)
    return Slope(gradient, *seen)


def actor_gradient(params: Actor, critic_params: Critic, batch: Transition) -> Actor:
    """∇ of −mean Q(s, μ(s)) in the actor's parameters."""

    def loss(params: Actor) -> jax.Array:
        return -jnp.mean(critic(critic_params, batch.observation, actor(params, batch.observation)))

    gradient: Actor = jax.grad(loss)(params)
    return gradient


def improve_critic(state: DDPGLearner, hyper: Hyper, slope: Slope, alive: jax.Array) -> tuple[DDPGLearner, Diagnostics]:
    """One step of the critic's optimiser, unless something is not finite."""
    new, seen = improve(slope, state.trained, hyper.own["critic_lr"], alive)
    return state._replace(
        critic=new.params, critic_adam=new.adam, estimate=new.estimate, estimate_adam=new.estimate_adam
    ), seen


def improve_actor(
    state: DDPGLearner, hyper: Hyper, batch: Transition, alive: jax.Array
) -> tuple[DDPGLearner, jax.Array]:
    """One step of the actor's optimiser, with the critic as it is."""
    slope = actor_gradient(state.actor, state.critic, batch)
    ok = alive & reached_first_layer(slope)
    new, adam = descend(slope, state.actor_adam, state.actor, hyper.own["actor_lr"], ok)
    return state._replace(actor=new, actor_adam=adam), ok


def follow(state: DDPGLearner, hyper: Hyper, alive: jax.Array) -> DDPGLearner:
    """Both targets: θ⁻ ← τ θ + (1 − τ) θ⁻."""
    return state._replace(
        target_actor=soft_update(state.actor, state.target_actor, hyper.own["tau"], alive),
        target_critic=soft_update(state.critic, state.target_critic, hyper.own["tau"], alive),
    )


def update(
    state: DDPGLearner, hyper: Hyper, batch: Transition, alive: jax.Array, needs: Needs
) -> tuple[DDPGLearner, Diagnostics]:
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
    value=lambda state, observation: critic(state.critic, observation, actor(state.actor, observation)),
)


def make(design: Design) -> Agent:
    """The agent for a task."""
    space, needs, layer_norm = design.space, design.needs, design.own.get("layer_norm", False)

    def explore(
        key: jax.Array, state: DDPGLearner, hyper: Hyper, observation: jax.Array, noise: jax.Array, first: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        noise = ornstein_uhlenbeck(key, noise, first, hyper.own["noise"])
        return space.clip(actor(state.actor, observation[None])[0] + noise), noise

    return Agent(
        init=lambda rng: init(rng, space, design.hidden, layer_norm, needs.estimated, design.activation),
        init_noise=lambda: jnp.zeros(space.action),
        explore=explore,
        random=space.uniform,
        greedy=lambda state, observation: space.clip(actor(state.actor, observation)),
        value=lambda state, observation, action: critic(state.critic, observation, action),
        update=lambda key, state, hyper, batch, alive: update(state, hyper, batch, alive, needs),
        parts=lambda key: replace(PARTS, clip=space.clip),
    )


SETTINGS = (
    Setting(
        "tau",
        1e-3,
        "τ, how much of the online networks the target networks take in at each update.",
        low=0.0,
        high=1.0,
        varies=True,
        hint="the paper uses 1e-3",
    ),
    Setting("actor_lr", 1e-4, "Learning rate of the actor.", low=0.0, varies=True, rate=True),
    Setting("critic_lr", 1e-3, "Learning rate of the critic.", low=0.0, varies=True, rate=True),
    Setting("noise", 0.2, "σ of the Ornstein–Uhlenbeck exploration noise.", low=0.0, varies=True),
    Setting("layer_norm", False, "Layer normalisation in the hidden layers of the critic."),
    ACTIVATION,
)

ALGORITHMS = {
    "ddpg": Algorithm("ddpg", "td", None, "DDPG (Lillicrap et al. 2015): semi-gradient critic with target networks"),
    "res-ddpg": Algorithm("ddpg", "res", None, "Baird's residual algorithm in DDPG, without target networks"),
    "to-res-ddpg": Algorithm("ddpg", "to", None, "residual DDPG, target network at the successor"),
    "ot-res-ddpg": Algorithm("ddpg", "ot", None, "residual DDPG, target network at the predecessor"),
    "tt-res-ddpg": Algorithm("ddpg", "tt", None, "residual DDPG, target network at both ends"),
    "bi-res-ddpg": Algorithm("ddpg", "bi", None, "residual DDPG with the bidirectional target network (the paper's)"),
    "dyna-ddpg": Algorithm("ddpg", "td", "dyna", "DDPG that also learns from imagined transitions, by `td`"),
    "res-dyna-ddpg": Algorithm("ddpg", "td", "res-dyna", "Dyna-DDPG with residual imagined updates (the paper's)"),
    "double-res-ddpg": Algorithm(
        "ddpg", "td", "double-res", "residual DDPG with a second successor sample (Baird 1995)"
    ),
    "double-bi-ddpg": Algorithm("ddpg", "td", "double-bi", "Bi-Res-DDPG with a second successor sample"),
    "mve-ddpg": Algorithm("ddpg", "td", "mve", "DDPG with model-based value expansion, TD(k) (Feinberg et al. 2018)"),
}

SPEC = AgentSpec(
    name="ddpg",
    actions="continuous",
    settings=SETTINGS,
    run={
        "vector": {  # the paper's, and its authors' code's
            "steps": 1_000_000,
            "warmup": 10_000,
            "eval_every": 10_000,
            "batch": 64,
            "replay": 1_000_000,
            "update_every": 1,
            "hidden": (400, 300),
        }
    },
    algorithms=ALGORITHMS,
    baseline="ddpg",
    make=make,
    layers=2,  # the action enters at the second one
)
