"""Claims about speed: RG against TD, with exact rates at the best constant step and on samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import jax
import numpy as np

from bires.linear import exact
from bires.linear.algorithms import learn, learn_expected
from bires.linear.claims import FULL, LabScale, Table, Verdict
from bires.linear.dynamics import eigenvalues, mean_dynamics, outlook
from bires.linear.four_rooms import FEATURES, four_rooms
from bires.linear.lstd import lstd
from bires.linear.mdp import Array, Problem, with_features
from bires.linear.methods import GTD2, RG, TD, TDC, Method, ra
from bires.linear.problems import boyan_chain, random_walk, ring
from bires.linear.values import neural, neural_params


def best_curves(given: Problem, groups: Sequence[Sequence[Method]], alphas: Sequence[float], scale: LabScale) -> Table:
    """RMSVE along the steps, mean and standard error over seeds, at the step size of least mean RMSVE."""
    rows: Table = []
    every = scale.steps // 100
    for group in groups:
        pairs = [(algorithm, alpha) for algorithm in group for alpha in alphas]
        values = exact.rmsve(given, learn(given, pairs, scale.seeds, scale.steps, every=every))
        for algorithm, errors in zip(group, np.split(values, len(group)), strict=True):
            best = int(np.nan_to_num(errors.mean((1, 2)), nan=np.inf, posinf=np.inf).argmin())
            rows += _curve_rows(algorithm.name, float(alphas[best]), errors[best], every)
    weights = lstd(given, scale.seeds, scale.steps, every=every)
    errors = exact.rmsve(given, weights @ given.X.T)
    return rows + _curve_rows("LSTD", 0.0, errors, every)


def _curve_rows(name: str, alpha: float, errors: Array, every: int) -> Table:
    """One row for each point; the last is at the end of the run."""
    count, points = errors.shape
    mean, sem = errors.mean(0), errors.std(0, ddof=1) / np.sqrt(count)
    return [
        {"algorithm": name, "alpha": alpha, "step": (101 - points + i) * every, "mean": float(m), "sem": float(e)}
        for i, (m, e) in enumerate(zip(mean, sem, strict=True))
    ]


def mean_over_run(rows: Table, algorithm: str) -> float:
    return float(np.mean([float(row["mean"]) for row in rows if row["algorithm"] == algorithm]))


def slower(scale: LabScale = FULL) -> Verdict:
    """Asymptotic rates of TD and RG at their best steps on seven problems; learning curves on a random walk."""
    problems = [
        random_walk(5),
        random_walk(19),
        random_walk(19, "inverted"),
        random_walk(19, "dependent"),
        boyan_chain(),
        ring(),
        four_rooms("tabular", "random"),
    ]
    rates: Table = [
        {"problem": given.name, "algorithm": algorithm.name, "rate": seen.rate, "best step": seen.best_step}
        for given in problems
        for algorithm in (TD, ra(0.5), RG)
        for seen in [outlook(given, algorithm)]
    ]
    by = {(r["problem"], r["algorithm"]): float(r["rate"]) for r in rates}
    ratios = np.array([by[given.name, "TD"] / by[given.name, "RG"] for given in problems])
    alphas = (0.02, 0.05, 0.1, 0.2, 0.4, 0.8)
    short = replace(scale, steps=scale.steps // 5)
    curves = best_curves(random_walk(5), ((TD, ra(0.5), RG), (GTD2, TDC)), alphas, short)
    td, rg = mean_over_run(curves, "TD"), mean_over_run(curves, "RG")
    return Verdict(
        "slower",
        "RG converges more slowly than TD.",
        "Baird 1995; Schoknecht & Merke 2003 (tabular)",
        bool((ratios > 1).all()) and rg > td,
        {
            "problems": len(problems),
            "problems where TD has the better rate": float((ratios > 1).sum()),
            "smallest rate of TD / of RG": ratios.min(),
            "median rate of TD / of RG": float(np.median(ratios)),
            "largest rate of TD / of RG": ratios.max(),
            "5-state walk, sampled, mean RMSVE of TD": td,
            "5-state walk, sampled, mean RMSVE of RG": rg,
        },
        {"rates": rates, "curves": curves},
    )


def overlap(given: Problem) -> float:
    """Mean cosine between ∇v(s) and ∇v(s') over transitions that end no episode."""
    unit = given.X / np.linalg.norm(given.X, axis=1, keepdims=True)
    chance = np.einsum("s,sa,ast,ast->st", exact.weighting(given), given.pi, given.P, 1.0 - given.ends)
    return float((chance * (unit @ unit.T)).sum() / chance.sum())


def cancellation(scale: LabScale = FULL) -> Verdict:
    """Is RG slower the more ∇v(s) and ∇v(s') agree? Tabular features plus a shared constant c, c from 0 to 2."""
    rows: Table = []
    for c in np.linspace(0.0, 2.0, 21):
        for base in (ring(10), ring(10, noise=0.3), random_walk(9)):
            size = base.states
            given = with_features(base, np.eye(size) + c / np.sqrt(size))
            same_step = eigenvalues(given, TD)[0].real / eigenvalues(given, RG)[0].real
            ratio = outlook(given, TD).rate / outlook(given, RG).rate
            rows.append(
                {
                    "family": base.name,
                    "c": float(c),
                    "cosine": overlap(given),
                    "best step": ratio,
                    "same small step": same_step,
                }
            )
    first = {str(r["family"]): r for r in reversed(rows)}
    last = {str(r["family"]): r for r in rows}
    worse = [float(last[f]["best step"]) > float(first[f]["best step"]) for f in first]
    measured: dict[str, float] = {}
    for f in first:
        for label, row in (("cosine {:.2f}", first[f]), ("cosine {:.2f}", last[f])):
            name = f"{f}, {label.format(float(row['cosine']))}: rate of TD / of RG"
            measured[name] = float(row["best step"])
    return Verdict(
        "cancellation",
        "The more the gradients of a state and its successor agree, the slower RG is against TD.",
        "intuition given in the paper, section 3",
        all(worse),
        measured,
        {"overlap": rows},
    )


def distance_curve(given: Problem, algorithm: Method, steps: int) -> list[float]:
    """‖X(w_n − w_∞)‖_d / ‖X(w_0 − w_∞)‖_d of the expected update at its best step."""
    dynamics = mean_dynamics(given, algorithm)
    step = dynamics.step(outlook(given, algorithm).best_step)
    gap, d, curve = given.w0 - np.linalg.solve(dynamics.A, dynamics.b), exact.weighting(given), []
    for _ in range(steps + 1):
        curve.append(float(np.sqrt(d @ (given.X @ gap) ** 2)))
        gap = step @ gap
    return [value / curve[0] for value in curve]


def rooms(scale: LabScale = FULL) -> Verdict:
    """Rates in the four rooms for each kind of features; with coordinates and γ = 0.9 RG is the faster."""
    rates: Table = []
    for features in FEATURES:
        for gamma in (0.9, 0.99):
            given = four_rooms(features, "random", gamma)
            td, rg = outlook(given, TD).rate, outlook(given, RG).rate
            rates.append({"features": features, "gamma": gamma, "TD": td, "RG": rg, "RG / TD": rg / td})
    given = four_rooms("coordinates", "random", 0.9)
    curves: Table = [
        {"algorithm": a.name, "step": n, "distance": value}
        for a in (TD, ra(0.5), RG)
        for n, value in enumerate(distance_curve(given, a, 15))
    ]
    by = {(r["features"], r["gamma"]): r for r in rates}
    here, tabular = by["coordinates", 0.9], by["tabular", 0.9]
    return Verdict(
        "four-rooms",
        "RG can be faster than TD: the four rooms with linear features.",
        "Schoknecht & Merke 2003 (the features here are ours)",
        float(here["RG / TD"]) > 1.0,
        {
            "coordinates, γ = 0.9, rate of TD": float(here["TD"]),
            "coordinates, γ = 0.9, rate of RG": float(here["RG"]),
            "coordinates, γ = 0.99, rate of RG / of TD": float(by["coordinates", 0.99]["RG / TD"]),
            "tabular, γ = 0.9, rate of RG / of TD": float(tabular["RG / TD"]),
            "kinds of features × γ where RG is faster (of 10)": float(sum(float(r["RG / TD"]) > 1.0 for r in rates)),
        },
        {"rates": rates, "curves": curves},
    )


def neural_slower(scale: LabScale = FULL) -> Verdict:
    """TD, RA(0.2) and RG with a tanh network of 16 units on the 19-state walk, expected updates, best of four steps."""
    given = with_features(random_walk(19), np.linspace(-1.0, 1.0, 19)[:, None])
    params = neural_params(jax.random.key(0), 1, 16)
    steps = 2 * scale.steps
    rows: Table = []
    reached: dict[str, float] = {}
    for algorithm in (TD, ra(0.2), RG):
        curves = exact.rmsve(
            given,
            learn_expected(
                given, algorithm, (0.3, 1.0, 3.0, 10.0), steps, every=steps // 100, value=neural, params=params
            ),
        )
        best = int(np.nan_to_num(curves.mean(1), nan=np.inf).argmin())
        rows += [
            {"algorithm": algorithm.name, "step": i * (steps // 100), "RMSVE": float(v)}
            for i, v in enumerate(curves[best])
        ]
        reached[algorithm.name] = float(curves[best, -1])
    return Verdict(
        "neural",
        "RG is slower than TD with a small neural network too.",
        "as `slower`; the experiment is ours",
        reached["RG"] > reached["TD"],
        {f"RMSVE of {name} after {steps} expected updates": value for name, value in reached.items()},
        {"curves": rows},
    )
