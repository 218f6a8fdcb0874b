"""The critic updates: the paper's six ways to wire two networks into one residual update, and their rivals.

Write ``pred = Q(s, a)`` and ``succ = Q(s', μ(s'))`` for the values of the two ends of a transition, once from the
online network and once from the target network. Every rule is

    θ ← θ − α [ δ_b · (−∇pred) + push · discount · ∇succ ]             (gradients of the online network only)

``δ_b`` drives the backward propagation (value flows from s' to s), ``push`` the forward one (from s to s'). In the
paper's rules ``push = η · δ_f``, and both δ are temporal differences ``reward + discount · succ − pred``; they differ
only in *which network supplies which value*. Their rivals take another successor, another error or another weight. So a
rule is data, and one compiled program can train members with different rules.

    >>> RULES["bi"](online, target, reward, discount, eta)      # per-sample pseudo-loss; its gradient is the update

May import: `errors`, `types`, `machine`. What leaves it: the names below. `rule` says what a rule is, `known` which
rules there are, `names` how a name becomes a rule, and `several` what the rules of a population need together.
"""

from bires.rules.known import OURS, PAPER, RULES, SUMMARIES, define
from bires.rules.names import equation, get
from bires.rules.rule import (
    FLAGS,
    ONLINE,
    TARGET,
    Ahead,
    Delta,
    Rule,
    Values,
    compares,
    least_weight,
    some,
)
from bires.rules.several import Needs, needs, stack

__all__ = [
    "FLAGS",
    "ONLINE",
    "OURS",
    "PAPER",
    "RULES",
    "SUMMARIES",
    "TARGET",
    "Ahead",
    "Delta",
    "Needs",
    "Rule",
    "Values",
    "compares",
    "define",
    "equation",
    "get",
    "least_weight",
    "needs",
    "some",
    "stack",
]
