"""Figures in the paper's form, as png, svg or pdf.

Readable in black and white and by the colour-blind: algorithms differ in colour and dash, values of η in the lightness
of one colour map and dash, gains and losses in hatching.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from textwrap import wrap
from typing import Any

import numpy as np

from bires.analysis.curves import Curves, Panel
from bires.analysis.intervals import Estimate
from bires.analysis.statistics import mean_and_error

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999")
"""Okabe and Ito's palette."""
DASHES: tuple[Any, ...] = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)), (0, (5, 5)))
KINDS = ("png", "svg", "pdf")

Styles = dict[str, tuple[Any, Any]]
"""Label → colour and dash."""


def styles(panels: Sequence[Panel]) -> Styles:
    """One look per kind of member in all panels of a figure."""
    labels = dict.fromkeys(kind.label for panel in panels for kind in panel.kinds)
    return {label: (COLOURS[i % len(COLOURS)], DASHES[i % len(DASHES)]) for i, label in enumerate(labels)}


def eta_styles(panels: Sequence[Panel]) -> Styles:
    """One look per η, dark to light, the same for all rules."""
    from matplotlib import colormaps

    etas = sorted({kind.eta for panel in panels for kind in panel.kinds if kind.eta is not None})
    shades = colormaps["viridis"](np.linspace(0.0, 0.92, max(2, len(etas))))
    look = {eta: (tuple(shades[i]), DASHES[i % len(DASHES)]) for i, eta in enumerate(etas)}
    return {
        kind.label: look[kind.eta] if kind.eta is not None else ("#000000", "-")
        for panel in panels
        for kind in panel.kinds
    }


def draw_curves(
    ax: Any, kinds: Sequence[Curves], title: str, look: Styles, names: dict[str, str] | None = None
) -> None:
    """Mean return against environment steps, with a band of one standard error."""
    for kind in kinds:
        if not kind.returns.size:
            continue
        mean, error = mean_and_error(kind.returns)
        colour, dash = look[kind.label]
        note = f", {kind.diverged} diverged" if kind.diverged else ""
        label = (names or {}).get(kind.label, kind.label)
        dot = "o" if len(kind.steps) == 1 else None  # a line needs two points
        label += f" (n={len(kind.returns)}{note})"
        ax.plot(kind.steps, mean, color=colour, linestyle=dash, marker=dot, label=label)
        ax.fill_between(kind.steps, mean - error, mean + error, color=colour, alpha=0.2, linewidth=0)
    ax.set_title(title)
    ax.set_xlabel("environment steps")
    ax.set_ylabel("return")
    ax.ticklabel_format(axis="x", style="sci", scilimits=(3, 4))
    ax.spines[["top", "right"]].set_visible(False)
    if ax.get_legend_handles_labels()[0]:
        ax.legend(frameon=False, fontsize="small")


def grid(count: int) -> tuple[Any, list[Any]]:
    """A figure with that many panels, in rows of three, or of five if there are many; four make a square."""
    from matplotlib.figure import Figure

    columns = 2 if count == 4 else min(3 if count <= 9 else 5, count)
    rows = -(-count // columns)
    figure = Figure(figsize=(5.2 * columns, 3.8 * rows), layout="constrained")
    axes = list(np.atleast_1d(figure.subplots(rows, columns, squeeze=False)).ravel())
    for ax in axes[count:]:
        ax.set_visible(False)
    return figure, axes[:count]


def save_curves(panels: Sequence[Panel], *paths: Path) -> list[Path]:
    """The curve grid: one panel per task."""
    figure, axes = grid(len(panels))
    look = styles(panels)
    for ax, panel in zip(axes, panels, strict=True):
        draw_curves(ax, panel.kinds, panel.title, look)
    return save(figure, panels, paths)


def save_variants(panels: Sequence[Panel], *paths: Path) -> list[Path]:
    """One panel per task and algorithm, its curves coloured by η."""
    parts = [
        (panel, algorithm) for panel in panels for algorithm in dict.fromkeys(kind.algorithm for kind in panel.kinds)
    ]
    figure, axes = grid(len(parts))
    look = eta_styles(panels)
    names = {k.label: f"η = {k.eta:g}" for panel in panels for k in panel.kinds if k.eta is not None}
    for ax, (panel, algorithm) in zip(axes, parts, strict=True):
        kinds = [kind for kind in panel.kinds if kind.algorithm == algorithm]
        draw_curves(ax, kinds, f"{algorithm}, {panel.title}", look, names)
    limits = {panel.title: [ax for ax, part in zip(axes, parts, strict=True) if part[0] is panel] for panel in panels}
    for same in limits.values():  # the rules are compared by eye: one scale for all of them
        low, high = min(ax.get_ylim()[0] for ax in same), max(ax.get_ylim()[1] for ax in same)
        for ax in same:
            ax.set_ylim(low, high)
    return save(figure, panels, paths)


Gains = Sequence[tuple[str, Estimate]]
"""A task, and the improvement on it."""


def save_bars(panels: Sequence[Panel], differences: Gains, ratios: Gains, label: str, *paths: Path) -> list[Path]:
    """By task, sorted: differences of normalised scores; below them the paper's ratio, where it has a meaning."""
    from matplotlib.figure import Figure

    wide = max(6.5, 0.34 * len(differences) + 1.5)
    figure = Figure(figsize=(wide, 8.0), layout="constrained")
    above, below = figure.subplots(2, 1)
    draw_bars(above, differences, 1.0)
    above.set_ylabel("difference of normalised scores")
    above.set_title(f"{label}, 95 % intervals")
    unbounded = draw_bars(below, ratios, 100.0)
    below.set_yscale("symlog", linthresh=100)
    ticks = [t for t in (-1000, -100, -50, 0, 50, 100, 1000, 10_000) if below.get_ylim()[0] <= t <= below.get_ylim()[1]]
    below.set_yticks(ticks, [f"{tick:+d} %" if tick else "0 %" for tick in ticks])
    below.minorticks_off()
    below.set_ylabel("improvement of the AUC")
    without = [name for name, gain in ratios if not np.isfinite(gain.value)]
    notes = [
        f"left out, as nobody learned them (or the baseline's AUC is 0): {', '.join(without)}" if without else "",
        f"no bounded interval: {', '.join(unbounded)}" if unbounded else "",
    ]
    lines = [line for note in notes for line in wrap(note, int(14 * wide), break_on_hyphens=False)]
    below.set_xlabel("\n".join(lines), fontsize="small")
    return save(figure, panels, paths)


def draw_bars(ax: Any, gains: Gains, unit: float) -> list[str]:
    """One bar for each task that has a value, with its interval; the tasks whose interval has no bound."""
    known = sorted((g for g in gains if np.isfinite(g[1].value)), key=lambda gain: gain[1].value)
    for i, (_, gain) in enumerate(known):
        up = gain.value >= 0
        ax.bar(
            i,
            unit * gain.value,
            color=COLOURS[0] if up else "white",
            edgecolor=COLOURS[0] if up else COLOURS[1],
            hatch=None if up else "////",
        )
        if np.isfinite([gain.low, gain.high]).all():
            ax.plot([i, i], [unit * gain.low, unit * gain.high], color="black", linewidth=1)
    ax.axhline(0, color="black", linewidth=0.8)
    ax.set_xticks(range(len(known)), [name for name, _ in known], rotation=90, fontsize="small")
    ax.spines[["top", "right"]].set_visible(False)
    return [name for name, gain in known if np.isinf([gain.low, gain.high]).any()]


def fingerprint(panels: Sequence[Panel]) -> str:
    """A checksum of the curves; every figure carries that of the curves it was drawn from."""
    digest = hashlib.sha256()
    for panel in panels:
        for kind in panel.kinds:
            numbers = [*kind.steps.tolist(), *kind.returns.ravel().tolist()]
            text = f"{panel.title} {kind.label} {kind.seeds} " + " ".join(f"{number:.9g}" for number in numbers)
            digest.update(text.encode())
    return digest.hexdigest()


def save(figure: Any, panels: Sequence[Panel], paths: Sequence[Path]) -> list[Path]:
    """Writes a figure in the format of each name's ending; its bytes depend on its curves alone."""
    import matplotlib

    source = f"curves sha256 {fingerprint(panels)}"
    metadata = {
        ".png": {"Source": source},
        ".svg": {"Source": source, "Date": None},
        ".pdf": {"Subject": source, "CreationDate": None},
    }
    with matplotlib.rc_context({"svg.hashsalt": "bires"}):
        for path in paths:
            figure.savefig(path, dpi=120, metadata=metadata[path.suffix])
    return list(paths)
