"""Differences and improvements of the AUC, as bars by task and as effects by kind of member."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from textwrap import fill, wrap
from typing import Any

import numpy as np

from bires.analysis.curves import Panel
from bires.analysis.figures import COLOURS, save
from bires.analysis.intervals import Estimate
from bires.analysis.pictures import plain_text
from bires.machine.terminal import elided

Effect = tuple[str, Estimate, Sequence[float]]
"""A kind, its mean difference over tasks, and that of each task."""


Gains = Sequence[tuple[str, Estimate]]
"""A task, and the improvement on it."""


@plain_text
def save_bars(panels: Sequence[Panel], differences: Gains, ratios: Gains, label: str, *paths: Path) -> list[Path]:
    """By task, sorted: differences of normalised scores; below them the paper's ratio, where it has a meaning."""
    from matplotlib.figure import Figure

    wide = max(6.5, 0.34 * len(differences) + 1.5)
    some = any(np.isfinite(gain.value) for _, gain in ratios)
    figure = Figure(figsize=(wide, 8.0 if some else 4.4), layout="constrained")
    above, below = figure.subplots(2, 1) if some else [figure.subplots()] * 2
    draw_bars(above, differences, 1.0)
    above.set_ylabel("difference of\nnormalised scores")
    above.set_title(f"{elided(label, 60)}, 95 % intervals")
    unbounded = draw_bars(below, ratios, 100.0) if some else []
    if some:
        bend_axis(below)
    without = [name for name, gain in ratios if not np.isfinite(gain.value)]
    notes = [
        f"left out, as no algorithm learned them (or the baseline's AUC is 0): {', '.join(without)}" if without else "",
        f"no bounded interval: {', '.join(unbounded)}" if unbounded else "",
    ]
    lines = [line for note in notes for line in wrap(note, int(13 * wide), break_on_hyphens=False)]
    below.set_xlabel("\n".join(lines), fontsize="small")
    return save(figure, panels, paths)


@plain_text
def save_effects(panels: Sequence[Panel], effects: Sequence[Effect], *paths: Path) -> list[Path]:
    """Every kind against its baseline: the mean difference over tasks with its interval, and the tasks' own as dots."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.0, max(2.5, 0.34 * len(effects) + 1.2)), layout="constrained")
    ax = figure.subplots()
    for place, (_, mean, tasks) in enumerate(reversed(effects)):
        ax.plot(tasks, [place] * len(tasks), "o", color="0.6", markersize=3.5, alpha=0.8)
        if np.isfinite([mean.low, mean.high]).all():
            ends = [[mean.value - mean.low], [mean.high - mean.value]]
            ax.errorbar(mean.value, place, xerr=ends, fmt="s", capsize=3, color="C0")
        else:
            ax.plot(mean.value, place, "s", color="C0", fillstyle="none")
    ax.axvline(0.0, color="0.3", linewidth=0.8)
    ax.set_yticks(range(len(effects)), [elided(label, 48) for label, _, _ in reversed(effects)])
    ax.set_ylim(-0.6, len(effects) - 0.4)
    ax.set_xlabel(
        "difference of normalised scores to the baseline\n"
        "(square: mean over tasks, 95 % interval, hollow without one; dots: tasks)"
    )
    return save(figure, panels, paths)


def bend_axis(ax: Any) -> None:
    """Percentages on an axis that is linear to ±100 % and logarithmic beyond, where it goes beyond; it says so."""
    low, high = ax.get_ylim()
    ticks: Sequence[float]
    if low >= -100 and high <= 100:
        name, ticks = "", [tick for tick in ax.get_yticks() if low <= tick <= high]
    else:
        ax.set_yscale("symlog", linthresh=100)
        name = "\n(logarithmic " + ("outside ±100 %)" if low < -100 < 100 < high else "beyond 100 %)")
        ticks = [t for t in (-10_000, -1000, -100, -50, 0, 50, 100, 1000, 10_000, 100_000) if low <= t <= high]
        ax.set_ylim(low, high)
    ax.set_yticks(ticks, [f"{tick:+,g} %".replace("-", "−") if tick else "0 %" for tick in ticks])
    ax.minorticks_off()
    ax.set_ylabel(f"improvement of the AUC{name}")


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
    few = len(known) < 5
    names = [fill(elided(name, 60), 20) if few else elided(name, 32) for name, _ in known]
    ax.set_xticks(range(len(known)), names, rotation=0 if few else 90, fontsize="small")
    if few:
        ax.set_xlim(-2.5 + len(known) / 2, 1.5 + len(known) / 2)  # few bars are no wider than others
    ax.spines[["top", "right"]].set_visible(False)
    return [name for name, gain in known if np.isinf([gain.low, gain.high]).any()]
