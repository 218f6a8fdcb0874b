"""Figures in the paper's form, as png, svg or pdf.

Readable in black and white and by the colour-blind: algorithms differ in colour and dash, values of η in the lightness
of one colour map and dash, gains and losses in hatching.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np

from bires.analysis.curves import Curves, Panel
from bires.analysis.pictures import plain_text, write
from bires.analysis.statistics import auc, mean_and_error, running_mean
from bires.machine.terminal import elided

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999")
"""Okabe and Ito's palette."""
DASHES: tuple[Any, ...] = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)), (0, (5, 5)))
KINDS = ("png", "svg", "pdf")
MANY_LINES = 4
"""With more lines than this in a panel, bands hide each other: error bars instead, and the legend outside."""
LONG = 60
"""Many lines of as many points are drawn as running means: nobody can follow seven that cross everywhere."""
MANY_PANELS = 9
"""More panels than this are drawn smaller, with one legend for all of them."""

Styles = dict[str, tuple[Any, Any]]
"""Label → colour and dash."""


def style(number: int) -> tuple[Any, Any]:
    """The look of a kind: colours come again after eight kinds, with other dashes."""
    return COLOURS[number % len(COLOURS)], DASHES[(number + number // len(COLOURS)) % len(DASHES)]


def styles(panels: Sequence[Panel]) -> Styles:
    """One look per kind of member in all panels of a figure."""
    labels = dict.fromkeys(kind.label for panel in panels for kind in panel.kinds)
    return {label: style(i) for i, label in enumerate(labels)}


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


def smoothing(points: int, many: bool) -> int:
    """The evaluations in a row whose mean is drawn as one point; 1 is every evaluation as it is."""
    return points // 20 if many and points >= LONG else 1


def draw_curves(ax: Any, panel: Panel, kinds: Sequence[Curves], look: Styles, many: bool) -> None:
    """Mean return against environment steps, with one standard error: a band, or bars beside ``many`` lines.

    Long curves of ``many`` lines are smoothed: each run's before mean and error over runs.
    """
    from matplotlib.ticker import EngFormatter, MaxNLocator

    there = [kind for kind in kinds if kind.returns.size]
    window = smoothing(max((len(kind.steps) for kind in there), default=0), many)
    for place, kind in enumerate(there):
        mean, error = mean_and_error(running_mean(kind.returns, window) if window > 1 else kind.returns)
        colour, dash = look[kind.label]
        dot = "o" if len(kind.steps) == 1 else None  # a line needs two points
        ax.plot(kind.steps, mean, color=colour, linestyle=dash, marker=dot, linewidth=1.1 if many else 1.5)
        if not many:
            ax.fill_between(kind.steps, mean - error, mean + error, color=colour, alpha=0.2, linewidth=0)
        elif np.isfinite(error).all():
            every = max(1, round(len(mean) / 7))  # a few bars for each line, beside those of the others
            some = slice(round(place * every / len(there)), None, every)
            ax.errorbar(kind.steps[some], mean[some], error[some], fmt="none", ecolor=colour, elinewidth=1.0, alpha=0.8)
    ax.set_xlabel("environment steps")
    what = f"return, mean of {window} evaluations" if window > 1 else "return"
    ax.set_ylabel(f"{what} (± s.e.)" if any(len(kind.returns) > 1 for kind in there) else what)
    first = min((int(kind.steps[0]) for kind in there if len(kind.steps)), default=0)
    if panel.end > first:
        margin = 0.03 * (panel.end - first)
        ax.set_xlim(first - margin, panel.end + margin)
    ax.xaxis.set_major_formatter(EngFormatter(sep=""))
    ax.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
    ax.ticklabel_format(axis="y", useOffset=False)
    ax.spines[["top", "right"]].set_visible(False)


Part = tuple[Panel, str, Sequence[Curves]]
"""A panel, its title and what it shows."""


def draw_grid(parts: Sequence[Part], look: Styles, names: dict[str, str]) -> Any:
    """Some panels with their legends: one in each, or one below all of them where there are many."""
    figure, axes = grid(len(parts))
    many = any(len(kinds) > MANY_LINES for _, _, kinds in parts)
    together = many or len(parts) > MANY_PANELS
    for ax, (panel, title, kinds) in zip(axes, parts, strict=True):
        draw_curves(ax, panel, kinds, look, many)
        diverged = sum(kind.diverged for kind in kinds) if together else 0
        note = f" ({diverged} diverged)" if diverged else ""
        ax.set_title(fill(elided(title, 90) + note, 46))
        if not together:
            handles = [legend_line(look[kind.label]) for kind in kinds if kind.returns.size]
            texts = [legend_text(kind, names) for kind in kinds if kind.returns.size]
            ax.legend(handles, texts, frameon=False, fontsize="small")
    if together:
        shown = {names.get(k.label, k.label): look[k.label] for _, _, kinds in parts for k in kinds if k.returns.size}
        counts = {len(kind.returns) for _, _, kinds in parts for kind in kinds if kind.returns.size}
        common_legend(figure, shown, f"n = {counts.pop()}" if len(counts) == 1 else None, beside=len(parts) == 1)
    return figure


def common_legend(figure: Any, shown: Styles, title: str | None, beside: bool) -> None:
    """One legend for all panels, below them or beside the only one; the figure grows by what it takes."""
    texts = [elided(name, 60) for name in shown]
    longest, (wide, high) = 0.5 + 0.085 * max(map(len, texts), default=1), figure.get_size_inches()
    columns = 1 if beside else max(1, min(len(texts), int(wide / longest)))
    rows = -(-len(texts) // columns)
    figure.set_size_inches(wide + longest if beside else wide, high if beside else high + 0.24 * rows + 0.35)
    where = "outside right upper" if beside else "outside lower center"
    handles = [legend_line(one) for one in shown.values()]
    figure.legend(handles, texts, loc=where, ncols=columns, frameon=False, title=title)


def legend_line(look: tuple[Any, Any]) -> Any:
    from matplotlib.lines import Line2D

    return Line2D([], [], color=look[0], linestyle=look[1])


def legend_text(kind: Curves, names: dict[str, str]) -> str:
    note = f", {kind.diverged} diverged" if kind.diverged else ""
    return f"{elided(names.get(kind.label, kind.label), 40)} (n={len(kind.returns)}{note})"


def grid(count: int) -> tuple[Any, list[Any]]:
    """A figure with that many panels, in rows of three (four: of two), or of five smaller ones if there are many."""
    from bires.analysis.shown import ShownFigure

    many = count > MANY_PANELS
    columns = 2 if count == 4 else min(5 if many else 3, count)
    rows = -(-count // columns)
    wide, high = (3.6, 2.7) if many else (5.2, 3.8)
    figure = ShownFigure(figsize=(wide * columns, high * rows), layout="constrained")
    axes = list(np.atleast_1d(figure.subplots(rows, columns, squeeze=False)).ravel())
    for ax in axes[count:]:
        ax.set_visible(False)
    return figure, axes[:count]


@plain_text
def curves_figure(panels: Sequence[Panel]) -> Any:
    """The curve grid: one panel per task."""
    return draw_grid([(panel, panel.title, panel.kinds) for panel in panels], styles(panels), {})


@plain_text
def save_curves(panels: Sequence[Panel], *paths: Path) -> list[Path]:
    """The curve grid, as files."""
    return save(curves_figure(panels), panels, paths)


@plain_text
def save_variants(panels: Sequence[Panel], *paths: Path) -> list[Path]:
    """One panel per task and algorithm, its curves coloured by η."""
    return save(draw_by_algorithm(panels, lambda kinds: kinds), panels, paths)


@plain_text
def save_best(panels: Sequence[Panel], *paths: Path) -> list[Path]:
    """The same with two curves: without residual updates (η = 0), and with the η > 0 of the largest AUC."""
    figure = draw_by_algorithm(panels, none_and_best)
    figure.supxlabel("the best η is that of the largest mean AUC among these very curves: it looks a little too good")
    return save(figure, panels, paths)


def none_and_best(kinds: Sequence[Curves]) -> list[Curves]:
    """The kinds without η or with η = 0, and the one whose η > 0 has the largest mean AUC."""
    without = [kind for kind in kinds if kind.eta in (None, 0.0)]
    residual = [kind for kind in kinds if kind.eta not in (None, 0.0) and kind.returns.size]
    return without + sorted(residual, key=lambda kind: float(auc(kind.returns).mean()))[-1:]


def has_best(panels: Sequence[Panel]) -> bool:
    """Whether some algorithm was run with η = 0 and with several others."""
    etas: dict[tuple[str, str], set[float | None]] = {}
    for panel in panels:
        for kind in panel.kinds:
            etas.setdefault((panel.title, kind.algorithm), set()).add(kind.eta)
    return any(0.0 in found and len(found) > 2 for found in etas.values())


def draw_by_algorithm(panels: Sequence[Panel], chosen: Callable[[Sequence[Curves]], Sequence[Curves]]) -> Any:
    """One panel per task and algorithm, with the chosen ones of its curves, coloured by η."""
    parts = [
        (panel, f"{algorithm}, {panel.title}", chosen([kind for kind in panel.kinds if kind.algorithm == algorithm]))
        for panel in panels
        for algorithm in dict.fromkeys(kind.algorithm for kind in panel.kinds)
    ]
    names = {k.label: f"η = {k.eta:g}" for panel in panels for k in panel.kinds if k.eta is not None}
    figure = draw_grid(parts, eta_styles(panels), names)
    axes = figure.axes[: len(parts)]
    limits = {panel.title: [ax for ax, part in zip(axes, parts, strict=True) if part[0] is panel] for panel in panels}
    for same in limits.values():  # the rules are compared by eye: one scale for all of them
        low, high = min(ax.get_ylim()[0] for ax in same), max(ax.get_ylim()[1] for ax in same)
        for ax in same:
            ax.set_ylim(low, high)
    return figure


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
    """Writes a figure, with the checksum of its curves."""
    return write(figure, f"curves sha256 {fingerprint(panels)}", paths)
