"""Writes a report: report.html, figures, and the tables behind them."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterable, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from bires.analysis import bars, figures, summary
from bires.analysis.curves import Panel
from bires.analysis.intervals import Estimate
from bires.analysis.names import file_name
from bires.analysis.report.content import About, by_eta, content
from bires.analysis.statistics import mean_and_error
from bires.analysis.summary import Found
from bires.analysis.totals import groups
from bires.errors import UserError, writing_to
from bires.runs.folder import csv_text, write_whole

MANY_KINDS = 4
"""More kinds than this share one figure of their differences."""
TABLES = ("summary", "curves", "totals", "claims")
"""Those behind the figures, as CSV files."""


def find(panels: Sequence[Panel]) -> Found:
    """What a report is made from."""
    if not panels:
        raise UserError("There is no curve to report yet: no run has been evaluated.")
    return summary.find(panels)


def write_found(found: Found, out: Path, about: About) -> list[Path]:
    """All files of a report; the same curves give the same bytes."""
    with writing_to(out):
        out.mkdir(parents=True, exist_ok=True)
        earlier = made_in(out) if (out / "report.html").exists() else set()
        written = [page(found, out, about), *tables(found, out, about), *draw(found, out)]
        for stale in earlier.difference(written):  # of an earlier report, of other runs perhaps
            stale.unlink()
        return written


def made_in(out: Path) -> set[Path]:
    """The figures and tables of a report in a folder."""
    drawn = ("curves", "variants", "best", "effects", "auc", "auc-*")
    names = [f"{name}.{kind}" for name in drawn for kind in figures.KINDS] + [f"{name}.csv" for name in TABLES]
    return {path for name in names for path in out.glob(name)}


def page(found: Found, out: Path, about: About) -> Path:
    """report.html: everything inside, nothing loaded."""
    folder = resources.files("bires.analysis.report")
    # "<" is escaped so that no text in the data can end the script element it is in.
    data = json.dumps(content(found, about, out), separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    text = folder.joinpath("page.html").read_text(encoding="utf-8")
    parts = {
        "__TITLE__": html.escape(about.title),
        "__STYLE__": folder.joinpath("page.css").read_text(encoding="utf-8"),
        "__SCRIPT__": "\n".join(folder.joinpath(name).read_text(encoding="utf-8") for name in ("chart.js", "page.js")),
        "__DATA__": data,
    }
    # All at once: a task may be named like a mark.
    write_whole(out / "report.html", re.sub("|".join(parts), lambda found: parts[found[0]], text))
    return out / "report.html"


def tables(found: Found, out: Path, about: About) -> list[Path]:
    """summary.csv, totals.csv, curves.csv (what the figures show) and, for a study, claims.csv."""
    records: tuple[list[dict[str, Any]], ...] = (
        [vars(row) for row in found.rows],
        list(points(found.panels)),
        [vars(total) for total in found.totals],
        [vars(claim) for claim in about.claims],
    )
    return [table(out / f"{name}.csv", rows) for name, rows in zip(TABLES, records, strict=True) if rows]


def points(panels: Sequence[Panel]) -> Iterable[dict[str, Any]]:
    """Mean and standard error of every kind at every step."""
    for panel in panels:
        for kind in panel.kinds:
            if not kind.returns.size:
                continue
            for step, mean, error in zip(kind.steps, *mean_and_error(kind.returns), strict=True):
                yield {
                    "task": panel.title,
                    "kind": kind.label,
                    "step": int(step),
                    "members": len(kind.returns),
                    "mean": float(mean),
                    "error": float(error),
                }


def table(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    """Records as CSV; an estimate is three columns."""
    estimates = {name for row in rows for name, value in row.items() if isinstance(value, Estimate)}

    def columns(name: str) -> list[str]:
        return [name, f"{name}_low", f"{name}_high"] if name in estimates else [name]

    def cells(name: str, value: Any) -> list[Any]:
        if name not in estimates:
            return [value]
        return [None] * 3 if value is None else list(vars(value).values())

    head = [column for name in rows[0] for column in columns(name)]
    write_whole(path, csv_text([head, *([part for item in row.items() for part in cells(*item)] for row in rows)]))
    return path


def draw(found: Found, out: Path) -> list[Path]:
    """curves.*, or variants.* and best.* where one algorithm has many η; auc.* where several tasks have a baseline.

    Where there are many kinds, effects.* shows all of them in one figure in place of an auc.* of each.
    """
    panels, gains = found.panels, found.gains()

    def paths(name: str) -> list[Path]:
        return [out / f"{name}.{kind}" for kind in figures.KINDS]

    if by_eta(panels):
        written = figures.save_variants(panels, *paths("variants"))
        written += figures.save_best(panels, *paths("best")) if figures.has_best(panels) else []
    else:
        written = figures.save_curves(panels, *paths("curves"))
    if len(gains) > MANY_KINDS:
        return written + bars.save_effects(panels, effects(found), *paths("effects"))
    for label, rows in gains.items():
        name = "auc" if len(gains) == 1 else f"auc-{file_name(label)}"
        differences = [(row.task, row.difference) for row in rows if row.difference]
        ratios = [(row.task, row.improvement) for row in rows if row.improvement]
        written += bars.save_bars(panels, differences, ratios, f"{label} over its baseline", *paths(name))
    return written


def effects(found: Found) -> list[bars.Effect]:
    """Every kind that has a baseline, over all tasks; or over each group of them that may not be counted together."""
    together = groups(found.panels)
    titles = {name: {panel.title for panel in panels} for name, panels in together.items()}
    return [
        (
            total.kind if "all" in together else f"{total.kind}, {total.tasks}",
            total.mean_difference,
            [
                row.difference.value
                for row in found.rows
                if row.kind == total.kind and row.difference and row.task in titles[total.tasks]
            ],
        )
        for total in found.totals
        if total.mean_difference is not None and (total.tasks == "all" or "all" not in together)
    ]
