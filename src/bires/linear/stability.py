"""Claims about stability: where off-policy TD diverges, which η repairs it, and what target networks change."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from bires.linear import exact
from bires.linear.algorithms import learn, learn_expected
from bires.linear.claims import FULL, LabScale, Table, Verdict
from bires.linear.control import (
    GREEDY_GQ,
    Q_LEARNING,
    RESIDUAL_Q,
    baird_control,
    learn_control,
    optimal_q,
    rooms_control,
)
from bires.linear.dynamics import eigenvalues, outlook, stable_steps
from bires.linear.eta import best_eta, margin, stable_etas
from bires.linear.four_rooms import four_rooms
from bires.linear.mdp import Array, Problem
from bires.linear.methods import GTD2, RG, TD, TDC, ra
from bires.linear.problems import baird_star, boyan_chain, random_walk, rough_mdp, turning, w_to_2w
from bires.linear.values import spiral

PLACEMENTS = ("res", "to", "ot", "tt", "bi")
SLOW = 0.01
"""τ of the target networks here."""


def growth(errors: Array) -> float:
    """Factor by which the median error over seeds changed in the second half of the run (means of a tenth each).

    Infinite once it has overflowed, whenever that was.
    """
    middle = np.median(np.nan_to_num(errors, nan=np.inf), axis=0)
    tenth = max(1, len(middle) // 10)
    half = len(middle) // 2
    before, after = middle[half : half + tenth].mean(), middle[-tenth:].mean()
    if not np.isfinite(after):
        return float("inf")
    return float(after / before) if before > 0 else 0.0


def error_rows(name: str, errors: Array, every: int) -> Table:
    """Median and quartiles over seeds, for the curves of figures."""
    safe = np.nan_to_num(errors, nan=1e30, posinf=1e30)
    low, middle, high = np.quantile(safe, [0.25, 0.5, 0.75], axis=0)
    return [
        {"algorithm": name, "step": i * every, "median": float(m), "low": float(a), "high": float(b)}
        for i, (a, m, b) in enumerate(zip(low, middle, high, strict=True))
    ]


def _sampled(given: Problem, alpha: float, etas: tuple[float, ...], scale: LabScale) -> dict[str, Array]:
    """√MSVE of RA(η), GTD2 and TDC along a trajectory of the behaviour policy."""
    every = scale.steps // 100
    seen: dict[str, Array] = {}
    for group in ([ra(eta) for eta in etas], [GTD2, TDC]):
        values = learn(given, [(a, alpha) for a in group], scale.seeds, scale.steps, every=every)
        errors = exact.rmsve(given, values)
        seen |= {_plain(a.name): errors[i] for i, a in enumerate(group)}
    return seen


def _plain(name: str) -> str:
    return {"RA(0)": "TD", "RA(1)": "RG"}.get(name, name)


def baird(scale: LabScale = FULL) -> Verdict:
    """Baird's star: TD diverges; RA(η) with η above a threshold, RG, GTD2 and TDC do not."""
    given = baird_star()
    etas: Table = [{"eta": float(e), "margin": margin(given, float(e))} for e in np.linspace(0.0, 1.0, 101)]
    errors = _sampled(given, 0.01, (0.0, 0.05, 0.2, 0.5, 1.0), scale)
    every = scale.steps // 100
    growths = {name: growth(seen) for name, seen in errors.items()}
    threshold = stable_etas(given)[0][0]
    diverging = growths["TD"] > 10 and growths["RA(0.05)"] > 10
    calm = all(growths[name] < 1.1 for name in ("RA(0.2)", "RA(0.5)", "RG", "GTD2", "TDC"))
    exactly = margin(given, 0.0) < 0 < min(margin(given, e) for e in (0.2, 0.5, 1.0))
    return Verdict(
        "baird",
        "Off-policy TD diverges on Baird's star; RG, and RA with η large enough, converge.",
        "Baird 1995; Sutton & Barto 2018, section 11.2",
        diverging and calm and exactly,
        {
            "smallest real part of the eigenvalues, TD": margin(given, 0.0),
            "smallest real part of the eigenvalues, RG": margin(given, 1.0),
            "smallest stable η": threshold,
        }
        | {f"growth of RMSVE in the second half, {name}": value for name, value in growths.items()},
        {"curves": [row for n, e in errors.items() for row in error_rows(n, e, every)], "eta": etas},
    )


def two_states(scale: LabScale = FULL) -> Verdict:
    """w→2w: the sign of A as a function of how often the behaviour visits the second state."""
    rows: Table = [
        {"p": float(p), "eta": eta, "A": float(eigenvalues(w_to_2w(p=float(p)), ra(eta))[0].real)}
        for eta in (0.0, 0.2, 0.4, 0.6, 1.0)
        for p in np.linspace(0.01, 0.99, 99)
    ]
    given = w_to_2w()
    errors = _sampled(given, 0.02, (0.0, 0.2, 0.6, 1.0), scale)
    growths = {name: growth(seen) for name, seen in errors.items()}
    ends = {name: float(np.median(seen[:, -1])) for name, seen in errors.items()}
    every = scale.steps // 100
    return Verdict(
        "w2w",
        "Off-policy TD diverges on w→2w; RG, and RA with η large enough, converge.",
        "Tsitsiklis & Van Roy 1996; Sutton & Barto 2018, section 11.2",
        margin(given, 0.0) < 0 < margin(given, 1.0)
        and min(growths["TD"], growths["RA(0.2)"]) > 10
        and max(growths[n] for n in ("RA(0.6)", "RG", "GTD2", "TDC")) < 1,
        {
            "A of TD at p = 1/2": margin(given, 0.0),
            "A of RG at p = 1/2": margin(given, 1.0),
            "smallest stable η at p = 1/2": stable_etas(given)[0][0],
        }
        | {f"median RMSVE at the end, {name}": value for name, value in ends.items()},
        {"margins": rows, "curves": [row for n, e in errors.items() for row in error_rows(n, e, every)]},
    )


def nonlinear(scale: LabScale = FULL) -> Verdict:
    """Values on a spiral, on-policy: the error of expected updates, and the exact drift of RA(η) against η."""
    given, steps = turning(), 2 * scale.steps
    methods = (TD, ra(0.5), ra(0.95), RG, ra(0.0, "to", SLOW), ra(0.05, "bi", SLOW))
    names = {"to(0)": "td, target network", "bi(0.05)": "bi(0.05), target network"}
    errors: dict[str, Array] = {}
    for method in methods:
        values = learn_expected(given, method, (0.3,), steps, every=steps // 100, value=spiral, params=jnp.zeros(()))
        errors[names.get(method.name, method.name)] = exact.rmsve(given, values)
    growths = {name: growth(seen) for name, seen in errors.items()}
    drifts: Table = [{"eta": float(eta), "drift": spiral_drift(given, float(eta))} for eta in np.linspace(0.0, 1.0, 41)]
    at_td, at_rg = drifts[0]["drift"], drifts[-1]["drift"]
    threshold = at_td / (at_td - at_rg)
    return Verdict(
        "nonlinear",
        "With nonlinear values TD can diverge on-policy; RG, and RA with η large enough, do not.",
        "Tsitsiklis & Van Roy 1997",
        at_rg < 0 < at_td
        and min(growths[name] for name in ("TD", "RA(0.5)")) > 10
        and max(growths[name] for name in ("RA(0.95)", "RG")) < 1.0,
        {"smallest stable η": threshold, "drift of TD": at_td, "drift of RG": at_rg}
        | {f"growth of RMSVE in the second half, {name}": growths[name] for name in ("TD", "RA(0.5)", "RA(0.95)", "RG")}
        | {
            f"RMSVE, {name}: at the end / at the start": errors[name][0, -1] / errors[name][0, 0]
            for name in names.values()
        },
        {"curves": [row for n, e in errors.items() for row in error_rows(n, e, steps // 100)], "drift": drifts},
    )


def spiral_drift(given: Problem, eta: float) -> float:
    """dw / ‖V‖² of RA(η)'s expected update with V(w) on the spiral: the same for every w. Above 0, values grow.

    E[δ (∇v(s) − ηγ ∇v(s'))] = (GV − V)ᵀ D (V' − η G V')
    """
    V, slope = (np.asarray(values) for values in jax.jvp(lambda w: spiral(w, jnp.asarray(given.X)), (0.0,), (1.0,)))
    G = exact.discounted_successors(given)
    return float((G @ V - V) @ (exact.weighting(given) * (slope - eta * G @ slope)) / (V @ V))


def which_eta(scale: LabScale = FULL) -> Verdict:
    """Stable intervals and fastest η on named problems, and the smallest stable η of random MDPs where TD diverges."""
    named = [random_walk(19), boyan_chain(), four_rooms("coordinates", "random"), baird_star(), baird_star(0.95)]
    curves: Table = []
    measured: dict[str, float] = {}
    for given in named:
        answer = best_eta(given)
        label = given.name if given.name != "Baird's star" else f"Baird's star, γ = {given.gamma:g}"
        curves += [
            {"problem": label, "eta": float(e), "rate": float(r)}
            for e, r in zip(answer.etas, answer.rates, strict=True)
        ]
        measured[f"{label}: smallest stable η"] = answer.stable[0][0]
        measured[f"{label}: fastest η"] = answer.fastest
        measured[f"{label}: rate at the fastest η"] = answer.rate
        measured[f"{label}: rate of TD (0: diverges)"] = outlook(given, TD).rate
        measured[f"{label}: rate of RG"] = outlook(given, RG).rate
    needed: Table = []
    for seed in range(scale.mdps):
        given = rough_mdp(seed)
        if margin(given, 0.0) <= 0.0:
            stable = stable_etas(given, 41)
            needed.append(
                {"mdp": seed, "smallest stable eta": stable[0][0], "intervals": len(stable), "upper end": stable[-1][1]}
            )
    whole = all(r["intervals"] == 1 and r["upper end"] == 1.0 for r in needed)
    thresholds = [float(r["smallest stable eta"]) for r in needed]
    measured |= {"random off-policy MDPs": scale.mdps, "of these, TD diverges": float(len(needed))}
    if thresholds:
        measured["median of the smallest stable η there"] = float(np.median(thresholds))
        measured["largest of the smallest stable η there"] = max(thresholds)
    return Verdict(
        "eta",
        "In every MDP tried where TD diverges, RA(η) is stable from some η below 1 up to 1.",
        "Baird 1995 for RG; the thresholds are ours",
        whole and max([*thresholds, measured["Baird's star, γ = 0.99: smallest stable η"]]) < 1.0,
        measured,
        {"rates": curves, "needed": needed},
    )


def targets(scale: LabScale = FULL) -> Verdict:
    """The stable steps of each placement of target networks, τ = 0.01, against η."""
    rows: Table = []
    for given in (random_walk(9), baird_star(), w_to_2w()):
        for rule in PLACEMENTS:
            for eta in np.linspace(0.0, 1.0, 21):
                low, high = stable_steps(given, ra(float(eta), rule, 1.0 if rule == "res" else SLOW))
                rows.append(
                    {
                        "problem": given.name,
                        "rule": rule,
                        "eta": float(eta),
                        "smallest step": low,
                        "largest step": high,
                    }
                )

    def at(problem: str, rule: str, eta: float, end: str) -> float:
        wanted = {"problem": problem, "rule": rule}
        found = (r for r in rows if r.items() >= wanted.items() and np.isclose(float(r["eta"]), eta))
        return float(next(found)[f"{end} step"])

    def least(problem: str, rule: str) -> float:
        etas = (r["eta"] for r in rows if r["problem"] == problem and r["rule"] == rule and r["largest step"] > 0)
        return float(next(etas, np.inf))

    walk, star, two = (given.name for given in (random_walk(9), baird_star(), w_to_2w()))
    return Verdict(
        "targets",
        "With slow target networks η are stable on Baird's star that are not without (`td`, `to`, `bi` from 0 on); "
        "on w→2w they are not.",
        "ours",
        least(star, "res") > max(least(star, rule) for rule in ("to", "bi")) == 0.0
        and all(least(two, rule) >= least(two, "res") for rule in PLACEMENTS),
        {f"{star}: smallest stable η of the grid, {rule}": least(star, rule) for rule in PLACEMENTS}
        | {f"{two}: smallest stable η of the grid, {rule}": least(two, rule) for rule in PLACEMENTS}
        | {f"{star}, td: {end} stable step": at(star, "to", 0.0, end) for end in ("smallest", "largest")}
        | {f"{star}, bi(0.05): {end} stable step": at(star, "bi", 0.05, end) for end in ("smallest", "largest")}
        | {f"{walk}, η = 0.05: largest stable step, {rule}": at(walk, rule, 0.05, "largest") for rule in PLACEMENTS},
        {"steps": rows},
    )


def control(scale: LabScale = FULL) -> Verdict:
    """Baird's star with action values, and the tabular four rooms, under the four control algorithms."""
    star, every = baird_control(), scale.steps // 100
    curves: Table = []
    growths: dict[str, float] = {}
    for group in ([Q_LEARNING, ra(0.05), ra(0.5), RESIDUAL_Q], [GREEDY_GQ]):
        w = learn_control(star, [(a, 0.02) for a in group], scale.seeds, scale.steps, every)
        q = np.einsum("sad,pntd->pntsa", star.Phi, w)
        errors = np.sqrt((q**2).mean((-1, -2)))
        for i, a in enumerate(group):
            curves += error_rows(a.name, errors[i], every)
            growths[a.name] = growth(errors[i])
    room = rooms_control("tabular")
    best = optimal_q(room.problem)
    alphas = (0.1, 0.3, 1.0)
    ends: dict[str, float] = {}
    steps = scale.steps
    for group in ([Q_LEARNING, ra(0.2), RESIDUAL_Q], [GREEDY_GQ]):
        pairs = [(a, alpha) for a in group for alpha in alphas]
        w = learn_control(room, pairs, max(2, scale.seeds // 4), steps, steps // 20)
        q = np.einsum("sad,pntd->pntsa", room.Phi, w)
        with np.errstate(over="ignore", invalid="ignore"):
            errors = np.sqrt(((q - best) ** 2).mean((-1, -2))).mean((1, 2)).reshape(len(group), len(alphas))
        ends |= {a.name: float(np.nanmin(errors[i])) for i, a in enumerate(group)}
    return Verdict(
        "control",
        "Q-learning diverges on Baird's star; residual Q-learning, RA with η large enough and Greedy-GQ do not.",
        "Baird 1995; Maei et al. 2010",
        growths["Q-learning"] > 2 and max(growths[n] for n in ("RA(0.5)", "residual Q-learning", "Greedy-GQ")) < 1.1,
        {f"growth of the RMS action value in the second half, {n}": g for n, g in growths.items()}
        | {f"four rooms, mean RMS error of q at the best step, {n}": e for n, e in ends.items()},
        {"curves": curves},
    )
