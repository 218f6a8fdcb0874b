"""The critic updates of the paper: six ways to wire two networks into one residual update.

Write ``pred = Q(s, a)`` and ``succ = Q(s', μ(s'))`` for the values of the two ends of a transition, once from the
online network and once from the target network. Every rule is

    θ ← θ − α [ δ_b · (−∇pred) + η · δ_f · discount · ∇succ ]          (gradients of the online network only)

``δ_b`` drives the backward propagation (value flows from s' to s), ``δ_f`` the forward one (from s to s'). Both are
temporal differences ``reward + discount · succ − pred``; the rules differ only in *which network supplies which value*,
so a rule is data, and one compiled program can train members with different rules.

    >>> RULES["bi"](online, target, reward, discount, eta)      # per-sample pseudo-loss; its gradient is the update
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.lax import stop_gradient

from bires.errors import unknown

ONLINE, TARGET = True, False


class Values(NamedTuple):
    """What one network says of the two ends of a transition."""

    pred: jax.Array
    succ: jax.Array


class Ahead(NamedTuple):
    """What the forward term reads, where that is not what the backward term reads."""

    online: Values
    """For δ_f."""
    target: Values
    """For δ_f."""
    succ: jax.Array
    """The online successor value whose gradient the term takes."""


class Delta(NamedTuple):
    """A temporal difference ``reward + discount · succ − pred``: which network supplies each end."""

    pred: bool | jax.Array
    succ: bool | jax.Array

    def __call__(self, online: Values, target: Values, reward: jax.Array, discount: jax.Array) -> jax.Array:
        pred = jnp.where(self.pred, online.pred, target.pred)
        succ = jnp.where(self.succ, online.succ, target.succ)
        return reward + discount * succ - pred


@partial(jax.tree_util.register_dataclass, data_fields=["backward", "forward", "bidirectional"], meta_fields=[])
@dataclass(frozen=True)
class Rule:
    """One critic update. Its fields are Python booleans here and arrays inside a population."""

    backward: Delta
    """δ_b."""
    forward: Delta
    """δ_f; read only if ``bidirectional``."""
    bidirectional: bool | jax.Array
    """Whether the rule has a forward term; semi-gradient rules have none."""

    def __call__(
        self,
        online: Values,
        target: Values,
        reward: jax.Array,
        discount: jax.Array,
        eta: jax.Array | float,
        ahead: Ahead | None = None,
    ) -> jax.Array:
        """The per-sample pseudo-loss −δ_b · pred + η · δ_f · discount · succ, with both δ held constant.

        ``ahead``: what the forward term reads; None: the same values as the backward term.
        """
        delta_b = stop_gradient(self.backward(online, target, reward, discount))
        backward = -delta_b * online.pred
        if self.bidirectional is False:
            return backward
        read = ahead or Ahead(online, target, online.succ)
        delta_f = stop_gradient(self.forward(read.online, read.target, reward, discount))
        forward = eta * delta_f * discount * read.succ
        return backward + jnp.where(self.bidirectional, forward, 0.0)

    def without_forward(self) -> Rule:
        """The same rule for a population in which no member has a forward term: it is not computed."""
        return replace(self, bidirectional=False)


def semi_gradient(pred: bool, succ: bool) -> Rule:
    """A rule without a forward term: −δ ∇pred."""
    delta = Delta(pred, succ)
    return Rule(delta, delta, False)


def residual(pred: bool, succ: bool) -> Rule:
    """Baird's residual algorithm with one δ for both directions: δ (η · discount · ∇succ − ∇pred)."""
    delta = Delta(pred, succ)
    return Rule(delta, delta, True)


RULES: dict[str, Rule] = {}
"""All rules, by name. One of your own: ``RULES["name"] = Rule(…)``."""

SUMMARIES: dict[str, str] = {}
"""What a rule is, in one line. (Not a field of `Rule`: its fields are the arrays of a population.)"""


def define(name: str, rule: Rule, summary: str) -> None:
    """Adds a rule, with one line that says what it is."""
    RULES[name], SUMMARIES[name] = rule, summary


define("td", semi_gradient(pred=ONLINE, succ=TARGET), "the semi-gradient of DDPG and DQN, with a target network")
define("res", residual(pred=ONLINE, succ=ONLINE), "Baird's residual algorithm; η = 1 is his residual gradient")
define("to", residual(pred=ONLINE, succ=TARGET), "residual, with the target network at the successor")
define("ot", residual(pred=TARGET, succ=ONLINE), "residual, with the target network at the predecessor")
define("tt", residual(pred=TARGET, succ=TARGET), "residual, with the target network at both ends")
define(
    "bi",
    Rule(Delta(pred=ONLINE, succ=TARGET), Delta(pred=TARGET, succ=ONLINE), True),
    "the paper's bidirectional target network",
)


def equation(rule: Rule) -> str:
    """The update of a rule as text, ``θ ← θ + α […]``; ⁻ marks a value of the target network."""

    def difference(delta: Delta) -> str:
        return f"r + γ {'succ' if delta.succ else 'succ⁻'} − {'pred' if delta.pred else 'pred⁻'}"

    backward, forward = difference(rule.backward), difference(rule.forward)
    if not rule.bidirectional:
        return f"θ ← θ + α [δ ∇pred],  δ = {backward}"
    if backward == forward:
        return f"θ ← θ + α [δ (∇pred − ηγ ∇succ)],  δ = {backward}"
    return f"θ ← θ + α [δ_b ∇pred − δ_f ηγ ∇succ],  δ_b = {backward},  δ_f = {forward}"


def get(name: str) -> Rule:
    """The rule of that name, or an error with the nearest names."""
    if name not in RULES:
        raise unknown("rule", name, RULES, "See `bires list rules`.")
    return RULES[name]


def stack(rules: Iterable[Rule]) -> Rule:
    """One rule per member, as arrays: what `jax.vmap` over a population takes apart again."""
    stacked: Rule = jax.tree.map(lambda *flags: jnp.asarray(flags), *rules)
    return stacked


class Needs(NamedTuple):
    """Which values a set of rules reads; the others are not computed."""

    online_succ: bool
    target_pred: bool
    target_succ: bool
    forward: bool


def needs(rules: Iterable[Rule]) -> Needs:
    """The union of what some rules read (`online.pred` is always read)."""
    used = list(rules)
    deltas = [rule.backward for rule in used] + [rule.forward for rule in used if rule.bidirectional]
    forward = any(bool(rule.bidirectional) for rule in used)
    return Needs(
        online_succ=forward or any(bool(delta.succ) for delta in deltas),
        target_pred=any(not delta.pred for delta in deltas),
        target_succ=any(not delta.succ for delta in deltas),
        forward=forward,
    )
