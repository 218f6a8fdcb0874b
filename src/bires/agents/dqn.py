"""DQN with any critic rule: Mnih et al. (2015), with plain squared errors as in the authors' code.

The rules are those of DDPG; the greedy action of a network takes the place of its actor: ``succ = max Q(s', ·)`` of the
online network, ``succ⁻ = max Q⁻(s', ·)`` of the target network (Double DQN: ``succ⁻ = Q⁻(s', argmax Q(s', ·))``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from bires.agents.base import VALUE_BOUND, Agent, Diagnostics, Hyper
from bires.agents.exploration import epsilon, epsilon_greedy
from bires.agents.networks import Choices, choices, init_choices
from bires.agents.optimisers import OPTIMISERS, clip_norm, hard_update, norm
from bires.rules import Needs, Values
from bires.types import Space, Transition


class State(NamedTuple):
    """The learner."""

    online: Choices
    target: Choices
    optimiser: Any


@dataclass(frozen=True)
class Design:
    """What all members of a population share."""

    space: Space
    hidden: tuple[int, ...]
    optimiser: str
    max_grad_norm: float
    """Gradients of a greater norm are scaled down to it; 0: never."""
    double_q: bool


def init(rng: np.random.Generator, design: Design) -> State:
    """The online network, a target equal to it, a fresh optimiser."""
    online = init_choices(rng, design.space, design.hidden)
    return State(online, jax.tree.map(jnp.copy, online), OPTIMISERS[design.optimiser].init(online))


def pick(q: jax.Array, index: jax.Array) -> jax.Array:
    """Q(s, a) out of Q(s, ·), for a batch."""
    return jnp.take_along_axis(q, index[:, None], axis=1)[:, 0]


def both_ends(params: Choices, space: Space, batch: Transition, pred: bool, succ: bool) -> tuple[jax.Array, jax.Array]:
    """Q(s, ·) and Q(s', ·) of one network, in one pass over the stacked batch; what nobody reads is zero."""
    ends = [batch.observation] * pred + [batch.next_observation] * succ
    if not ends:
        return (jnp.zeros((len(batch.reward), params.layers[-1].bias.size)),) * 2
    found = jnp.split(choices(params, space, jnp.concatenate(ends)), len(ends))
    zero = jnp.zeros_like(found[0])
    return found[0] if pred else zero, found[-1] if succ else zero


def gradient(
    state: State, hyper: Hyper, batch: Transition, needs: Needs, design: Design
) -> tuple[Choices, tuple[Values, jax.Array]]:
    """The paper's update as a gradient (mean over the batch), with the online values and δ_b."""
    space, double_q = design.space, design.double_q
    discount, action = hyper.gamma * batch.discount, batch.action[:, 0].astype(jnp.int32)
    theirs = both_ends(state.target, space, batch, needs.target_pred, needs.target_succ)

    def loss(params: Choices) -> tuple[jax.Array, tuple[Values, Values]]:
        ours = both_ends(params, space, batch, True, needs.online_succ or double_q)
        greedy = jnp.argmax(ours[1], -1)
        online = Values(pick(ours[0], action), pick(ours[1], greedy))
        target = Values(pick(theirs[0], action), pick(theirs[1], greedy if double_q else jnp.argmax(theirs[1], -1)))
        rule = hyper.rule if needs.forward else hyper.rule.without_forward()
        return jnp.mean(rule(online, target, batch.reward, discount, hyper.eta)), (online, target)

    found, (online, target) = jax.grad(loss, has_aux=True)(state.online)
    return found, (online, hyper.rule.backward(online, target, batch.reward, discount))


def update(
    state: State, hyper: Hyper, batch: Transition, alive: jax.Array, needs: Needs, design: Design
) -> tuple[State, Diagnostics]:
    """The online network; then, every so many updates, the target network: θ⁻ ← θ."""
    slope, (online, delta) = gradient(state, hyper, batch, needs, design)
    loss, length = 0.5 * jnp.mean(delta**2), norm(slope)
    largest = jnp.maximum(jnp.max(jnp.abs(online.pred)), jnp.max(jnp.abs(delta)))
    ok = alive & jnp.isfinite(loss) & (largest < VALUE_BOUND) & jnp.isfinite(length)
    if design.max_grad_norm > 0:
        slope = clip_norm(slope, length, design.max_grad_norm)
    moved, optimiser = OPTIMISERS[design.optimiser].descend(slope, state.optimiser, state.online, hyper.critic_lr, ok)
    now = ok & (optimiser.updates % jnp.asarray(hyper.target_every, jnp.int32) == 0)
    new = State(moved, hard_update(moved, state.target, now), optimiser)
    return new, Diagnostics(ok, loss, jnp.mean(online.pred), jnp.mean(jnp.abs(delta)))


def dqn(design: Design, needs: Needs) -> Agent:
    """The agent for a task. ``needs`` says which values the rules of the population read."""
    space, count = design.space, design.space.choices
    assert count is not None

    def explore(
        key: jax.Array, state: State, hyper: Hyper, observation: jax.Array, step: jax.Array, first: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        share = epsilon(step, hyper.epsilon_start, hyper.epsilon_end, hyper.epsilon_steps)
        index = epsilon_greedy(key, choices(state.online, space, observation[None])[0], share)
        return index.astype(jnp.float32)[None], step + 1

    def greedy(state: State, observation: jax.Array) -> jax.Array:
        return jnp.argmax(choices(state.online, space, observation), -1).astype(jnp.float32)[:, None]

    return Agent(
        init=lambda rng: init(rng, design),
        init_noise=lambda: jnp.zeros((), jnp.int32),
        explore=explore,
        random=lambda key: jax.random.randint(key, (1,), 0, count).astype(jnp.float32),
        greedy=greedy,
        value=lambda state, observation, action: pick(
            choices(state.online, space, observation), action[:, 0].astype(jnp.int32)
        ),
        update=lambda state, hyper, batch, alive: update(state, hyper, batch, alive, needs, design),
    )
