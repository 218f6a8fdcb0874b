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

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from bires.agents.base import VALUE_BOUND, Diagnostics, Hyper, Regression, Slope, critic_metrics
from bires.agents.networks import Mlp, init_mlp, mlp
from bires.agents.optimisers import Averages, descend
from bires.rules import Ahead, Needs, Values
from bires.types import Setting, Space, Transition

SETTINGS = (
    Setting("critics", 2, "Number of critics; the smallest of their values counts.", low=1),
    Setting("layer_norm", False, "Layer normalisation in the hidden layers of the critics."),
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


class NextAction(NamedTuple):
    """A next action, and what is added to its value."""

    action: jax.Array
    bonus: jax.Array | float = 0.0


class NextActions(NamedTuple):
    """The next actions of a batch; None where no rule reads the value."""

    target: NextAction | None
    """For the target networks."""
    online: NextAction | None
    """For the online networks."""
    fresh: NextAction | None = None
    """For ∇succ; None: the same as ``online``."""


def init(rng: np.random.Generator, space: Space, hidden: tuple[int, ...], count: int, layer_norm: bool) -> Mlp:
    """``count`` critics, stacked."""
    sizes = (space.observation + space.action, *hidden, 1)
    made = [init_mlp(rng, sizes, layer_norm) for _ in range(count)]
    stacked: Mlp = jax.tree.map(lambda *leaves: jnp.stack(leaves), *made)
    return stacked


def values(critics: Mlp, observation: jax.Array, action: jax.Array) -> jax.Array:
    """Q of every critic: (critics, batch)."""
    return jax.vmap(mlp, in_axes=(0, None))(critics, jnp.concatenate([observation, action], -1))[..., 0]


def smallest(critics: Mlp, observation: jax.Array, action: jax.Array) -> jax.Array:
    """min_j Q_j: (batch,)."""
    return jnp.min(values(critics, observation, action), 0)


def many(critics: Mlp, pairs: list[tuple[jax.Array, jax.Array] | None]) -> list[Any]:
    """Q at several (observations, actions), in one pass over the stacked batch; 0 for None."""
    asked = [pair for pair in pairs if pair is not None]
    if not asked:
        return [0.0] * len(pairs)
    whole = values(critics, *(jnp.concatenate(column) for column in zip(*asked, strict=True)))
    found = iter(jnp.split(whole, len(asked), axis=1))
    return [0.0 if pair is None else next(found) for pair in pairs]


def rule_slope(
    critics: Mlp,
    targets: Mlp,
    hyper: Hyper,
    batch: Transition,
    needs: Needs,
    following: NextActions,
    own: bool,
) -> Slope:
    """The rule's update as a gradient: the mean over the batch, summed over the critics; pred and δ_b of each critic.

    ``own``: the forward term reads each critic's own successor value.
    """
    discount, here = hyper.gamma * batch.discount, (batch.observation, batch.action)

    def at(found: NextAction | None) -> tuple[jax.Array, jax.Array] | None:
        return None if found is None else (batch.next_observation, found.action)

    def ends(pred: Any, succ: Any, found: NextAction | None) -> tuple[Values, Values]:
        """The values of the backward term, and of the forward term."""
        if found is None:
            zero = jnp.zeros_like(batch.reward)
            return Values(pred, zero), Values(pred, zero)
        least = Values(pred, jnp.min(succ, 0) + found.bonus)
        return least, Values(pred, succ + found.bonus) if own else least

    pred, succ = many(targets, [here if needs.target_pred else None, at(following.target)])
    target, target_ahead = ends(jnp.asarray(pred), succ, following.target)

    def loss(critics: Mlp) -> tuple[jax.Array, Values]:
        pred, succ, fresh = many(critics, [here, at(following.online), at(following.fresh)])
        online, online_ahead = ends(pred, succ, following.online)
        if not needs.forward:
            rule, ahead = hyper.rule.without_forward(), None
        else:
            again = online_ahead if following.fresh is None else ends(pred, fresh, following.fresh)[1]
            rule, ahead = hyper.rule, Ahead(online_ahead, target_ahead, again.succ)
        each = rule(online, target, batch.reward, discount, hyper.eta, ahead)
        return jnp.sum(jnp.mean(each, -1)), online

    gradient, online = jax.grad(loss, has_aux=True)(critics)
    return Slope(gradient, online.pred, hyper.rule.backward(online, target, batch.reward, discount))


def regress(critics: Mlp, observation: jax.Array, action: jax.Array, loss: Regression) -> Slope:
    """The gradient of any loss of Q's values at some points, summed over the critics."""

    def total(critics: Mlp) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
        each, seen = jax.vmap(loss)(values(critics, observation, action))
        return jnp.sum(each), seen

    gradient, seen = jax.grad(total, has_aux=True)(critics)
    return Slope(gradient, *seen)


def improve(
    slope: Slope, adam: Averages, params: Any, rate: jax.Array, alive: jax.Array
) -> tuple[Any, Averages, Diagnostics]:
    """One step of a critic's optimiser, unless something is not finite or too large."""
    gradient, pred, delta = slope
    seen = critic_metrics(alive, pred, delta)
    largest = jnp.maximum(jnp.max(jnp.abs(pred)), jnp.max(jnp.abs(delta)))
    ok = alive & jnp.isfinite(seen.metrics["critic_loss"]) & (largest < VALUE_BOUND) & reached_first_layer(gradient)
    new, adam = descend(gradient, adam, params, rate, ok)
    return new, adam, seen._replace(alive=ok)


def reached_first_layer(gradient: Any) -> jax.Array:
    """Whether a gradient is finite: a value that is not finite anywhere in the network reaches the first layer.

    (All uses of the old weights come before this flag, so XLA can write the new ones in place.)
    """
    return jnp.isfinite(jnp.sum(gradient.layers[0].bias))
