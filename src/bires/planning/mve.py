"""Model-based value expansion, TD(k): the critic learns from imagined k-step returns (Feinberg et al. 2018).

From a real transition (s₋₁, a₋₁, r₀, s₀) the target policy is followed for k steps of a model. With the return

    y_t = Σ_{i=t+1..k} γ^{i−t−1} r_i + γ^{k−t} Q⁻(s_k, μ⁻(s_k))

the original loss is the mean of f(Q(s_t, a_t) − y_t) over t = −1 … k−1 with f(x) = ½ x². The paper's keeps the real
transition's one-step loss whole and adds the mean over the k imagined states, with Huber's f:

    f(Q(s₋₁, a₋₁) − r₀ − γ succ⁻) + (1/k) Σ_{t=0..k−1} f(Q(s_t, a_t) − y_t),    succ⁻ as in the rule `td`

Where the real transition is a true end nothing follows it: its target is r₀, and its imagined terms count for nothing.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from bires.agents.base import Hyper, Learner, Parts, Slope
from bires.planning.base import Imagined, PlannerKind, PlannerSpec, Planning, follow
from bires.types import Setting, Transition

SETTINGS = (
    Setting("horizon", 3, "k, the steps that MVE looks ahead.", low=1, high=1000, varies=True),
    Setting(
        "mve_loss",
        "paper",
        "`original`: TD(k)'s, squared; `paper`: its appendix's, with a term for the real transition, Huber.",
        choices=("paper", "original"),
    ),
)


def bootstrapped(parts: Parts, learner: Learner, hyper: Hyper, observation: jax.Array) -> jax.Array:
    """The successor values of the rule `td`."""
    if parts.bootstrap is not None:
        return parts.bootstrap(learner, hyper, observation)
    return parts.target_value(learner, observation, parts.target_action(learner, observation))


def huber(x: jax.Array) -> jax.Array:
    """½ x² near 0, |x| − ½ beyond 1."""
    size = jnp.abs(x)
    return jnp.where(size < 1.0, 0.5 * x**2, size - 0.5)


def square(x: jax.Array) -> jax.Array:
    return 0.5 * x**2


def returns(batch: Transition, rollout: Imagined, last: jax.Array, gamma: jax.Array, horizon: jax.Array) -> jax.Array:
    """y₋₁, y₀, …: (1 + rounds, batch), bootstrapped with ``last`` after the member's own k ≤ rounds steps."""
    value, found = last, []
    for t in reversed(range(rollout.reward.shape[0])):
        value = jnp.where(t < horizon, rollout.reward[t] + gamma * value, value)
        found.append(value)
    found.append(batch.reward + gamma * batch.discount * value)
    return jnp.stack(found[::-1])


def slope(planning: Planning, learner: Learner, hyper: Hyper, batch: Transition, imagined: Imagined) -> Slope:
    """The gradient of the loss above, mean over the batch; pred and δ are the real transition's."""
    assert hyper.planning is not None
    parts, paper = planning.parts, planning.setting("mve_loss") == "paper"
    rollout: Imagined = jax.tree.map(lambda x: x.reshape(len(x), *x.shape[2:]), imagined)  # one from each transition
    k, rounds = jnp.maximum(hyper.planning.numbers["horizon"], 1), rollout.reward.shape[0]
    final = rollout.next_observation[k - 1]
    last = parts.target_value(learner, final, parts.target_action(learner, final))
    target = returns(batch, rollout, last, hyper.gamma, k)
    mine = jnp.arange(rounds) < k
    counted = mine[:, None] * batch.discount
    if paper:
        one_step = bootstrapped(parts, learner, hyper, batch.next_observation)
        target = target.at[0].set(batch.reward + hyper.gamma * batch.discount * one_step)
        weight = jnp.concatenate([jnp.ones_like(batch.reward)[None], counted / k])
    else:
        weight = jnp.concatenate([jnp.ones_like(batch.reward)[None], counted]) / (k + 1)
    # What follows the member's own steps is there for others. It need not be finite, and 0 · ∞ is not 0.
    states = jnp.stack([batch.next_observation, *rollout.next_observation[:-1]])
    states, actions = (jnp.where(mine[:, None, None], x, 0.0) for x in (states, rollout.action))
    observation = jnp.concatenate([batch.observation, *states])
    action = jnp.concatenate([batch.action, *actions])

    def loss(values: jax.Array) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
        delta = target - values.reshape(target.shape)
        error = huber(delta) if paper else square(delta)
        return jnp.mean(jnp.sum(weight * error, axis=0)), (values[: len(batch.reward)], delta[0])

    assert parts.regress is not None  # a population's planners are checked before it is compiled
    return parts.regress(learner, observation, action, loss)


KIND = PlannerKind(
    name="mve",
    start="after",
    size=lambda numbers: (1, numbers["horizon"]),
    first=lambda parts, key, learner, hyper, batch, width: follow(parts, learner, batch.next_observation)[None],
    slope=slope,
    regresses=True,
)

PLANNERS = (
    PlannerSpec(
        "mve", KIND, None, ("horizon",), "model-based value expansion: the critic learns from imagined k-step returns"
    ),
)
