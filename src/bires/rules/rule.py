"""What a rule is: which network supplies each value of its errors, and its pseudo-loss."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, TypeGuard

import jax
import jax.numpy as jnp
from jax.lax import stop_gradient

from bires.errors import UserError

ONLINE, TARGET = True, False


class Values(NamedTuple):
    """What one network says of the two ends of a transition."""

    pred: jax.Array
    succ: jax.Array


class Ahead(NamedTuple):
    """What the forward term reads, where that is not what the backward term reads, and what only some rules read."""

    online: Values
    """For δ_f."""
    target: Values
    """For δ_f."""
    succ: jax.Array
    """The online successor value whose gradient the term takes."""
    estimate: jax.Array | None = None
    """h(s, a), a learned estimate of the error, for rules that are `estimated`."""
    least: jax.Array | None = None
    """The smaller successor value, for rules that are `cautious`; None: the smaller of the two networks' values."""
    discount: jax.Array | None = None
    """That of the transition to ``succ``, where it is another one than that of the batch."""


class Delta(NamedTuple):
    """A temporal difference ``reward + discount · succ − pred``: which network supplies each end."""

    pred: bool | jax.Array
    succ: bool | jax.Array

    def __call__(self, online: Values, target: Values, reward: jax.Array, discount: jax.Array) -> jax.Array:
        pred = jnp.where(self.pred, online.pred, target.pred)
        succ = jnp.where(self.succ, online.succ, target.succ)
        return reward + discount * succ - pred


def some(flag: bool | jax.Array | None) -> TypeGuard[bool | jax.Array]:
    """Whether a flag is raised, or may be by some member of a population."""
    return flag is not None and flag is not False


FLAGS = ("bidirectional", "cautious", "anchored", "convergent", "estimated", "orthogonal", "adaptive")
FORWARD = ("bidirectional", "convergent", "estimated")
"""Those that give a rule a forward term."""


@partial(jax.tree_util.register_dataclass, data_fields=["backward", "forward", *FLAGS], meta_fields=[])
@dataclass(frozen=True)
class Rule:
    """One critic update. Its fields are Python booleans here and arrays inside a population.

    There a flag that no member raises is None: no array, so the compiled program does not hold what it stands for.
    """

    backward: Delta
    """δ_b."""
    forward: Delta
    """δ_f; read only if ``bidirectional``."""
    bidirectional: bool | jax.Array
    """Whether the rule has a forward term with weight η; semi-gradient rules have none."""
    cautious: bool | jax.Array | None = False
    """Whether the successor of δ_b is the smaller of the two networks' values."""
    anchored: bool | jax.Array | None = False
    """Whether η draws Q(s, a) to the target network's value: δ_b + η (pred⁻ − pred)."""
    convergent: bool | jax.Array | None = False
    """Whether, where |r + γ succ⁻ − pred| < |r + γ succ − pred|, the sample's step is the full residual gradient."""
    estimated: bool | jax.Array | None = False
    """Whether the push is h(s, a), which learns δ_b, in place of η δ_f."""
    orthogonal: bool | jax.Array | None = False
    """Whether the forward gradient loses its component along the backward one."""
    adaptive: bool | jax.Array | None = False
    """Whether the weight of the forward gradient is Baird's φ (`least_weight`) of the batch, plus η."""

    def __call__(
        self,
        online: Values,
        target: Values,
        reward: jax.Array,
        discount: jax.Array,
        eta: jax.Array | float,
        ahead: Ahead | None = None,
    ) -> jax.Array:
        """The per-sample pseudo-loss −δ_b · pred + push · discount · succ, with δ_b and the push held constant.

        ``ahead``: what the forward term reads; None: the same values as the backward term.
        """
        if some(self.orthogonal) or some(self.adaptive):
            raise UserError(
                "An orthogonal or adaptive rule is no sum of losses: take the gradients of its `terms` apart."
            )
        backward, forward = self.terms(online, target, reward, discount, eta, ahead)
        return backward if forward is None else backward + forward

    def terms(
        self,
        online: Values,
        target: Values,
        reward: jax.Array,
        discount: jax.Array,
        eta: jax.Array | float,
        ahead: Ahead | None = None,
    ) -> tuple[jax.Array, jax.Array | None]:
        """The two terms of the pseudo-loss; None: there is no forward term."""
        read = ahead or Ahead(online, target, online.succ)
        delta_b, push = self.errors(online, target, reward, discount, eta, read)
        backward = -stop_gradient(delta_b) * online.pred
        ahead_by = discount if read.discount is None else read.discount
        return backward, None if push is None else stop_gradient(push) * ahead_by * read.succ

    def errors(
        self,
        online: Values,
        target: Values,
        reward: jax.Array,
        discount: jax.Array,
        eta: jax.Array | float,
        read: Ahead,
    ) -> tuple[jax.Array, jax.Array | None]:
        """δ_b and the push. A flag that is False before compilation costs nothing."""
        delta_b, push = self.backward(online, target, reward, discount), None
        if some(self.cautious):
            least = jnp.minimum(online.succ, target.succ) if read.least is None else read.least
            delta_b = jnp.where(self.cautious, reward + discount * least - online.pred, delta_b)
        if some(self.anchored):
            delta_b = delta_b + jnp.where(self.anchored, eta * (target.pred - online.pred), 0.0)
        if some(self.bidirectional):
            delta_f = self.forward(read.online, read.target, reward, discount)
            weight = jnp.where(self.adaptive, 1.0, eta) if some(self.adaptive) else eta
            push = jnp.where(self.bidirectional, weight * delta_f, 0.0)
        if some(self.convergent):
            residual = reward + discount * read.online.succ - online.pred
            full = self.convergent & (jnp.abs(reward + discount * target.succ - online.pred) < jnp.abs(residual))
            delta_b = jnp.where(full, residual, delta_b)
            push = jnp.where(full, residual, 0.0 if push is None else push)
        if some(self.estimated):
            if read.estimate is None:
                raise UserError(
                    "This agent keeps no estimate h of the error, which rules like `qrc` read. Use another."
                )
            push = jnp.where(self.estimated, read.estimate, 0.0 if push is None else push)
        return delta_b, push

    @property
    def weighted(self) -> bool:
        """Whether the rule reads η."""
        return bool(self.bidirectional) or bool(self.anchored)

    @property
    def pushes(self) -> bool:
        """Whether the rule has a forward term."""
        return any(bool(getattr(self, name)) for name in FORWARD)

    def without_forward(self) -> Rule:
        """The same rule for a population in which no member has a forward term: it is not computed."""
        unused: dict[str, Any] = dict.fromkeys((*FORWARD, "orthogonal", "adaptive"), False)
        return replace(self, **unused)


def least_weight(along: jax.Array, square: jax.Array) -> jax.Array:
    """φ in [0, 1], the least with which a step (1 − φ) d + φ g does not raise the mean squared residual (Baird 1995).

        φ = ⟨d, g⟩ / (⟨d, g⟩ − ⟨g, g⟩) where ⟨d, g⟩ < 0, else 0

    ``along``: ⟨d, g⟩, of the semi-gradient d and the residual gradient g; ``square``: ⟨g, g⟩.
    """
    against = jnp.maximum(-along, 0.0)
    return against / jnp.maximum(against + square, 1e-30)


def compares(rule: Rule) -> bool | jax.Array:
    """Whether a rule holds the two networks' successor values against each other."""
    flags = [flag for flag in (rule.cautious, rule.convergent) if some(flag)]
    return flags[0] if len(flags) == 1 else flags[0] | flags[1] if flags else False
