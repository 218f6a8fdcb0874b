"""The figures of the claims about relatives of the residual algorithms."""

from __future__ import annotations

from typing import Any

import numpy as np

from bires.linear.claims import Verdict
from bires.linear.plots import OTHER, STYLES, beside, column, label, lines, names, panels
from bires.linear.relatives import PLACES


def draw_noise(v: Verdict) -> Any:
    figure, axes = panels(2, 4.8)
    rows = v.tables["sampled"]
    for name in names(rows, "method"):
        color, dash, marker = STYLES[name]
        at = column(rows, "noise", method=name)
        bias, error = column(rows, "bias", method=name), column(rows, "standard error", method=name)
        axes[0].errorbar(at, bias, error, color=color, linestyle=dash, marker=marker, markersize=4.5, label=name)
    label(axes[0], "ring, sampled; bars: standard error", "noise", "RMS bias of v", None)
    beside(axes[0])
    lines(axes[1], v.tables["uneven"], "noise", "RMSVE", "method")
    label(axes[1], "exact: noise in half of the states", "noise", "RMSVE of the fixed point")
    return figure


def draw_rests(v: Verdict) -> Any:
    figure, (ax,) = panels(1, 7.6)
    rows = v.tables["distances"]
    methods = names(rows, "method")
    for error, (color, _, marker) in zip(("MSPBE", "MSBE", "MSTDE"), OTHER, strict=False):
        middle = [float(np.median(column(rows, f"to {error}", method=name))) for name in methods]
        ax.plot(np.maximum(middle, 1e-4), range(len(methods)), marker, color=color, label=f"to the {error} minimum")
    ax.set_xscale("log")
    ax.set_yticks(range(len(methods)), methods)
    ax.invert_yaxis()
    label(
        ax,
        "median over random MDPs, in distances from the MSPBE to the MSBE minimum",
        "distance (1e-4: that or less)",
        "",
        None,
    )
    beside(ax)
    return figure


def draw_cures(v: Verdict) -> Any:
    figure, axes = panels(2, 5.2)
    lines(axes[0], v.tables["curves"], "step", "median", "algorithm", ("low", "high"))
    axes[0].set_yscale("log")
    axes[0].set_ylim(0.3, 1e6)
    label(axes[0], "Baird's star, sampled, median and quartiles", "step", "RMSVE", None)
    beside(axes[0])
    rows = v.tables["stable"]
    methods = names(rows, "method")
    for i, (place, (color, _, _)) in enumerate(zip(PLACES, OTHER, strict=False)):
        axes[1].barh(np.arange(len(methods)) + 0.27 * (i - 1), column(rows, place), 0.25, color=color, label=place)
    axes[1].set_yticks(range(len(methods)), methods)
    axes[1].invert_yaxis()
    label(axes[1], "exact: where TD diverges", "share of problems with a stable step", "", None)
    beside(axes[1])
    return figure
