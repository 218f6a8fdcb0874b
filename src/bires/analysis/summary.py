"""Results of runs as tables: one row per task and kind of member, one per kind over all tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args, get_type_hints

import numpy as np
from rich.console import Group
from rich.table import Table as RichTable

from bires.analysis import scores, statistics
from bires.analysis.curves import Curves, Panel, collect
from bires.analysis.figures import save_curves
from bires.analysis.intervals import UNKNOWN, Estimate
from bires.analysis.statistics import auc
from bires.analysis.totals import Total, between, scored, totals
from bires.machine.columns import WIDE, Column, Look, fitted
from bires.machine.terminal import console, printable
from bires.runs.run import Run
from bires.runs.tables import Table


@dataclass(frozen=True)
class Row:
    """One kind of member on one task."""

    task: str
    kind: str
    members: int
    diverged: int
    stopped: int
    """Members that a callback or a search ended before the run."""
    failed: int
    """Members whose environments raised."""
    missing: int
    last_step: int
    final_return: float | None
    """The mean of the last tenth of the curve, as everywhere."""
    final_error: float | None
    auc: float | None
    scale: float
    """What scores are divided by; see `bires.analysis.scores`."""
    scale_source: str
    """`given`, or `measured`: the range of the mean curves here."""
    interval: str
    """`paired` or `unpaired`; empty for the baseline itself and where there is none, and so are the next three."""
    difference: Estimate | None
    """Of normalised scores, to the panel's baseline."""
    final_difference: Estimate | None
    """Of normalised final returns."""
    improvement: Estimate | None
    """The paper's ratio; nan where no algorithm learned the task, or the baseline's AUC is zero."""
    q: float | None
    """Mean Q(s, μ(s)) of the last evaluations."""
    q_expected: float | None
    """What it would be if Q were right and rewards even; None where Q is of something else; see `scores.values`."""


@dataclass(frozen=True)
class Found:
    """Curves and all that is computed from them, once."""

    panels: tuple[Panel, ...]
    rows: tuple[Row, ...]
    totals: tuple[Total, ...]

    def gains(self) -> dict[str, list[Row]]:
        """Kind → its rows, for kinds that ran beside a baseline on several tasks."""
        found: dict[str, list[Row]] = {}
        for row in self.rows:
            if row.difference is not None:
                found.setdefault(row.kind, []).append(row)
        return {label: rows for label, rows in found.items() if len(rows) > 1}


def find(panels: Sequence[Panel]) -> Found:
    rows = tuple(row for panel in panels for row in summarise(panel))
    return Found(tuple(panels), rows, tuple(totals(panels)))


def summarise(panel: Panel) -> list[Row]:
    """One row per kind of member."""
    return [describe(kind, panel) for kind in panel.kinds]


def describe(kind: Curves, panel: Panel) -> Row:
    scale, base, there = scores.scale_of(panel), panel.base_of(kind), bool(kind.returns.size)
    mean, error = statistics.mean_and_error(scores.final(kind)) if there else (None, None)
    q, expected = scores.values(panel, kind) if there else (None, None)
    expected = None if expected != expected else expected
    interval, difference, last, ratio = compare(panel, base, kind) if there else BASELINE
    return Row(
        panel.title,
        kind.label,
        len(kind.returns),
        kind.diverged,
        kind.stopped,
        kind.failed,
        kind.missing,
        int(kind.steps[-1]) if len(kind.steps) else 0,
        None if mean is None else float(mean),
        None if error is None or np.isnan(error) else float(error),
        float(auc(kind.returns).mean()) if there else None,
        scale.value,
        "given" if scale.given else "measured",
        interval,
        difference,
        last,
        ratio,
        q,
        expected,
    )


Against = tuple[str, Estimate | None, Estimate | None, Estimate | None]
"""Kind of interval, differences of normalised scores and of final returns, and the paper's ratio."""
BASELINE: Against = ("", None, None, None)


def compare(panel: Panel, base: Curves | None, kind: Curves) -> Against:
    """One kind against its baseline on one task."""
    if base is None or base is kind:
        return BASELINE
    pair = [(panel, base, kind)]
    score, final = scored(pair), scored(pair, scores.final)
    defined = scores.learned(panel, kind.agent) and not statistics.is_nothing(score.base).any()
    ratio = statistics.improvement(score.base, score.other, score.paired) if defined else None
    return (
        score.interval,
        between(statistics.mean_difference, score),
        between(statistics.mean_difference, final),
        ratio or UNKNOWN,
    )


def as_table(records: Sequence[Row] | Sequence[Total]) -> Table:
    """Rows or totals as a table; an estimate is three columns, and nan where there is none."""
    columns: dict[str, list[Any]] = {}
    for record in records:
        for name, kind in get_type_hints(type(record)).items():
            value = getattr(record, name)
            if Estimate in (kind, *get_args(kind)):
                found = value or UNKNOWN
                for end in ("value", "low", "high"):
                    columns.setdefault(name if end == "value" else f"{name}_{end}", []).append(getattr(found, end))
            else:
                number = float in (kind, *get_args(kind))
                columns.setdefault(name, []).append(np.nan if number and value is None else value)
    return Table(
        {name: np.array(values, object if isinstance(values[0], str) else None) for name, values in columns.items()}
    )


def rich_table(run: Run, rows: Sequence[Row], width: int | None = None) -> RichTable | Group:
    """The rows as a terminal of some width shows them: no number is cut off."""
    width = console().width if width is None else width
    wide = width >= WIDE
    last, steps = max((row.last_step for row in rows), default=0), run.config.steps
    late = "" if last == steps else f", evaluated last at step {last:,}"
    compared = next((row for row in rows if row.difference), None)
    full = wide or not compared
    gains = {
        "difference of scores": [row.difference.show("+.3f") if row.difference else "" for row in rows],
        "AUC improvement": [str(row.improvement or "") for row in rows],
    }
    columns = [
        Column("", [row.kind for row in rows], words=True, left=True),
        Column("members" if full else "n", [members_cell(row) for row in rows], words=True),
        Column("final return", [final_cell(row, " " if full else "\n") for row in rows]),
        *([Column("AUC", ["–" if row.auc is None else f"{row.auc:,.0f}" for row in rows])] if full else []),
    ]
    for name, cells in gains.items() if compared else ():
        columns.append(Column(name, cells if wide else [text.replace(" [", "\n[") for text in cells]))
    title = f"{printable(run.config.task)}, {steps:,} steps{late}"
    return fitted(columns, width, Look(title, caption_of(rows, compared) if compared else None, pad_edge=wide))


def members_cell(row: Row) -> str:
    early = [f"{getattr(row, name)} {name}" for name in ("diverged", "stopped", "failed") if getattr(row, name)]
    return str(row.members) + (f" ({', '.join(early)})" if early else "")


def final_cell(row: Row, between: str) -> str:
    if row.final_return is None:
        return "–"
    return f"{row.final_return:.1f}" + ("" if row.final_error is None else f"{between}± {row.final_error:.1f}")


def caption_of(rows: Sequence[Row], compared: Row) -> str:
    """What the differences are, in which unit, and what a dash is."""
    known = any(row.difference and np.isfinite(row.difference.low) for row in rows)
    kinds = dict.fromkeys(row.interval for row in rows if row.difference)
    how = f"95 % intervals, seeds {' or '.join(kinds)}" if known else "no intervals, which need more seeds"
    unit = f"{compared.scale:.4g}" + ("" if compared.scale_source == "given" else " (the range of these curves)")
    nobody = any(row.improvement and np.isnan(row.improvement.value) for row in rows)
    dash = " –: it is not certain that any algorithm has learned, or the baseline's AUC is 0." if nobody else ""
    return f"Compared with the baseline; {how}. Scores are in units of {unit}.{dash}"


def shown(row: Row) -> list[tuple[Estimate | None, str]]:
    """What a row compares, and in which format."""
    return [(row.difference, "+.3f"), (row.final_difference, "+.3f"), (row.improvement, "+.1%")]


def totals_table(found: Sequence[Total], width: int) -> RichTable | Group:
    """The totals over all tasks, as a terminal of that width shows them: as many comparisons as fit on a line."""
    rows = [total_cells(total) for total in found]
    shown, left = [0, 1], width - 34  # names may be broken, numbers not
    for i in range(2, len(rows[0])):
        left -= 3 + max(len(text) for row in rows for text in row[i])
        shown += [i] if left >= 0 or i < 4 else []
    columns = [Column(rows[0][i][0], [row[i][1] for row in rows], words=i < 2, left=True) for i in shown]
    more = None if len(shown) == len(rows[0]) else "more columns in the report, and on a wider terminal"
    return fitted(columns, width, Look("over tasks, against the baseline [95 % intervals]", more), keys=2)


def total_cells(total: Total) -> list[tuple[str, str]]:
    """Column and text of every comparison, in the order of all tables."""

    def show(found: Estimate | None, form: str) -> str:
        return found.show(form) if found else "–"

    return [
        ("tasks", f"{total.tasks} ({total.count})"),
        ("algorithm", total.kind),
        ("P(better)", show(total.probability, ".2f")),
        ("mean difference", show(total.mean_difference, "+.3f")),
        ("median", show(total.median_difference, "+.3f")),
        ("IQM", show(total.iqm_difference, "+.3f")),
        ("final return", show(total.final_difference, "+.3f")),
        ("AUC ratio: median", show(total.median_improvement, "+.0%")),
        ("mean", show(total.mean_improvement, "+.0%")),
        ("median of all", show(total.median_of_all, "+.0%")),
        ("over", f"{total.learned} of {total.count}"),
        ("intervals", total.interval),
    ]


def of_run(run: Run) -> list[Row]:
    return summarise(collect([run])[0])


def picture(run: Run) -> Path:
    """Learning curves with mean and standard error, beside the CSV files."""
    return save_curves(collect([run]), run.path / "curves.png")[0]
