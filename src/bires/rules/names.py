"""From a name to its rule, also to one of the user's own; from a rule to its equation."""

from __future__ import annotations

from bires.errors import UserError, unknown
from bires.machine.modules import import_users
from bires.rules.known import OURS, RULES, define
from bires.rules.rule import Delta, Rule


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
    there = vars(import_users(module, "--rule"))
    if isinstance(found := there.get(name), Rule):
        define(name, found, f"your own, from {module}")
    elif name in OURS:
        raise UserError(f"{module} has no rule {name!r}; the package's own is --rule {name}, without a module.")
    elif name not in RULES:
        what = f"{name!r} of {module} is {found!r}, not a Rule" if name in there else f"{module} has no rule {name!r}"
        own = ", ".join(key for key, value in there.items() if isinstance(value, Rule)) or "none"
        raise UserError(f"{what}; its rules are: {own}.")
