"""The rules of a population: as arrays, one rule per member, and what they need together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from bires.rules.rule import FLAGS, Rule


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
