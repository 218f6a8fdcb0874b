"""TD3 with any critic rule: Fujimoto et al. (2018), twin critics, smoothed target actions, a delayed actor.

    backward   δ_b,i = r + γ min_j Q̄_j(s', ã') − Q_i(s, a)        ã' = clip(μ̄(s') + clip(ε, −c, c)),  ε ~ N(0, σ²)
    forward    δ_f,i = r + γ min_j Q_j(s', a') − Q̄_i(s, a)        a' = clip(μ(s') + clip(ε, −c, c))

is Bi-Res-TD3; the other rules choose their networks as in `bires.rules`. The residual forms are ours.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from bires.agents import critics as stacked
from bires.agents import optimisers
from bires.agents.base import Agent, AgentSpec, Algorithm, Design, Diagnostics, Hyper, Parts, Regression, Second, Slope
from bires.agents.critics import NextAction, NextActions
from bires.agents.networks import Mlp, init_mlp, mlp
from bires.agents.optimisers import Averages, descend, soft_update
from bires.agents.slopes import Trained, improve, reached_first_layer
from bires.rules import Needs, compares
from bires.types import Setting, Transition


class TD3Learner(NamedTuple):
    """An actor and several critics (stacked), their targets and optimisers."""

    actor: Mlp
    critics: Trained
    target_actor: Mlp
    target_critics: Mlp
    actor_adam: Averages


def init(rng: np.random.Generator, design: Design) -> TD3Learner:
    """Online networks, targets equal to them, fresh optimisers."""
    space, hidden = design.space, design.hidden
    actor = init_mlp(rng, (space.observation, *hidden, space.action), activation=design.activation)
    critics = stacked.trained(rng, design)
    target_actor, target_critics = (jax.tree.map(jnp.copy, online) for online in (actor, critics.params))
    return TD3Learner(actor, critics, target_actor, target_critics, optimisers.init(actor))


def policy(params: Mlp, observation: jax.Array) -> jax.Array:
    """μ(s) for a batch, in [−1, 1]."""
    return jnp.tanh(mlp(params, observation))


def smoothed(design: Design, key: jax.Array, hyper: Hyper, params: Mlp, observation: jax.Array) -> NextAction:
    """The policy's action with clipped noise, within the bounds of the task."""
    action, bound = policy(params, observation), hyper.own["smoothing_clip"]
    noise = hyper.own["smoothing"] * jax.random.normal(key, action.shape)
    return NextAction(design.space.clip(action + jnp.clip(noise, -bound, bound)))


def critic_slope(
    design: Design,
    key: jax.Array,
    state: TD3Learner,
    hyper: Hyper,
    batch: Transition,
    needs: Needs,
    second: Second | None = None,
) -> Slope:
    """The critics' gradient under the rule of ``hyper``; target, online and fresh next actions have their own noise.

    Rules that compare the two networks (`convergent`, `minto`) have the same noise for both: equal networks are equal.

    ``second``: where the forward term takes its gradient; None: in the successors of the batch.
    """
    target, online, fresh = jax.random.split(key, 3)
    if needs.cautious or needs.convergent:
        online = jnp.where(compares(hyper.rule), target, online)
    draw, seen = partial(smoothed, design), batch.next_observation
    following = NextActions(
        draw(target, hyper, state.target_actor, seen) if needs.target_succ else None,
        draw(online, hyper, state.actor, seen) if needs.online_succ else None,
        stacked.for_gradient(partial(draw, fresh, hyper, state.actor), design, hyper, batch, needs, second),
    )
    own = design.own["forward_successor"] == "own"
    online, target = state.critics.params, state.target_critics
    return stacked.rule_slope(online, target, hyper, batch, needs, following, own, state.critics.estimate)


def improve_critics(state: TD3Learner, hyper: Hyper, slope: Slope, alive: jax.Array) -> tuple[TD3Learner, Diagnostics]:
    """One step of the critics' optimiser."""
    critics, seen = improve(slope, state.critics, hyper.own["critic_lr"], alive)
    return state._replace(critics=critics), seen


def improve_actor(state: TD3Learner, hyper: Hyper, batch: Transition, alive: jax.Array) -> tuple[TD3Learner, jax.Array]:
    """One step of the actor's optimiser, on −mean Q_1(s, μ(s))."""
    first = jax.tree.map(lambda leaf: leaf[:1], state.critics.params)

    def loss(actor: Mlp) -> jax.Array:
        return -jnp.mean(stacked.smallest(first, batch.observation, policy(actor, batch.observation)))

    slope = jax.grad(loss)(state.actor)
    ok = alive & reached_first_layer(slope)
    actor, adam = descend(slope, state.actor_adam, state.actor, hyper.own["actor_lr"], ok)
    return state._replace(actor=actor, actor_adam=adam), ok


def follow(state: TD3Learner, hyper: Hyper, alive: jax.Array) -> TD3Learner:
    """All targets: θ⁻ ← τ θ + (1 − τ) θ⁻."""
    return state._replace(
        target_actor=soft_update(state.actor, state.target_actor, hyper.own["tau"], alive),
        target_critics=soft_update(state.critics.params, state.target_critics, hyper.own["tau"], alive),
    )


def make_parts(design: Design, key: jax.Array | None) -> Parts:
    """The parts of an update whose noise comes from ``key``."""
    noise = jax.random.key(0) if key is None else key

    def regress(state: TD3Learner, observation: jax.Array, action: jax.Array, loss: Regression) -> Slope:
        return stacked.regress(state.critics.params, observation, action, loss)

    return Parts(
        slope=partial(critic_slope, design, noise),
        regress=regress,
        critic=improve_critics,
        actor=improve_actor,
        targets=follow,
        target_action=lambda state, observation: policy(state.target_actor, observation),
        target_value=lambda state, observation, action: stacked.smallest(state.target_critics, observation, action),
        bootstrap=lambda state, hyper, observation: stacked.smallest(
            state.target_critics,
            observation,
            smoothed(design, jax.random.split(noise, 3)[0], hyper, state.target_actor, observation).action,
        ),
        value=lambda state, observation: stacked.smallest(
            state.critics.params, observation, policy(state.actor, observation)
        ),
        clip=design.space.clip,
    )


def make(design: Design) -> Agent:
    """The agent for a task."""
    space = design.space

    def update(
        key: jax.Array, state: TD3Learner, hyper: Hyper, batch: Transition, alive: jax.Array
    ) -> tuple[TD3Learner, Diagnostics]:
        return improve_critics(state, hyper, critic_slope(design, key, state, hyper, batch, design.needs), alive)

    def delayed(
        key: jax.Array, state: TD3Learner, hyper: Hyper, batch: Transition, alive: jax.Array
    ) -> tuple[TD3Learner, jax.Array]:
        state, ok = improve_actor(state, hyper, batch, alive)
        return follow(state, hyper, ok), ok

    def explore(
        key: jax.Array, state: TD3Learner, hyper: Hyper, observation: jax.Array, noise: jax.Array, first: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        drawn = hyper.own["noise"] * jax.random.normal(key, (space.action,))
        return space.clip(policy(state.actor, observation[None])[0] + drawn), noise

    return Agent(
        init=lambda rng: init(rng, design),
        init_noise=lambda: jnp.zeros(()),
        explore=explore,
        random=space.uniform,
        greedy=lambda state, observation: space.clip(policy(state.actor, observation)),
        value=lambda state, observation, action: stacked.smallest(state.critics.params, observation, action),
        update=update,
        delayed=delayed,
        delay=design.own["policy_delay"],
        parts=partial(make_parts, design),
    )


SETTINGS = (
    Setting(
        "tau",
        5e-3,
        "τ, how much of the online networks the target networks take in at each update.",
        low=0.0,
        high=1.0,
        varies=True,
    ),
    Setting("actor_lr", 3e-4, "Learning rate of the actor.", low=0.0, varies=True, rate=True),
    Setting("critic_lr", 3e-4, "Learning rate of the critics.", low=0.0, varies=True, rate=True),
    Setting("noise", 0.1, "σ of the Gaussian exploration noise.", low=0.0, varies=True),
    Setting("smoothing", 0.2, "σ of the noise on next actions.", low=0.0, varies=True),
    Setting("smoothing_clip", 0.5, "Noise on next actions is clipped to ± this.", low=0.0, varies=True),
    Setting("policy_delay", 2, "Updates of the critics for each of the actor and the targets.", low=1, high=2**31 - 1),
    *stacked.SETTINGS,
)

ALGORITHMS = {
    "td3": Algorithm("td3", "td", None, "TD3 (Fujimoto et al. 2018): twin critics, smoothed targets, delayed actor"),
    "res-td3": Algorithm("td3", "res", None, "Baird's residual algorithm in TD3, without target networks"),
    "to-res-td3": Algorithm("td3", "to", None, "residual TD3, target network at the successor"),
    "ot-res-td3": Algorithm("td3", "ot", None, "residual TD3, target network at the predecessor"),
    "tt-res-td3": Algorithm("td3", "tt", None, "residual TD3, target network at both ends"),
    "bi-res-td3": Algorithm("td3", "bi", None, "residual TD3 with the bidirectional target network"),
    "dyna-td3": Algorithm("td3", "td", "dyna", "TD3 that also learns from imagined transitions, by `td`"),
    "res-dyna-td3": Algorithm("td3", "td", "res-dyna", "Dyna-TD3 with residual imagined updates"),
    "double-res-td3": Algorithm("td3", "td", "double-res", "residual TD3 with a second successor sample (Baird 1995)"),
    "double-bi-td3": Algorithm("td3", "td", "double-bi", "Bi-Res-TD3 with a second successor sample"),
    "mve-td3": Algorithm("td3", "td", "mve", "TD3 with model-based value expansion, TD(k)"),
}

SPEC = AgentSpec(
    name="td3",
    actions="continuous",
    settings=SETTINGS,
    run={"vector": stacked.RUN},  # SBX's, which are the authors' but for the warm-up
    algorithms=ALGORITHMS,
    baseline="td3",
    make=make,
)
