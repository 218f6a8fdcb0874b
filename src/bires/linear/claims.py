"""Claims about where the errors are least: each a function that measures and says yes or no.

A claim holds only if every number in its condition does; the numbers are reported either way. Claims about how fast and
how stably the algorithms get there are in `speed` and `stability`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bires.linear import exact
from bires.linear.algorithms import learn
from bires.linear.dynamics import fixed_point
from bires.linear.mdp import Problem
from bires.linear.methods import RG, RG1, ra
from bires.linear.problems import a_presplit, a_split, random_mdp, ring, same_data, w_to_2w

Row = dict[str, Any]
Table = list[Row]


@dataclass(frozen=True)
class LabScale:
    """How much is measured."""

    mdps: int = 1000
    seeds: int = 20
    steps: int = 10_000


FULL = LabScale()
QUICK = LabScale(mdps=50, seeds=3, steps=1000)


@dataclass(frozen=True)
class Verdict:
    """One claim, measured."""

    claim: str
    """Short name; also that of the figure."""
    statement: str
    source: str
    holds: bool
    measured: dict[str, float]
    tables: dict[str, Table]
    """What the figure is drawn from."""


def presplit(scale: LabScale = FULL) -> Verdict:
    """The MSBE minimiser is worse than the MSPBE minimiser on A-presplit."""
    given = a_presplit()
    truth = exact.true_value(given)
    solutions = {
        "least MSVE": exact.msve_minimiser(given),
        "MSPBE minimiser (TD)": exact.mspbe_minimiser(given),
        "MSBE minimiser (RG)": exact.msbe_minimiser(given),
    }
    rows: Table = [
        {"solution": name, "state": state, "value": float((given.X @ w)[i]), "true value": float(truth[i])}
        for name, w in solutions.items()
        for i, state in enumerate(("A1", "A2", "B", "C"))
    ]
    td, rg = (exact.msve(given, solutions[name]) for name in ("MSPBE minimiser (TD)", "MSBE minimiser (RG)"))
    least = exact.msve(given, solutions["least MSVE"])
    return Verdict(
        "presplit",
        "The minimiser of MSBE can be a worse value function than that of MSPBE (A-presplit).",
        "Sutton & Barto 2018, example 11.3",
        rg > td,
        {"MSVE, least possible": least, "MSVE at the MSPBE minimum": td, "MSVE at the MSBE minimum": rg},
        {"values": rows},
    )


def _some_mdp(i: int, off_policy: bool) -> Problem:
    """The i-th of the random MDPs: 2 to 12 states, 1 to S−1 features, γ in {0.5, 0.9, 0.99}."""
    rng = np.random.default_rng([7, i])
    states = int(rng.integers(2, 13))
    gamma = float(rng.choice([0.5, 0.9, 0.99]))
    return random_mdp(i, states, 2, int(rng.integers(1, states)), gamma, off_policy=off_policy)


def bound(scale: LabScale = FULL) -> Verdict:
    """MSVE ≤ MSBE / (1 − γ)² on-policy, at random weights of random MDPs."""
    rows: Table = []
    for i in range(scale.mdps):
        given = _some_mdp(i, off_policy=False)
        w = np.random.default_rng([11, i]).normal(size=(given.X.shape[1],))
        msve, msbe = exact.msve(given, w), exact.msbe(given, w)
        rows.append({"mdp": i, "gamma": given.gamma, "MSVE": msve, "bound": msbe / (1.0 - given.gamma) ** 2})
    shares = np.array([row["MSVE"] for row in rows], float) / np.array([row["bound"] for row in rows], float)
    return Verdict(
        "bound",
        "MSBE bounds MSVE: on-policy, MSVE ≤ MSBE / (1 − γ)².",
        "Williams & Baird 1993",
        bool((shares <= 1.0 + 1e-9).all()),
        {
            "random MDPs": scale.mdps,
            "violations": float((shares > 1.0 + 1e-9).sum()),
            "largest MSVE / bound": shares.max(),
        },
        {"points": rows},
    )


def unbounded(scale: LabScale = FULL) -> Verdict:
    """MSVE at the MSPBE minimum of w→2w, with reward 1 in the first state, as the behaviour nears its critical p."""
    critical = 2.0 / 3.0  # γ = 0.9: (1 − p)(1 − 2γ) + 4p(1 − γ) = 0
    rows: Table = []
    for gap in np.logspace(-6, -0.5, 45):
        given = w_to_2w(p=critical - gap, reward=1.0)
        rows.append(
            {
                "gap": float(gap),
                "at the MSPBE minimum (TD)": exact.msve(given, exact.mspbe_minimiser(given)),
                "at the MSBE minimum (RG)": exact.msve(given, exact.msbe_minimiser(given)),
                "least possible": exact.msve(given, exact.msve_minimiser(given)),
            }
        )
    td, rg = rows[0]["at the MSPBE minimum (TD)"], rows[0]["at the MSBE minimum (RG)"]
    bounded = [float(row["at the MSBE minimum (RG)"]) for row in rows]
    return Verdict(
        "unbounded",
        "At the minimum of MSPBE, MSVE can be arbitrarily large, while at that of MSBE it stays bounded (off-policy).",
        "Bertsekas & Tsitsiklis 1996; Scherrer 2010",
        float(td) > 1e6 and max(bounded) < 10 * min(bounded),
        {
            "MSVE at the MSPBE minimum, p = 2/3 − 1e-6": td,
            "MSVE at the MSBE minimum, p = 2/3 − 1e-6": rg,
            "largest MSVE at the MSBE minimum, over all p": max(bounded),
        },
        {"curve": rows},
    )


def upper(scale: LabScale = FULL) -> Verdict:
    """MSBE ≥ MSPBE, half of the MDPs off-policy; the gap is the part of the Bellman error that Π removes."""
    rows: Table = []
    worst_gap = 0.0
    for i in range(scale.mdps):
        given = _some_mdp(i, off_policy=bool(i % 2))
        w = np.random.default_rng([13, i]).normal(size=(given.X.shape[1],))
        msbe, mspbe = exact.msbe(given, w), exact.mspbe(given, w)
        backed = exact.backup(given, given.X @ w)
        removed = backed - exact.projection(given) @ backed
        worst_gap = max(worst_gap, abs(msbe - mspbe - float(exact.weighting(given) @ removed**2)) / msbe)
        rows.append({"mdp": i, "off-policy": bool(i % 2), "MSPBE": mspbe, "MSBE": msbe})
    ratio = np.array([row["MSPBE"] for row in rows], float) / np.array([row["MSBE"] for row in rows], float)
    return Verdict(
        "upper",
        "MSBE is an upper bound of MSPBE.",
        "Scherrer 2010",
        bool((ratio <= 1.0 + 1e-9).all()),
        {
            "random MDPs": scale.mdps,
            "violations": float((ratio > 1.0 + 1e-9).sum()),
            "median MSPBE / MSBE": float(np.median(ratio)),
            "largest relative error of MSBE = MSPBE + removed part": worst_gap,
        },
        {"points": rows},
    )


def tradeoff(scale: LabScale = FULL) -> Verdict:
    """TD solutions against RG solutions on random on-policy MDPs: value error and temporal differences."""
    rows: Table = []
    for i in range(scale.mdps):
        given = random_mdp(i, 8, 2, 3, 0.9)
        td, rg = exact.mspbe_minimiser(given), exact.msbe_minimiser(given)
        row: Row = {"mdp": i}
        for name, error in (("MSVE", exact.msve), ("MSBE", exact.msbe), ("MSTDE", exact.mstde)):
            row |= {f"{name} TD": error(given, td), f"{name} RG": error(given, rg)}
        rows.append(row)
    ratios = {
        name: np.array([row[f"{name} RG"] for row in rows], float)
        / np.array([row[f"{name} TD"] for row in rows], float)
        for name in ("MSVE", "MSBE", "MSTDE")
    }
    better = float((ratios["MSVE"] > 1).mean())
    smaller = float((ratios["MSTDE"] < 1).mean())
    return Verdict(
        "tradeoff",
        "TD predicts values better, RG has smaller temporal differences (in most random MDPs).",
        "Li 2008",
        better > 0.5 and smaller > 0.5,
        {
            "share of MDPs where TD has the smaller MSVE": better,
            "median MSVE of RG / of TD": float(np.median(ratios["MSVE"])),
            "share of MDPs where RG has the smaller mean squared TD error": smaller,
            "median mean squared TD error of RG / of TD": float(np.median(ratios["MSTDE"])),
            "median MSBE of RG / of TD": float(np.median(ratios["MSBE"])),
        },
        {"points": rows},
    )


def _string_chances(given: Problem, length: int) -> dict[tuple[tuple[int, float], ...], float]:
    """The probability of every string of (feature index, reward) of that length, started in d."""
    look = given.X.argmax(1)
    paths = {(int(s), ()): chance for s, chance in enumerate(exact.weighting(given))}
    for _ in range(length):
        longer: dict[tuple[int, tuple[tuple[int, float], ...]], float] = {}
        for (s, seen), chance in paths.items():
            for t in np.flatnonzero(given.P[0, s]):
                key = int(t), (*seen, (int(look[s]), float(given.r[0, s, t])))
                longer[key] = longer.get(key, 0.0) + chance * given.P[0, s, t]
        paths = longer  # type: ignore[assignment]
    strings: dict[tuple[tuple[int, float], ...], float] = {}
    for (_, seen), chance in paths.items():
        strings[seen] = strings.get(seen, 0.0) + float(chance)
    return strings


def learnable(scale: LabScale = FULL) -> Verdict:
    """Two MDPs with the same data have different MSBE minimisers, and the same MSPBE minimiser."""
    left, right = same_data()
    one, other = _string_chances(left, 10), _string_chances(right, 10)
    apart = max(abs(one.get(key, 0.0) - other.get(key, 0.0)) for key in one | other)
    rows: Table = []
    for gamma in np.linspace(0.0, 0.99, 34):
        for given in same_data(float(gamma)):
            minima = {"MSBE": exact.msbe_minimiser(given), "MSPBE": exact.mspbe_minimiser(given)}
            rows += [
                {"gamma": float(gamma), "mdp": given.name, "error": name, "w1": float(w[0]), "w2": float(w[1])}
                for name, w in minima.items()
            ]
    msbe_apart = float(np.abs(exact.msbe_minimiser(left) - exact.msbe_minimiser(right)).max())
    mspbe_apart = float(np.abs(exact.mspbe_minimiser(left) - exact.mspbe_minimiser(right)).max())
    return Verdict(
        "learnable",
        "MSBE is not learnable: two MDPs make the same data and have different MSBE minimisers.",
        "Sutton & Barto 2018, section 11.6",
        apart < 1e-12 and msbe_apart > 0.1 and mspbe_apart < 1e-9,
        {
            "largest difference of the probability of any data string of length 10": apart,
            "largest difference of the MSBE minimisers, γ = 0.9": msbe_apart,
            "largest difference of the MSPBE minimisers, γ = 0.9": mspbe_apart,
        },
        {"minima": rows},
    )


def bias(scale: LabScale = FULL) -> Verdict:
    """RMSVE of the fixed point of RG with one successor as the problem becomes more random."""
    rows: Table = []
    for noise in np.linspace(0.0, 1.0, 21):
        for family, given in (("ring", ring(noise=float(noise))), ("A-split", a_split(float(noise) / 2.0))):
            if family == "A-split" and noise == 0.0:
                error = two = 0.0  # p = 0 leaves state B unvisited; the limit of p (1 − p) / 8
            else:
                error = np.sqrt(exact.msve(given, fixed_point(given, RG1)))
                two = np.sqrt(exact.msve(given, fixed_point(given, RG)))
            rows.append({"family": family, "noise": float(noise), "one successor": error, "two successors": two})
    noisy = ring(noise=0.3)
    etas: Table = [
        {
            "eta": float(eta),
            "RMSVE": float(np.sqrt(exact.msve(noisy, fixed_point(noisy, ra(float(eta), successors=1))))),
        }
        for eta in np.linspace(0.0, 1.0, 21)
    ]
    steps = 2 * scale.steps
    curves = learn(noisy, [(RG1, 0.5), (RG, 0.5)], scale.seeds, steps, every=steps // 100, trajectory=False)
    sampled = np.sqrt((curves.mean(1)[:, 80:].mean(1) - exact.true_value(noisy)) ** 2 @ exact.weighting(noisy))
    by_noise = {f: np.array([r["one successor"] for r in rows if r["family"] == f], float) for f in ("ring", "A-split")}
    ring_errors = by_noise["ring"]
    kept = bool((ring_errors >= 0.95 * np.maximum.accumulate(ring_errors)).all())
    rising = kept and bool((np.diff(by_noise["A-split"]) > 0).all())
    two_worst = max(float(r["two successors"]) for r in rows)
    return Verdict(
        "bias",
        "RG with one successor is unbiased in deterministic MDPs; its bias grows with randomness until it saturates.",
        "Baird 1995 (double sampling); the curve is ours",
        rising and ring_errors[0] < 1e-9 < ring_errors[1] and two_worst < 1e-9,
        {
            "ring, RMSVE at noise 0": float(by_noise["ring"][0]),
            "ring, RMSVE at noise 0.1": float(by_noise["ring"][2]),
            "ring, RMSVE at noise 0.5": float(by_noise["ring"][10]),
            "ring, RMSVE at noise 1": float(by_noise["ring"][20]),
            "ring, noise of the largest RMSVE": float(np.linspace(0.0, 1.0, 21)[ring_errors.argmax()]),
            "A-split, RMSVE at p = 1/2": float(by_noise["A-split"][20]),
            "ring, noise 0.3, RA(0.05) with one successor": _at(etas, 0.05),
            "ring, noise 0.3, RG with one successor": _at(etas, 1.0),
            "the same, sampled": float(sampled[0]),
            "sampled, two successors": float(sampled[1]),
        },
        {"noise": rows, "eta": etas},
    )


def _at(etas: Table, eta: float) -> float:
    return next(float(row["RMSVE"]) for row in etas if np.isclose(row["eta"], eta))
