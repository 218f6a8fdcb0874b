"""The policy-evaluation methods of the lab, as data: both its exact and its sampled half read these records.

Write δ = r + γv(s') − v(s), x for the features of s and x'' for those of a second successor. The methods are

    TD, RG, RA(η)              δ (x − ηγx'')                                          Sutton 1988; Baird 1995
    GTD2, TDC, TDRC            a second set of weights h learns δ; TDRC draws h to 0  Sutton 2009; Ghiassian 2020
    C-DQN                      TD or RG for each transition, by the larger error      Wang & Ueda 2022
    orthogonal gradients       RA(η) whose γx'' loses its part along x                Mao et al. 2024
    functional regularisation  TD with κ (v⁻(s) − v(s)) added to δ                    Piché et al. 2021
    Baird's φ                  RA(φ), φ the least that does not raise the residual    Baird 1995, section 5
    kernel loss                the gradient of ½ E[K(s, s̄) δ δ̄] over pairs             Feng et al. 2019
    borrowing from the future  RG with s'' = s + (s₂ − s'), s₂ the state after s'     Zhu, Izzo & Ying 2020
"""

from __future__ import annotations

from dataclasses import dataclass

from bires import rules
from bires.errors import UserError

KINDS = ("rule", "gtd2", "tdc", "baird", "kernel")
FAMILIES = {"rule": "rule", "gtd2": "gradient-td", "tdc": "gradient-td", "baird": "baird", "kernel": "kernel"}
"""Kind → the pseudo-loss that it has. One compiled grid holds methods of one family."""


@dataclass(frozen=True)
class Method:
    """A policy-evaluation method."""

    name: str
    kind: str = "rule"
    """`rule`: one of `bires.rules`; `gtd2`, `tdc`: Gradient-TD methods; `baird`: his φ; `kernel`: the kernel loss."""
    rule: str = "res"
    eta: float = 0.0
    """η of a rule; of `baird` what is added to φ."""
    tau: float = 1.0
    """Mix of the target weights; 1 copies the online weights at every step, which is to have no target network."""
    successors: int = 2
    """2: the forward term sees an independent second successor (unbiased); 1: the same one (biased)."""
    borrowed: bool = False
    """Whether the second successor is s + (s₂ − s'), on a circle of states; there are no importance ratios then."""
    ratio: float = 1.0
    """β / α of the Gradient-TD methods."""
    decay: float = 0.0
    """How much the second weights of the Gradient-TD methods are drawn to zero; 1: TDRC."""
    forget: float = 0.01
    """The share of the newest sample in the traces of `baird`; 1: no traces."""
    width: float = 1.0
    """σ of the kernel, K(s, s̄) = exp(−|x − x̄|² / 2σ²)."""

    @property
    def family(self) -> str:
        """Which pseudo-loss it has."""
        return FAMILIES[self.kind]


TD = Method("TD", eta=0.0)
RG = Method("RG", eta=1.0)
RG1 = Method("RG, one successor", eta=1.0, successors=1)
GTD2 = Method("GTD2", kind="gtd2")
TDC = Method("TDC", kind="tdc")
TDRC = Method("TDRC", kind="tdc", decay=1.0)
C_DQN = Method("C-DQN", rule="convergent", tau=0.01)
BAIRD = Method("Baird's φ", kind="baird")
KERNEL = Method("kernel loss", kind="kernel")
BORROWED = Method("RG, borrowed", eta=1.0, borrowed=True)


def ra(eta: float, rule: str = "res", tau: float = 1.0, successors: int = 2) -> Method:
    """Baird's residual algorithm RA(η); ``rule`` and τ < 1 place target networks."""
    if not 0.0 <= eta <= 1.0:
        raise UserError(f"eta is {eta:g}; accepted is 0 <= eta <= 1: 0 is TD, 1 the residual gradient.")
    if not 0.0 < tau <= 1.0:
        raise UserError(f"tau is {tau:g}; accepted is 0 < tau <= 1: 1 means no target network.")
    if successors not in (1, 2):
        raise UserError(f"successors is {successors}; accepted are 1 (biased) and 2 (independent).")
    placed = rules.get(rule)
    if placed.adaptive or placed.estimated:
        raise UserError(f"rule is {rule!r}, which is no weighted sum of two terms; in the lab it is BAIRD or TDRC.")
    name = f"RA({eta:g})" if tau == 1.0 and rule == "res" else f"{rule}({eta:g})"
    return Method(name, rule=rule, eta=eta, tau=tau, successors=successors)


def family_of(methods: list[Method]) -> str:
    """The one family of some methods, or an error."""
    families = {method.family for method in methods}
    if len(families) != 1:
        raise UserError(
            f"The algorithms {[method.name for method in methods]} mix {' with '.join(sorted(families))} methods; one "
            "grid accepts one of these. Call once for each."
        )
    return families.pop()
