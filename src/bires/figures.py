"""Figures in the paper's form: mean and standard error; readable in black and white and by the colour-blind."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bires.curves import Curves
from bires.statistics import mean_and_error

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999")
"""Okabe and Ito's palette."""
DASHES: tuple[Any, ...] = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)), (0, (5, 5)))


def draw_curves(ax: Any, curves: Sequence[Curves], title: str) -> None:
    """Mean return against environment steps, with a band of one standard error."""
    for i, kind in enumerate(curves):
        if not len(kind.returns):
            continue
        mean, error = mean_and_error(kind.returns)
        colour, dash = COLOURS[i % len(COLOURS)], DASHES[i % len(DASHES)]
        note = f", {kind.diverged} diverged" if kind.diverged else ""
        ax.plot(kind.steps, mean, color=colour, linestyle=dash, label=f"{kind.label} (n={len(kind.returns)}{note})")
        ax.fill_between(kind.steps, mean - error, mean + error, color=colour, alpha=0.2, linewidth=0)
    ax.set_title(title)
    ax.set_xlabel("environment steps")
    ax.set_ylabel("return")
    ax.ticklabel_format(axis="x", style="sci", scilimits=(3, 4))
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False, fontsize="small")


def save_curves(panels: Sequence[tuple[str, Sequence[Curves]]], path: Path) -> Path:
    """One panel per task, written as png, svg or pdf by the name's ending."""
    from matplotlib.figure import Figure

    columns = min(3, len(panels))
    rows = -(-len(panels) // columns)
    figure = Figure(figsize=(5.2 * columns, 3.8 * rows), layout="constrained")
    axes = np.atleast_1d(figure.subplots(rows, columns, squeeze=False)).ravel()
    for ax, (title, curves) in zip(axes, panels, strict=False):
        draw_curves(ax, curves, title)
    for ax in axes[len(panels) :]:
        ax.set_visible(False)
    metadata = {"Date": None} if path.suffix == ".svg" else {"CreationDate": None} if path.suffix == ".pdf" else None
    figure.savefig(path, dpi=120, metadata=metadata)
    return path
