"""How every figure of the lab looks: colours, dashes and markers by algorithm, lines, labels, panels.

Colour-blind safe (Okabe & Ito), and distinct in black and white by dash and marker.
"""

from __future__ import annotations

from itertools import cycle
from typing import Any

import numpy as np

from bires.linear.claims import Table

BLUE, RED, GREEN, ORANGE, PURPLE, SKY, BLACK = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#E69F00",
    "#CC79A7",
    "#56B4E9",
    "#000000",
)
STYLES: dict[str, tuple[str, Any, str]] = {
    "TD": (BLUE, "-", "o"),
    "Q-learning": (BLUE, "-", "o"),
    "RG": (RED, "--", "s"),
    "residual Q-learning": (RED, "--", "s"),
    "GTD2": (PURPLE, ":", "v"),
    "TDC": (GREEN, (0, (3, 1, 1, 1)), "^"),
    "Greedy-GQ": (GREEN, (0, (3, 1, 1, 1)), "^"),
    "LSTD": (BLACK, (0, (1, 1)), "x"),
    "RA(0.05)": (SKY, "-", "P"),
    "RA(0.2)": (ORANGE, "-.", "D"),
    "RA(0.5)": (BLACK, "-", "d"),
    "RA(0.6)": (BLACK, "-", "d"),
    "RA(0.95)": (GREEN, "-.", "^"),
    "td, target network": (PURPLE, ":", "v"),
    "bi(0.05), target network": (ORANGE, "-", "D"),
    "RG, one successor": (ORANGE, "-", "D"),
    "RG, borrowed": (GREEN, "-.", "^"),
    "C-DQN": (PURPLE, ":", "v"),
    "TDRC": (SKY, "-", "P"),
    "kernel loss": (BLACK, "--", "x"),
    "Baird's φ": (BLUE, (0, (3, 1, 1, 1)), "*"),
    "Baird's φ + 0.05": (RED, (0, (3, 1, 1, 1)), "*"),
    "ortho(0.5)": (GREEN, "-", "<"),
    "fr(0.5)": (ORANGE, "-.", ">"),
}
OTHER: list[tuple[str, Any, str]] = [
    (BLUE, "-", "o"),
    (RED, "--", "s"),
    (GREEN, "-.", "^"),
    (PURPLE, ":", "v"),
    (ORANGE, "-", "D"),
    (BLACK, "--", "x"),
]


def column(rows: Table, name: str, **where: object) -> list[Any]:
    """The values of a column in the rows that match."""
    return [row[name] for row in rows if all(row[key] == value for key, value in where.items())]


def names(rows: Table, column_name: str) -> list[str]:
    """The different values of a column, in order."""
    return list(dict.fromkeys(str(row[column_name]) for row in rows))


def lines(ax: Any, rows: Table, x: str, y: str, by: str, band: tuple[str, str] | None = None) -> None:
    """One line for each value of a column."""
    spare = cycle(OTHER)
    for name in names(rows, by):
        look = STYLES.get(name) or next(spare)
        mine = [row for row in rows if str(row[by]) == name]
        xs = column(mine, x)
        line(ax, xs, column(mine, y), look, max(1, len(xs) // 8), label=name, linewidth=1.4)
        if band:
            ax.fill_between(xs, column(mine, band[0]), column(mine, band[1]), color=look[0], alpha=0.15, linewidth=0)


def line(ax: Any, xs: list[Any], ys: list[Any], look: tuple[str, Any, str], every: int, **more: Any) -> None:
    """A line of a colour and dash, with a marker at every so many-th point."""
    color, dash, marker = look
    ax.plot(xs, ys, color=color, linestyle=dash, marker=marker, markevery=every, markersize=4.5, **more)


def label(ax: Any, title: str, x: str, y: str, legend: str | None = "best") -> None:
    ax.set_title(title, fontsize=9)
    ax.set_xlabel(x, fontsize=8.5)
    ax.set_ylabel(y, fontsize=8.5)
    ax.tick_params(labelsize=8)
    ax.grid(alpha=0.25, linewidth=0.5)
    if legend:
        ax.legend(fontsize=7.5, frameon=False, loc=legend)


def beside(ax: Any) -> None:
    """The legend to the right of a panel."""
    ax.legend(fontsize=7.5, frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))


def panels(count: int, width: float = 3.7) -> tuple[Any, list[Any]]:
    """A figure with panels side by side. matplotlib is imported here, so that the lab needs it only to draw."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width * count, 3.0), layout="constrained")
    return figure, list(np.atleast_1d(figure.subplots(1, count)))
