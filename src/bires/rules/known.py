"""All rules, by name: the paper's six, and their rivals."""

from __future__ import annotations

from dataclasses import replace

from bires.errors import UserError
from bires.rules.rule import ONLINE, TARGET, Delta, Rule


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
