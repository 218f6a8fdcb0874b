"""The critic updates: the paper's six ways to wire two networks into one residual update, and their rivals.

Write ``pred = Q(s, a)`` and ``succ = Q(s', μ(s'))`` for the values of the two ends of a transition, once from the
online network and once from the target network. Every rule is

    θ ← θ − α [ δ_b · (−∇pred) + push · discount · ∇succ ]             (gradients of the online network only)

``δ_b`` drives the backward propagation (value flows from s' to s), ``push`` the forward one (from s to s'). In the
paper's rules ``push = η · δ_f``, and both δ are temporal differences ``reward + discount · succ − pred``; they differ
only in *which network supplies which value*. Their rivals take another successor, another error or another weight. So a
rule is data, and one compiled program can train members with different rules.

    >>> RULES["bi"](online, target, reward, discount, eta)      # per-sample pseudo-loss; its gradient is the update
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, TypeGuard

import jax
import jax.numpy as jnp
from jax.lax import stop_gradient

from bires.errors import UserError, unknown

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
    if RULES.get(name, rule) != rule:
        raise UserError(
            f"There is a rule {name!r} already: {SUMMARIES.get(name, 'your own')}. Give yours another name."
        )
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


BACKWARD = Delta(pred=ONLINE, succ=TARGET)
"""δ_b of DDPG and DQN."""
define(
    "convergent",
    Rule(BACKWARD, BACKWARD, False, convergent=True),
    "C-DQN: per sample the semi-gradient or the full residual gradient, by the larger error (Wang & Ueda 2022)",
)
define(
    "minto",
    Rule(BACKWARD, BACKWARD, False, cautious=True),
    "MINTO: a semi-gradient whose successor is the smaller of the two networks' values (2025)",
)
define(
    "qrc",
    Rule(Delta(ONLINE, ONLINE), Delta(ONLINE, ONLINE), False, estimated=True),
    "QRC: gradient TD with regularised corrections, without a target network (Ghiassian et al. 2020)",
)
define(
    "ortho",
    replace(RULES["bi"], orthogonal=True),
    "`bi` with the forward gradient made orthogonal to the backward one, as in ODICE (Mao et al. 2024)",
)
define(
    "fr",
    Rule(Delta(ONLINE, ONLINE), Delta(ONLINE, ONLINE), False, anchored=True),
    "functional regularisation: the online successor, and η draws Q(s, a) to the target network (Piché et al. 2021)",
)
define(
    "baird",
    replace(RULES["res"], adaptive=True),
    "`res` whose weight is the least that does not raise the batch's squared residuals, plus η (Baird 1995)",
)

define(
    "online",
    semi_gradient(pred=ONLINE, succ=ONLINE),
    "the semi-gradient without a target network: CrossQ's; `res` with η = 0",
)

PAPER = ("td", "res", "to", "ot", "tt", "bi")
"""The rules of the paper."""
OURS = frozenset(RULES)
"""Those of the package."""


def equation(rule: Rule) -> str:
    """The update of a rule as text, ``θ ← θ + α […]``; ⁻ marks a value of the target network."""
    backward = difference(rule.backward)
    if rule.cautious:
        backward = "r + γ min(succ, succ⁻) − pred"
    if rule.anchored:
        backward += " + η (pred⁻ − pred)"
    if rule.convergent:
        return (
            f"θ ← θ + α [δ ∇pred],  δ = {backward},  or where δ' = r + γ succ − pred is larger: "
            "θ ← θ + α [δ' (∇pred − γ ∇succ)]"
        )
    if rule.estimated:
        return f"θ ← θ + α [δ ∇pred − h γ ∇succ],  δ = {backward},  h(s, a) ← δ"
    if not rule.bidirectional:
        return f"θ ← θ + α [δ ∇pred],  δ = {backward}"
    forward = difference(rule.forward)
    if rule.adaptive:
        return f"θ ← θ + α [δ (∇pred − φγ ∇succ)],  δ = {backward},  φ = η + the least with which Σδ² does not grow"
    if backward == forward:
        return f"θ ← θ + α [δ (∇pred − ηγ ∇succ)],  δ = {backward}"
    ending = ",  without the part of ∇succ along ∇pred" if rule.orthogonal else ""
    return f"θ ← θ + α [δ_b ∇pred − δ_f ηγ ∇succ],  δ_b = {backward},  δ_f = {forward}{ending}"


def difference(delta: Delta) -> str:
    """A temporal difference as text."""
    return f"r + γ {'succ' if delta.succ else 'succ⁻'} − {'pred' if delta.pred else 'pred⁻'}"


def get(name: str) -> Rule:
    """The rule of that name, or an error with the nearest names; MODULE:NAME is one of the user's own."""
    module, _, short = name.rpartition(":")
    if module:
        load(module, short)
    if short not in RULES:
        raise unknown("rule", name, RULES, "See `bires list rules`; your own is MODULE:NAME.")
    return RULES[short]


def load(module: str, name: str) -> None:
    """Adds a rule of a user's module: one that it defined, or a `Rule` among its names."""
    from bires.machine.modules import import_users

    there = vars(import_users(module, "--rule"))
    if isinstance(found := there.get(name), Rule):
        define(name, found, f"your own, from {module}")
    elif name in OURS:
        raise UserError(f"{module} has no rule {name!r}; the package's own is --rule {name}, without a module.")
    elif name not in RULES:
        what = f"{name!r} of {module} is {found!r}, not a Rule" if name in there else f"{module} has no rule {name!r}"
        own = ", ".join(key for key, value in there.items() if isinstance(value, Rule)) or "none"
        raise UserError(f"{what}; its rules are: {own}.")


def stack(rules: Iterable[Rule], among: Needs | None = None) -> Rule:
    """One rule per member, as arrays: what `jax.vmap` over a population takes apart again.

    ``among``: what all rules of the population need. A flag that none of them raises is None, in every part of it
    alike: parts of a population then run the same program.
    """
    used = list(rules)
    known = among or needs(used)
    stacked: Rule = jax.tree.map(lambda *flags: jnp.asarray(flags), *used)
    unused: dict[str, Any] = {name: None for name in FLAGS[1:] if not getattr(known, name)}
    return replace(stacked, **unused)


class Needs(NamedTuple):
    """Which values a set of rules reads, and what they do; the rest is not computed."""

    online_succ: bool
    target_pred: bool
    target_succ: bool
    forward: bool
    cautious: bool = False
    anchored: bool = False
    convergent: bool = False
    estimated: bool = False
    orthogonal: bool = False
    adaptive: bool = False

    def simplify(self, rule: Rule) -> Rule:
        """A rule of the set, without what none of them does."""
        unused: dict[str, Any] = {name: False for name in FLAGS[1:] if not getattr(self, name)}
        return replace(rule if self.forward else rule.without_forward(), **unused)


def needs(rules: Iterable[Rule]) -> Needs:
    """The union of what some rules read (`online.pred` is always read)."""
    used = list(rules)
    deltas = [rule.backward for rule in used] + [rule.forward for rule in used if rule.bidirectional]
    flags = {name: any(bool(getattr(rule, name)) for rule in used) for name in FLAGS[1:]}
    forward, both = any(rule.pushes for rule in used), flags["cautious"] or flags["convergent"]
    return Needs(
        online_succ=forward or both or any(bool(delta.succ) for delta in deltas),
        target_pred=flags["anchored"] or any(not delta.pred for delta in deltas),
        target_succ=both or any(not delta.succ for delta in deltas),
        forward=forward,
        **flags,
    )
