"""Which η makes the residual algorithm stable on a given problem, and which makes it fastest.

The mean dynamics of RA(η) are A(η) = (X − ηGX)ᵀ D (X − GX), linear in η, so a scan of the smallest real part of the
eigenvalues and one bisection per sign change give the stable set; the rate at the best step size gives the fastest η.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq

from bires.linear.dynamics import eigenvalues, outlook
from bires.linear.mdp import Array, Problem
from bires.linear.methods import ra


@dataclass(frozen=True)
class EtaAnswer:
    """The stability and speed of RA(η), from eigenvalues."""

    stable: tuple[tuple[float, float], ...]
    """The intervals of [0, 1] on which the expected update of RA(η) is stable for small steps."""
    fastest: float
    """The η of the grid whose best constant step converges fastest."""
    rate: float
    etas: Array
    rates: Array
    """Rate at the best step for each η of the grid; 0 where unstable."""


def margin(given: Problem, eta: float, successors: int = 2) -> float:
    """min Re λ(A(η)), positive where RA(η) is stable."""
    return float(eigenvalues(given, ra(eta, successors=successors))[0].real)


def stable_etas(given: Problem, points: int = 101, successors: int = 2) -> tuple[tuple[float, float], ...]:
    """The stable intervals of [0, 1], their ends bisected to about 1e-12. Narrower gaps than the grid are not seen."""
    etas = np.linspace(0.0, 1.0, points)
    margins = [margin(given, float(eta), successors) for eta in etas]
    edges = [0.0] if margins[0] > 0.0 else []
    for i in range(points - 1):
        if (margins[i] > 0.0) != (margins[i + 1] > 0.0):
            edges.append(float(brentq(lambda eta: margin(given, eta, successors), etas[i], etas[i + 1], xtol=1e-12)))
    if len(edges) % 2:
        edges.append(1.0)
    return tuple(zip(edges[::2], edges[1::2], strict=True))


def best_eta(given: Problem, points: int = 101, successors: int = 2) -> EtaAnswer:
    """Stable intervals and fastest η of a problem."""
    etas = np.linspace(0.0, 1.0, points)
    rates = np.array([outlook(given, ra(float(eta), successors=successors)).rate for eta in etas])
    top = int(rates.argmax())
    return EtaAnswer(stable_etas(given, points, successors), float(etas[top]), float(rates[top]), etas, rates)
