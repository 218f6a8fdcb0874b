"""Several critics in one stacked pass, with any rule: what TD3 and SAC share.

The agents say what the next actions are; here the values of both ends are made of them. With critics Q_i, targets Q̄_i
and a next action a',

    pred_i = Q_i(s, a),    succ = min_j Q_j(s', a') + bonus          (the bonus is SAC's −α log π(a'|s'), else 0)

and every critic i takes the rule's step; the losses are summed. The gradient of ``succ`` enters the smaller critic.
Variants of the forward term: ``own``, in which critic i reads its own Q_i(s', a') in place of the minimum, and a fresh
next action for ∇succ, drawn apart from the one in δ_f. (A drawn a' that is the same in both adds the gradient of
½ γ² Var[Q(s', a')], which flattens Q over actions.)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from bires.agents import slopes
from bires.agents.activations import ACTIVATION
from bires.agents.base import Design, Hyper, Regression, Second, Slope
from bires.agents.networks import Mlp, init_mlp, mlp
from bires.agents.slopes import Estimating, Trained, with_estimate
from bires.rules import Ahead, Needs, Values
from bires.types import Setting, Transition

SETTINGS = (
    Setting("critics", 2, "Number of critics; the smallest of their values counts.", low=1),
    Setting("layer_norm", False, "Layer normalisation in the hidden layers of the critics."),
    ACTIVATION,
    Setting(
        "forward_successor",
        "min",
        "The successor value of the forward term: the `min` of all critics, or each critic's `own`.",
        choices=("min", "own"),
    ),
    Setting(
        "fresh_action",
        False,
        "Draw the next action anew for the gradient of the successor, apart from the one in the error.",
    ),
)


RUN: dict[str, Any] = {
    "steps": 1_000_000,
    "warmup": 100,
    "eval_every": 10_000,
    "batch": 256,
    "replay": 1_000_000,
    "update_every": 1,
    "hidden": (256, 256),
}
"""Defaults of the run's settings: those of SB3 and SBX."""


class NextAction(NamedTuple):
    """A next action, and what is added to its value."""

    action: jax.Array
    bonus: jax.Array | float = 0.0
    observation: jax.Array | None = None
    """Where it is taken; None: in the successors of the batch."""
    discount: jax.Array | None = None
    """Of the transition there; None: the batch's."""


class NextActions(NamedTuple):
    """The next actions of a batch; None where no rule reads the value."""

    target: NextAction | None
    """For the target networks."""
    online: NextAction | None
    """For the online networks."""
    fresh: NextAction | None = None
    """For ∇succ; None: the same as ``online``."""


def for_gradient(
    draw: Callable[[jax.Array], NextAction],
    design: Design,
    hyper: Hyper,
    batch: Transition,
    needs: Needs,
    second: Second | None,
) -> NextAction | None:
    """Actions for ∇succ, which ``draw`` makes anew: in second successors, or if the design wants fresh ones."""
    if not needs.forward or not (design.own["fresh_action"] or second is not None):
        return None
    if second is None:
        return draw(batch.next_observation)
    discount = hyper.gamma * second.discount
    return draw(second.observation)._replace(observation=second.observation, discount=discount)


def trained(rng: np.random.Generator, design: Design) -> Trained:
    """The critics of a design, stacked, with fresh optimisers; and an estimate of their errors if a rule reads one."""
    space, count, layer_norm = design.space, design.own["critics"], design.own["layer_norm"]
    sizes = (space.observation + space.action, *design.hidden, 1)

    def several() -> Mlp:
        made: Mlp = jax.tree.map(
            lambda *leaves: jnp.stack(leaves),
            *(init_mlp(rng, sizes, layer_norm, design.activation) for _ in range(count)),
        )
        return made

    return with_estimate(several, design.needs.estimated)


Network = Callable[[Any, jax.Array], jax.Array]
"""Stacked parameters, inputs (batch) → outputs: (critics, batch, 1)."""

plain: Network = jax.vmap(mlp, in_axes=(0, None))


def values(critics: Any, observation: jax.Array, action: jax.Array, network: Network = plain) -> jax.Array:
    """Q of every critic: (critics, batch)."""
    return network(critics, jnp.concatenate([observation, action], -1))[..., 0]


def smallest(critics: Mlp, observation: jax.Array, action: jax.Array) -> jax.Array:
    """min_j Q_j: (batch,)."""
    return jnp.min(values(critics, observation, action), 0)


def many(critics: Any, pairs: list[tuple[jax.Array, jax.Array] | None], network: Network = plain) -> list[Any]:
    """Q at several (observations, actions), in one pass over the stacked batch; 0 for None."""
    asked = [pair for pair in pairs if pair is not None]
    if not asked:
        return [0.0] * len(pairs)
    observation, action = (jnp.concatenate(column) for column in zip(*asked, strict=True))
    whole = values(critics, observation, action, network)
    found = iter(jnp.split(whole, len(asked), axis=1))
    return [0.0 if pair is None else next(found) for pair in pairs]


def rule_slope(
    critics: Any,
    targets: Any,
    hyper: Hyper,
    batch: Transition,
    needs: Needs,
    following: NextActions,
    own: bool,
    estimate: Mlp | None = None,
    network: Network = plain,
) -> Slope:
    """The rule's update as a gradient: the mean over the batch, summed over the critics; pred and δ_b of each critic.

    ``own``: the forward term reads each critic's own successor value. ``estimate``: of each critic's error.
    ``network``: how critics and targets give values.
    """
    here = (batch.observation, batch.action)

    def at(found: NextAction | None) -> tuple[jax.Array, jax.Array] | None:
        if found is None:
            return None
        return (batch.next_observation if found.observation is None else found.observation), found.action

    def values_of(pred: Any, succ: Any, found: NextAction | None) -> tuple[Values, Values]:
        """The values of the backward term, and of the forward term."""
        if found is None:
            zero = jnp.zeros_like(batch.reward)
            return Values(pred, zero), Values(pred, zero)
        least = Values(pred, jnp.min(succ, 0) + found.bonus)
        return least, Values(pred, succ + found.bonus) if own else least

    pred, succ = many(targets, [here if needs.target_pred else None, at(following.target)], network)
    target, target_ahead = values_of(jnp.asarray(pred), succ, following.target)

    def ends(critics: Any) -> tuple[Values, Values, Ahead]:
        pred, succ, fresh = many(critics, [here, at(following.online), at(following.fresh)], network)
        online, online_ahead = values_of(pred, succ, following.online)
        if following.fresh is None:
            return online, target, Ahead(online_ahead, target_ahead, online_ahead.succ)
        again = values_of(pred, fresh, following.fresh)[1]
        return online, target, Ahead(online_ahead, target_ahead, again.succ, discount=following.fresh.discount)

    estimating = None if estimate is None else Estimating(estimate, lambda params: values(params, *here))
    return slopes.rule_slope(ends, critics, hyper, batch, needs, estimating)


def regress(critics: Mlp, observation: jax.Array, action: jax.Array, loss: Regression) -> Slope:
    """The gradient of any loss of Q's values at some points, summed over the critics."""

    def total(critics: Mlp) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
        each, seen = jax.vmap(loss)(values(critics, observation, action))
        return jnp.sum(each), seen

    gradient, seen = jax.grad(total, has_aux=True)(critics)
    return Slope(gradient, *seen)
