"""DQN with any critic rule: Mnih et al. (2015), with plain squared errors as in the authors' code.

The rules are those of DDPG; the greedy action of a network takes the place of its actor: ``succ = max Q(s', ·)`` of the
online network, ``succ⁻ = max Q⁻(s', ·)`` of the target network (Double DQN: ``succ⁻ = Q⁻(s', argmax Q(s', ·))``).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from bires.agents.activations import ACTIVATION
from bires.agents.base import Agent, AgentSpec, Algorithm, Design, Diagnostics, Hyper, Slope
from bires.agents.exploration import epsilon, epsilon_greedy
from bires.agents.networks import Choices, choices, init_choices
from bires.agents.optimisers import OPTIMISERS, hard_update
from bires.agents.slopes import Estimating, Trained, improve, rule_slope, with_estimate
from bires.rules import Ahead, Values
from bires.types import Setting, Space, Transition


class DQNLearner(NamedTuple):
    """The network, its target and the optimiser."""

    online: Choices
    target: Choices
    optimiser: Any
    estimate: Choices | None = None
    """Of the network's error, where a rule reads one."""
    estimate_optimiser: Any = None


def init(rng: np.random.Generator, design: Design) -> DQNLearner:
    """The online network, a target equal to it, a fresh optimiser."""
    network = with_estimate(
        lambda: init_choices(rng, design.space, design.hidden, design.activation), design.needs.estimated
    )
    return DQNLearner(network.params, jax.tree.map(jnp.copy, network.params), *network[1:])


def pick(q: jax.Array, index: jax.Array) -> jax.Array:
    """Q(s, a) out of Q(s, ·), for a batch."""
    return jnp.take_along_axis(q, index[:, None], axis=1)[:, 0]


def both_ends(params: Choices, space: Space, batch: Transition, pred: bool, succ: bool) -> tuple[jax.Array, jax.Array]:
    """Q(s, ·) and Q(s', ·) of one network, in one pass over the stacked batch; values that no rule reads are zero."""
    ends = [batch.observation] * pred + [batch.next_observation] * succ
    if not ends:
        return (jnp.zeros((len(batch.reward), params.layers[-1].bias.size)),) * 2
    found = jnp.split(choices(params, space, jnp.concatenate(ends)), len(ends))
    zero = jnp.zeros_like(found[0])
    return found[0] if pred else zero, found[-1] if succ else zero


def gradient(state: DQNLearner, hyper: Hyper, batch: Transition, design: Design) -> Slope:
    """The rule's update as a gradient (mean over the batch), with the online values and δ_b."""
    space, needs, double_q = design.space, design.needs, design.own["double_q"]
    action = batch.action[:, 0].astype(jnp.int32)
    theirs = both_ends(state.target, space, batch, needs.target_pred, needs.target_succ)

    def ends(params: Choices) -> tuple[Values, Values, Ahead | None]:
        ours = both_ends(params, space, batch, True, needs.online_succ or double_q)
        greedy = jnp.argmax(ours[1], -1)
        online = Values(pick(ours[0], action), pick(ours[1], greedy))
        target = Values(pick(theirs[0], action), pick(theirs[1], greedy if double_q else jnp.argmax(theirs[1], -1)))
        if not needs.cautious:
            return online, target, None
        least = jnp.max(jnp.minimum(ours[1], theirs[1]), -1)
        return online, target, Ahead(online, target, online.succ, least=least)

    def estimated(params: Choices) -> jax.Array:
        return pick(choices(params, space, batch.observation), action)

    estimating = None if state.estimate is None else Estimating(state.estimate, estimated)
    return rule_slope(ends, state.online, hyper, batch, needs, estimating)


def update(
    state: DQNLearner, hyper: Hyper, batch: Transition, alive: jax.Array, design: Design
) -> tuple[DQNLearner, Diagnostics]:
    """The online network; then, every so many updates, the target network: θ⁻ ← θ."""
    slope = gradient(state, hyper, batch, design)
    step, bound = OPTIMISERS[design.own["optimiser"]], design.own["max_grad_norm"]
    network = Trained(state.online, state.optimiser, state.estimate, state.estimate_optimiser)
    network, seen = improve(slope, network, hyper.own["critic_lr"], alive, step, bound)
    now = seen.alive & (network.adam.updates % jnp.asarray(hyper.own["target_every"], jnp.int32) == 0)
    target = hard_update(network.params, state.target, now)
    return DQNLearner(network.params, target, *network[1:]), seen


def make(design: Design) -> Agent:
    """The agent for a task."""
    space, count = design.space, design.space.choices
    assert count is not None

    def explore(
        key: jax.Array, state: DQNLearner, hyper: Hyper, observation: jax.Array, step: jax.Array, first: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        share = epsilon(step, hyper.own["epsilon_start"], hyper.own["epsilon_end"], hyper.own["epsilon_steps"])
        index = epsilon_greedy(key, choices(state.online, space, observation[None])[0], share)
        return index.astype(jnp.float32)[None], step + 1

    def greedy(state: DQNLearner, observation: jax.Array) -> jax.Array:
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
        update=lambda key, state, hyper, batch, alive: update(state, hyper, batch, alive, design),
    )


SETTINGS = (
    Setting("critic_lr", {"vector": 1e-3, "pixels": 2.5e-4}, "Learning rate.", low=0.0, varies=True, rate=True),
    Setting(
        "epsilon_start",
        1.0,
        "ε, the share of random actions, at the first step after the warm-up.",
        low=0.0,
        high=1.0,
        varies=True,
        hint="a share of all actions",
    ),
    Setting(
        "epsilon_end",
        {"vector": 0.05, "pixels": 0.01},
        "ε at the end of its linear fall, and from then on.",
        low=0.0,
        high=1.0,
        varies=True,
        hint="a share of all actions",
    ),
    Setting("epsilon_steps", {"vector": 10_000.0, "pixels": 1e6}, "Steps in which ε falls.", low=0.0, varies=True),
    Setting(
        "target_every",
        {"vector": 50, "pixels": 10_000},
        "Updates between copies of the network to its target network.",
        low=1,
        high=2**24,  # whole numbers up to this are exact in float32
        varies=True,
    ),
    Setting(
        "optimiser",
        {"vector": "adam", "pixels": "rmsprop"},
        "`adam`, or `rmsprop` (centred, as in the authors' code for Atari).",
        choices=tuple(OPTIMISERS),
    ),
    Setting(
        "max_grad_norm",
        {"vector": 10.0, "pixels": 5.0},
        "Gradients are scaled down to this norm; 0: never.",
        low=0.0,
    ),
    Setting("double_q", False, "Double DQN: the online network chooses the action that the target network values."),
    ACTIVATION,
)

ALGORITHMS = {
    "dqn": Algorithm("dqn", "td", None, "DQN (Mnih et al. 2015) for discrete actions; --double-q makes it Double DQN"),
    "res-dqn": Algorithm("dqn", "res", None, "Baird's residual algorithm in DQN, without a target network"),
    "to-res-dqn": Algorithm("dqn", "to", None, "residual DQN, target network at the successor"),
    "ot-res-dqn": Algorithm("dqn", "ot", None, "residual DQN, target network at the predecessor"),
    "tt-res-dqn": Algorithm("dqn", "tt", None, "residual DQN, target network at both ends"),
    "bi-res-dqn": Algorithm("dqn", "bi", None, "residual DQN with the bidirectional target network (the paper's)"),
}

SPEC = AgentSpec(
    name="dqn",
    actions="discrete",
    settings=SETTINGS,
    run={
        "vector": {  # ours
            "steps": 100_000,
            "warmup": 1_000,
            "eval_every": 5_000,
            "batch": 128,
            "replay": 100_000,
            "update_every": 2,
            "hidden": (256, 256),
        },
        "pixels": {  # those of the authors' code
            "steps": 20_000_000,
            "warmup": 50_000,
            "eval_every": 250_000,
            "batch": 32,
            "replay": 1_000_000,
            "update_every": 4,
            "hidden": (512,),
        },
    },
    algorithms=ALGORITHMS,
    baseline="dqn",
    make=make,
)
