"""One figure per claim, drawn from its tables alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from bires.linear.claims import Verdict
from bires.linear.plots import (
    BLACK,
    BLUE,
    GREEN,
    OTHER,
    RED,
    SKY,
    STYLES,
    beside,
    column,
    label,
    line,
    lines,
    names,
    panels,
)
from bires.linear.relative_figures import draw_cures, draw_noise, draw_rests


def draw_presplit(v: Verdict) -> Any:
    figure, (ax,) = panels(1, 5.0)
    rows, states = v.tables["values"], ["A1", "A2", "B", "C"]
    marks = [(GREEN, "^"), (BLUE, "o"), (RED, "s")]
    for i, (name, (color, marker)) in enumerate(zip(names(rows, "solution"), marks, strict=True)):
        at = np.arange(4) + 0.16 * (i - 1)
        ax.plot(at, column(rows, "value", solution=name), marker, color=color, label=name, markersize=7)
    for i, value in enumerate(column(rows, "true value", solution="least MSVE")):
        ax.plot(
            [i - 0.35, i + 0.35], [value, value], color=BLACK, linewidth=1.6, label="true value" if i == 0 else None
        )
    ax.set_xticks(range(4), states)
    label(ax, "A-presplit", "state", "value", None)
    beside(ax)
    return figure


def draw_bound(v: Verdict) -> Any:
    figure, (ax,) = panels(1, 4.4)
    rows = v.tables["points"]
    for gamma, color, marker in ((0.5, GREEN, "^"), (0.9, BLUE, "o"), (0.99, RED, "s")):
        at = column(rows, "bound", gamma=gamma), column(rows, "MSVE", gamma=gamma)
        ax.plot(*at, marker, color=color, markersize=2.5, alpha=0.6, label=f"γ = {gamma}")
    _diagonal(ax, column(rows, "bound") + column(rows, "MSVE"))
    label(ax, "MSVE against its bound, random MDPs", "MSBE / (1 − γ)²", "MSVE")
    return figure


def _diagonal(ax: Any, values: list[float]) -> None:
    ends = [min(values), max(values)]
    ax.plot(ends, ends, color=BLACK, linewidth=1)
    ax.set_xscale("log")
    ax.set_yscale("log")


def draw_unbounded(v: Verdict) -> Any:
    figure, (ax,) = panels(1, 4.4)
    rows = v.tables["curve"]
    ax.set_xscale("log")
    ax.set_yscale("log")
    for name, look in zip(list(rows[0])[1:], OTHER[:3], strict=True):
        line(ax, column(rows, "gap"), column(rows, name), look, 6, label=name)
    label(ax, "w→2w with reward 1 in the first state", "2/3 − p (distance from the critical behaviour)", "MSVE")
    return figure


def draw_upper(v: Verdict) -> Any:
    figure, (ax,) = panels(1, 4.4)
    rows = v.tables["points"]
    for off, color, marker in ((False, BLUE, "o"), (True, RED, "s")):
        at = column(rows, "MSPBE", **{"off-policy": off}), column(rows, "MSBE", **{"off-policy": off})
        ax.plot(*at, marker, color=color, markersize=2.5, alpha=0.6, label="off-policy" if off else "on-policy")
    _diagonal(ax, column(rows, "MSPBE") + column(rows, "MSBE"))
    label(ax, "MSBE against MSPBE, random MDPs", "MSPBE", "MSBE")
    return figure


def draw_tradeoff(v: Verdict) -> Any:
    figure, axes = panels(2)
    rows = v.tables["points"]
    for ax, name, title in zip(axes, ("MSVE", "MSTDE"), ("value error", "mean squared TD error"), strict=True):
        ratio = np.log2(np.array(column(rows, f"{name} RG")) / np.array(column(rows, f"{name} TD")))
        shown = np.clip(ratio, *np.quantile(ratio, [0.02, 0.98]))
        ax.hist(shown, bins=40, color=SKY, edgecolor=BLACK, linewidth=0.4)
        ax.axvline(0.0, color=BLACK, linewidth=1)
        label(
            ax,
            f"{title}: TD smaller in {100 * (ratio > 0).mean():.0f} %",
            f"log₂ ({name} of RG / of TD), outer 4 % clipped",
            "random MDPs",
            None,
        )
    return figure


def draw_learnable(v: Verdict) -> Any:
    figure, axes = panels(2)
    for ax, error in zip(axes, ("MSBE", "MSPBE"), strict=True):
        rows = [r for r in v.tables["minima"] if r["error"] == error]
        for mdp, color, dash in (("left", BLUE, "-"), ("right", RED, "--")):
            for weight, marker in (("w1", "o"), ("w2", "^")):
                at = column(rows, "gamma", mdp=mdp), column(rows, weight, mdp=mdp)
                line(ax, *at, (color, dash, marker), 5, label=f"{mdp} MDP, {weight}")
        ax.set_ylim(-0.45, 0.45)
        label(ax, f"minimiser of {error}", "γ", "weight")
    return figure


def draw_bias(v: Verdict) -> Any:
    figure, axes = panels(2)
    rows = v.tables["noise"]
    for (family, text), look in zip((("ring", "ring, noise"), ("A-split", "A-split, 2p")), OTHER, strict=False):
        at = column(rows, "noise", family=family), column(rows, "one successor", family=family)
        line(axes[0], *at, look, 4, label=f"{text}: one successor")
    at = column(rows, "noise", family="ring"), column(rows, "two successors", family="ring")
    axes[0].plot(*at, color=BLACK, linestyle=":", label="both: two successors")
    label(axes[0], "bias of RG", "stochasticity", "RMSVE of the fixed point")
    rows = v.tables["eta"]
    axes[1].plot(column(rows, "eta"), column(rows, "RMSVE"), color=BLUE, marker="o", markevery=4, markersize=4.5)
    label(axes[1], "bias of RA(η) with one successor, ring, noise 0.3", "η", "RMSVE of the fixed point", None)
    return figure


def draw_slower(v: Verdict) -> Any:
    figure, axes = panels(2, 4.4)
    rows = v.tables["rates"]
    problems = names(rows, "problem")
    for name, (color, _, marker) in (("TD", STYLES["TD"]), ("RA(0.5)", STYLES["RA(0.5)"]), ("RG", STYLES["RG"])):
        axes[0].semilogx(column(rows, "rate", algorithm=name), range(len(problems)), marker, color=color, label=name)
    axes[0].set_yticks(
        range(len(problems)), [p.replace("random walk", "walk").replace(" states", "") for p in problems]
    )
    axes[0].invert_yaxis()
    label(axes[0], "rate at the best step", "e-foldings per expected update", "")
    lines(axes[1], v.tables["curves"], "step", "mean", "algorithm")
    axes[1].set_yscale("log")
    axes[1].set_ylim(top=1.5)
    label(axes[1], "5-state walk, sampled, best step size each", "step", "RMSVE", None)
    axes[1].legend(fontsize=7.5, frameon=False, loc="upper right", ncols=3)
    return figure


def draw_cancellation(v: Verdict) -> Any:
    figure, axes = panels(2)
    for ax, name in zip(axes, ("best step", "same small step"), strict=True):
        lines(ax, v.tables["overlap"], "cosine", name, "family")
        ax.axhline(1.0, color=BLACK, linewidth=0.8)
        ax.set_yscale("log")
        label(
            ax,
            "each at its best step" if name == "best step" else "both at the same small step",
            "mean cosine of ∇v(s) and ∇v(s')",
            "rate of TD / rate of RG",
        )
    return figure


def draw_rooms(v: Verdict) -> Any:
    figure, axes = panels(2)
    rows = v.tables["rates"]
    kinds = names(rows, "features")
    for gamma, color, marker in ((0.9, BLUE, "o"), (0.99, RED, "s")):
        axes[0].semilogx(
            column(rows, "RG / TD", gamma=gamma), range(len(kinds)), marker, color=color, label=f"γ = {gamma}"
        )
    axes[0].axvline(1.0, color=BLACK, linewidth=1)
    axes[0].set_yticks(range(len(kinds)), kinds)
    label(axes[0], "four rooms: above 1, RG is faster", "rate of RG / rate of TD", "")
    lines(axes[1], v.tables["curves"], "step", "distance", "algorithm")
    axes[1].set_yscale("log")
    label(axes[1], "coordinates, γ = 0.9, best step each", "expected update", "distance to its own fixed point")
    return figure


def draw_neural(v: Verdict) -> Any:
    figure, (ax,) = panels(1, 4.4)
    lines(ax, v.tables["curves"], "step", "RMSVE", "algorithm")
    ax.set_yscale("log")
    label(ax, "19-state walk, tanh network, best step each", "expected update", "RMSVE")
    return figure


def draw_divergence(v: Verdict) -> Any:
    figure, axes = panels(2)
    lines(axes[0], v.tables["curves"], "step", "median", "algorithm", ("low", "high"))
    axes[0].set_yscale("log")
    axes[0].set_ylim((0.3, 1e10) if v.claim == "baird" else (1e-4, 1e12))
    label(axes[0], "sampled, median and quartiles over seeds", "step", "RMSVE")
    if v.claim == "baird":
        axes[1].plot(column(v.tables["eta"], "eta"), column(v.tables["eta"], "margin"), color=BLUE)
        label(axes[1], "exact: stable above 0", "η", "smallest real part of the eigenvalues", None)
    else:
        rows = [r | {"rule": f"η = {r['eta']}"} for r in v.tables["margins"]]
        lines(axes[1], rows, "p", "A", "rule")
        label(axes[1], "exact: stable above 0", "p, chance of the second state", "A of RA(η)")
    axes[1].axhline(0.0, color=BLACK, linewidth=1)
    return figure


def draw_nonlinear(v: Verdict) -> Any:
    figure, axes = panels(2)
    lines(axes[0], v.tables["curves"], "step", "median", "algorithm")
    axes[0].set_yscale("log")
    axes[0].set_ylim(0.2, 1e3)
    label(axes[0], "values on a spiral, three states, on-policy", "expected update", "RMSVE")
    axes[1].plot(column(v.tables["drift"], "eta"), column(v.tables["drift"], "drift"), color=BLUE)
    axes[1].axhline(0.0, color=BLACK, linewidth=1)
    label(axes[1], "exact: values shrink below 0", "η", "drift of RA(η)", None)
    return figure


def draw_improved(v: Verdict) -> Any:
    figure, axes = panels(2, 4.2)
    rows = v.tables["points"]
    families = names(rows, "family")
    titles = {"agreement": "share of states improved as by exact values", "lost": "value lost by the improved policy"}
    for ax, (quantity, title) in zip(axes, titles.items(), strict=True):
        for i, (name, color) in enumerate((("TD", BLUE), ("RG", RED))):
            seen = [np.array(column(rows, f"{quantity} {name}", family=family), float) for family in families]
            errors = [2 * one.std(ddof=1) / np.sqrt(len(one)) for one in seen]
            at = np.arange(len(families)) + 0.12 * (2 * i - 1)
            ax.errorbar(at, [one.mean() for one in seen], errors, fmt="os"[i], color=color, label=name, capsize=3)
        ax.set_xticks(range(len(families)), [family.replace(" with ", "\nwith ") for family in families])
        label(ax, "mean ± two standard errors", "", title)
    return figure


def draw_eta(v: Verdict) -> Any:
    figure, axes = panels(2)
    rows = [r for r in v.tables["rates"] if r["rate"] > 0]
    lines(axes[0], rows, "eta", "rate", "problem")
    axes[0].set_yscale("log")
    axes[0].set_ylim(1e-8, 5)
    label(axes[0], "rate of RA(η) at the best step (missing: unstable)", "η", "e-foldings per expected update")
    needed = np.sort([float(x) for x in column(v.tables["needed"], "smallest stable eta")])
    axes[1].step(
        np.append(needed, 1.0), np.append(np.arange(1, len(needed) + 1), len(needed)), where="post", color=BLUE
    )
    axes[1].set_xlim(0, 1)
    label(axes[1], f"the {len(needed)} random MDPs where TD diverges", "η", "MDPs that RA(η) makes stable", None)
    return figure


def draw_targets(v: Verdict) -> Any:
    figure, axes = panels(2)
    for ax, given in zip(axes, names(v.tables["steps"], "problem"), strict=False):  # of w→2w there is little to see
        rows = [r for r in v.tables["steps"] if r["problem"] == given and r["largest step"] > 0]
        lines(ax, rows, "eta", "largest step", "rule")
        ax.set_yscale("log")
        ax.set_xlim(-0.03, 1.03)
        label(ax, f"{given}, τ = 0.01 (missing: unstable)", "η", "largest stable step", None)
    axes[0].legend(fontsize=7.5, frameon=False, loc="upper center", bbox_to_anchor=(0.5, 0.85), ncols=3)
    return figure


def draw_control(v: Verdict) -> Any:
    figure, (ax,) = panels(1, 4.8)
    lines(ax, v.tables["curves"], "step", "median", "algorithm", ("low", "high"))
    ax.set_yscale("log")
    label(ax, "Baird's star with action values (q* = 0)", "step", "RMS action value")
    return figure


FIGURES: dict[str, Callable[[Verdict], Any]] = {
    "presplit": draw_presplit,
    "bound": draw_bound,
    "unbounded": draw_unbounded,
    "upper": draw_upper,
    "tradeoff": draw_tradeoff,
    "learnable": draw_learnable,
    "bias": draw_bias,
    "slower": draw_slower,
    "cancellation": draw_cancellation,
    "four-rooms": draw_rooms,
    "neural": draw_neural,
    "baird": draw_divergence,
    "w2w": draw_divergence,
    "nonlinear": draw_nonlinear,
    "improved": draw_improved,
    "eta": draw_eta,
    "targets": draw_targets,
    "noise": draw_noise,
    "rests": draw_rests,
    "cures": draw_cures,
    "control": draw_control,
}


def save(verdict: Verdict, folder: Path) -> list[Path]:
    """Draw one claim as png and svg."""
    import matplotlib

    with matplotlib.rc_context({"svg.hashsalt": "bires", "font.size": 9}):
        figure = FIGURES[verdict.claim](verdict)
        figure.suptitle(f"{verdict.statement}  Measured: {'yes' if verdict.holds else 'no'}", fontsize=8.5, wrap=True)
        paths = [folder / f"{verdict.claim}.{kind}" for kind in ("png", "svg")]
        figure.savefig(paths[0], dpi=96)
        figure.savefig(paths[1], metadata={"Date": None})
    return paths
