"""SAC with any critic rule: Haarnoja et al. (2018), a squashed Gaussian policy and a learned entropy coefficient α.

    backward   δ_b,i = r + γ [min_j Q̄_j(s', a') − α log π(a'|s')] − Q_i(s, a)        a' ~ π(·|s')
    forward    δ_f,i = r + γ [min_j Q_j(s', a') − α log π(a'|s')] − Q̄_i(s, a)

is Bi-Res-SAC; the other rules choose their networks as in `bires.rules`. The critics' gradient does not go through a',
log π or α. The residual forms are ours.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from bires.agents import critics as stacked
from bires.agents import optimisers
from bires.agents.base import (
    CRITIC_METRICS,
    Agent,
    AgentSpec,
    Algorithm,
    Design,
    Diagnostics,
    Hyper,
    Parts,
    Second,
    Slope,
)
from bires.agents.critics import NextAction, NextActions
from bires.agents.networks import Mlp, init_mlp, mlp
from bires.agents.optimisers import Averages, descend, soft_update
from bires.agents.slopes import Trained, improve, reached_first_layer
from bires.rules import Needs
from bires.types import Setting, Transition

LOG_STD_BOUNDS = (-20.0, 2.0)


class SACLearner(NamedTuple):
    """A policy, several critics (stacked) with their targets, log α, and the optimisers."""

    actor: Mlp
    critics: Trained
    target_critics: Mlp
    log_alpha: jax.Array
    actor_adam: Averages
    alpha_adam: Averages


class Sample(NamedTuple):
    """Actions of the policy, and their log-densities."""

    action: jax.Array
    log_prob: jax.Array


def init(rng: np.random.Generator, design: Design) -> SACLearner:
    """Online networks, targets equal to them, α as set, fresh optimisers."""
    space, hidden = design.space, design.hidden
    actor = init_mlp(rng, (space.observation, *hidden, 2 * space.action), activation=design.activation)
    critics = stacked.trained(rng, design)
    log_alpha = jnp.log(jnp.asarray(design.own["alpha"], jnp.float32))
    targets = jax.tree.map(jnp.copy, critics.params)
    return SACLearner(actor, critics, targets, log_alpha, optimisers.init(actor), optimisers.init(log_alpha))


def gaussian(outputs: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Mean and log standard deviation of the Gaussian before it is squashed, out of what the network gives."""
    mean, log_std = jnp.split(outputs, 2, axis=-1)
    return mean, jnp.clip(log_std, *LOG_STD_BOUNDS)


def greedy(actor: Mlp, observation: jax.Array) -> jax.Array:
    """The squashed mean."""
    return jnp.tanh(gaussian(mlp(actor, observation))[0])


def sample(actor: Mlp, key: jax.Array, observation: jax.Array) -> Sample:
    """An action of the policy."""
    return squashed(key, mlp(actor, observation))


def squashed(key: jax.Array, outputs: jax.Array) -> Sample:
    """a = tanh(u), u ~ N(μ, σ²), and log π(a) = Σ [log N(u; μ, σ²) − log(1 − tanh² u)]."""
    mean, log_std = gaussian(outputs)
    noise = jax.random.normal(key, mean.shape)
    u = mean + jnp.exp(log_std) * noise
    log_normal = -0.5 * noise**2 - log_std - 0.5 * jnp.log(2 * jnp.pi)
    log_slope = 2 * (jnp.log(2.0) - u - jax.nn.softplus(-2 * u))  # log(1 − tanh² u), also for large u
    return Sample(jnp.tanh(u), jnp.sum(log_normal - log_slope, -1))


def soft(state: SACLearner, key: jax.Array, observation: jax.Array) -> NextAction:
    """A next action, and −α log π of it."""
    drawn = sample(state.actor, key, observation)
    return NextAction(drawn.action, -jnp.exp(state.log_alpha) * drawn.log_prob)


def critic_slope(
    design: Design,
    key: jax.Array,
    state: SACLearner,
    hyper: Hyper,
    batch: Transition,
    needs: Needs,
    second: Second | None = None,
) -> Slope:
    """The critics' gradient under the rule of ``hyper``: one a' for both networks, and a fresh one for ∇succ if set.

    ``second``: where the forward term takes its gradient; None: in the successors of the batch.
    """
    first, fresh = jax.random.split(key)
    drawn = soft(state, first, batch.next_observation)
    following = NextActions(
        drawn if needs.target_succ else None,
        drawn if needs.online_succ else None,
        stacked.for_gradient(partial(soft, state, fresh), design, hyper, batch, needs, second),
    )
    own = design.own["forward_successor"] == "own"
    online, target = state.critics.params, state.target_critics
    return stacked.rule_slope(online, target, hyper, batch, needs, following, own, state.critics.estimate)


def improve_critics(state: SACLearner, hyper: Hyper, slope: Slope, alive: jax.Array) -> tuple[SACLearner, Diagnostics]:
    """One step of the critics' optimiser; reports α, too."""
    critics, seen = improve(slope, state.critics, hyper.own["critic_lr"], alive)
    told = {**seen.metrics, "alpha": jnp.exp(state.log_alpha)}
    return state._replace(critics=critics), seen._replace(metrics=told)


def improve_actor(
    key: jax.Array, state: SACLearner, hyper: Hyper, batch: Transition, alive: jax.Array
) -> tuple[SACLearner, jax.Array]:
    """One step of the actor, on mean [α log π(a|s) − min_j Q_j(s, a)]; one of log α, on −log α · mean [log π + H]."""
    alpha = jnp.exp(state.log_alpha)

    def loss(actor: Mlp) -> tuple[jax.Array, jax.Array]:
        drawn = sample(actor, key, batch.observation)
        value = stacked.smallest(state.critics.params, batch.observation, drawn.action)
        return jnp.mean(alpha * drawn.log_prob - value), jnp.mean(drawn.log_prob)

    slope, log_prob = jax.grad(loss, has_aux=True)(state.actor)
    ok = alive & reached_first_layer(slope)
    actor, actor_adam = descend(slope, state.actor_adam, state.actor, hyper.own["actor_lr"], ok)
    log_alpha, alpha_adam = improve_alpha(state, hyper, log_prob, batch, ok)
    new = state._replace(actor=actor, actor_adam=actor_adam, log_alpha=log_alpha, alpha_adam=alpha_adam)
    return new, ok


def improve_alpha(
    state: Any, hyper: Hyper, log_prob: jax.Array, batch: Transition, ok: jax.Array
) -> tuple[jax.Array, Averages]:
    """One step of log α, on −log α · (mean log π + H)."""
    wanted = hyper.own["target_entropy"] * batch.action.shape[-1]
    rate = hyper.own["alpha_lr"]
    new: tuple[jax.Array, Averages] = descend(-(log_prob + wanted), state.alpha_adam, state.log_alpha, rate, ok)
    return new


def follow(state: SACLearner, hyper: Hyper, alive: jax.Array) -> SACLearner:
    """The critics' targets: θ⁻ ← τ θ + (1 − τ) θ⁻."""
    return state._replace(
        target_critics=soft_update(state.critics.params, state.target_critics, hyper.own["tau"], alive),
    )


def make_parts(design: Design, key: jax.Array | None) -> Parts:
    """The parts of an update whose random numbers come from ``key``.

    There is none for value expansion: its k-step returns would need an entropy term at every imagined step.
    """
    critic_key, actor_key, action_key = jax.random.split(jax.random.key(0) if key is None else key, 3)
    return Parts(
        slope=partial(critic_slope, design, critic_key),
        regress=None,
        critic=improve_critics,
        actor=lambda state, hyper, batch, alive: improve_actor(actor_key, state, hyper, batch, alive),
        targets=follow,
        target_action=lambda state, observation: sample(state.actor, action_key, observation).action,
        target_value=lambda state, observation, action: stacked.smallest(state.target_critics, observation, action),
        value=lambda state, observation: stacked.smallest(
            state.critics.params, observation, greedy(state.actor, observation)
        ),
        clip=design.space.clip,
    )


def make(design: Design) -> Agent:
    """The agent for a task."""
    space = design.space

    def update(
        key: jax.Array, state: SACLearner, hyper: Hyper, batch: Transition, alive: jax.Array
    ) -> tuple[SACLearner, Diagnostics]:
        critic_key, actor_key, _ = jax.random.split(key, 3)
        slope = critic_slope(design, critic_key, state, hyper, batch, design.needs)
        state, seen = improve_critics(state, hyper, slope, alive)
        state, ok = improve_actor(actor_key, state, hyper, batch, seen.alive)
        return follow(state, hyper, ok), seen._replace(alive=ok)

    def explore(
        key: jax.Array, state: SACLearner, hyper: Hyper, observation: jax.Array, noise: jax.Array, first: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        return space.clip(sample(state.actor, key, observation[None]).action[0]), noise

    return Agent(
        init=lambda rng: init(rng, design),
        init_noise=lambda: jnp.zeros(()),
        explore=explore,
        random=space.uniform,
        greedy=lambda state, observation: space.clip(greedy(state.actor, observation)),
        value=lambda state, observation, action: stacked.smallest(state.critics.params, observation, action),
        update=update,
        parts=partial(make_parts, design),
    )


SETTINGS = (
    Setting(
        "tau",
        5e-3,
        "τ, how much of the online critics the target critics take in at each update.",
        low=0.0,
        high=1.0,
        varies=True,
    ),
    Setting("actor_lr", 3e-4, "Learning rate of the actor.", low=0.0, varies=True, rate=True),
    Setting("critic_lr", 3e-4, "Learning rate of the critics.", low=0.0, varies=True, rate=True),
    Setting(
        "alpha_lr", 3e-4, "Learning rate of the entropy coefficient α; 0: it stays.", low=0.0, varies=True, rate=True
    ),
    Setting("alpha", 1.0, "The entropy coefficient α at the start.", low=1e-8),
    Setting("target_entropy", -1.0, "The entropy that α is learned for, per number of an action.", varies=True),
    *stacked.SETTINGS,
)

ALGORITHMS = {
    "sac": Algorithm("sac", "td", None, "SAC (Haarnoja et al. 2018): stochastic policy, learned entropy coefficient"),
    "res-sac": Algorithm("sac", "res", None, "Baird's residual algorithm in SAC, without target networks"),
    "to-res-sac": Algorithm("sac", "to", None, "residual SAC, target network at the successor"),
    "ot-res-sac": Algorithm("sac", "ot", None, "residual SAC, target network at the predecessor"),
    "tt-res-sac": Algorithm("sac", "tt", None, "residual SAC, target network at both ends"),
    "bi-res-sac": Algorithm("sac", "bi", None, "residual SAC with the bidirectional target network"),
    "dyna-sac": Algorithm("sac", "td", "dyna", "SAC that also learns from imagined transitions, by `td`"),
    "res-dyna-sac": Algorithm("sac", "td", "res-dyna", "Dyna-SAC with residual imagined updates"),
    "double-res-sac": Algorithm("sac", "td", "double-res", "residual SAC with a second successor sample (Baird 1995)"),
    "double-bi-sac": Algorithm("sac", "td", "double-bi", "Bi-Res-SAC with a second successor sample"),
}

SPEC = AgentSpec(
    name="sac",
    actions="continuous",
    values_rewards=False,  # entropy, too
    settings=SETTINGS,
    run={"vector": stacked.RUN},  # SB3's and SBX's
    algorithms=ALGORITHMS,
    baseline="sac",
    make=make,
    metrics=(*CRITIC_METRICS, "alpha"),
)
