"""What runs found, as tables: one row per task and kind of member, one per kind over all tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table as RichTable

from bires.analysis import statistics
from bires.analysis.curves import Curves, Panel, collect
from bires.analysis.figures import save_curves
from bires.analysis.statistics import Estimate, auc, estimate, mean_and_error
from bires.runs.run import Run


@dataclass(frozen=True)
class Row:
    """One kind of member on one task."""

    task: str
    kind: str
    members: int
    diverged: int
    missing: int
    last_step: int
    final_return: float | None
    final_error: float | None
    auc: float | None
    improvement: Estimate | None
    """Over the panel's baseline; None for the baseline itself and where there is none."""


@dataclass(frozen=True)
class Total:
    """One kind of member over all tasks where it and the baseline ran. Scores are AUCs in units of the baseline's."""

    kind: str
    tasks: int
    undefined: int
    """Tasks whose baseline has an AUC of zero: no improvement can be given there."""
    median_improvement: Estimate | None
    """None, like the two below that compare, for the baseline itself."""
    mean_improvement: Estimate | None
    iqm: Estimate
    probability: Estimate | None
    """Of a run being better than a run of the baseline."""
    divergence: Estimate


@dataclass(frozen=True)
class Found:
    """Curves and all that is computed from them, once."""

    panels: tuple[Panel, ...]
    rows: tuple[Row, ...]
    totals: tuple[Total, ...]

    def improvements(self) -> dict[str, list[tuple[str, Estimate]]]:
        """Kind → improvement by task, for kinds that ran beside a baseline on several tasks."""
        found: dict[str, list[tuple[str, Estimate]]] = {}
        for row in self.rows:
            if row.improvement is not None:
                found.setdefault(row.kind, []).append((row.task, row.improvement))
        return {label: gains for label, gains in found.items() if len(gains) > 1}


def find(panels: Sequence[Panel]) -> Found:
    rows = tuple(row for panel in panels for row in summarise(panel))
    return Found(tuple(panels), rows, tuple(totals(panels)))


def summarise(panel: Panel) -> list[Row]:
    """One row per kind of member."""
    return [describe(kind, panel) for kind in panel.kinds]


def describe(kind: Curves, panel: Panel) -> Row:
    base = panel.base_of(kind)
    last = int(kind.steps[-1]) if len(kind.steps) else 0
    final: tuple[float | None, float | None, float | None] = (None, None, None)
    gain = None
    if kind.returns.size:
        mean, error = mean_and_error(kind.returns)
        known = float(error[-1]) if np.isfinite(error[-1]) else None
        final = (float(mean[-1]), known, float(auc(kind.returns).mean()))
        if base is not None and kind is not base:
            gain = statistics.improvement_band(auc(base.returns)[:, None], auc(kind.returns)[:, None])[0]
    return Row(panel.title, kind.label, len(kind.returns), kind.diverged, kind.missing, last, *final, gain)


def totals(panels: Sequence[Panel]) -> list[Total]:
    """One record per kind of member, in the order in which they first appear."""
    labels = dict.fromkeys(kind.label for panel in panels for kind in panel.kinds)
    return [found for label in labels if (found := total(panels, label))]


def total(panels: Sequence[Panel], label: str) -> Total | None:
    base, other = scores(panels, label)
    if not other.size:
        return None
    kinds = [kind for panel in panels for kind in panel.kinds if kind.label == label]
    itself = all(base is kind for base, kind in pairs(panels, label))

    def against(statistic: statistics.Statistic) -> Estimate | None:
        return None if itself else estimate(statistic, base, other)

    return Total(
        label,
        other.shape[1],
        int(np.sum(np.isnan(statistics.improvements(base, other)))),
        against(statistics.median_improvement),
        against(statistics.mean_improvement),
        estimate(statistics.iqm, statistics.normalise(other, base)),
        against(statistics.probability_of_improvement),
        statistics.divergence_rate(sum(k.diverged for k in kinds), sum(len(k.returns) for k in kinds)),
    )


def scores(panels: Sequence[Panel], label: str) -> tuple[np.ndarray, np.ndarray]:
    """AUCs (runs × tasks) of the baseline and of one kind, for the panels that have both."""
    both = pairs(panels, label)
    return (
        statistics.matrix([auc(base.returns) for base, _ in both]),
        statistics.matrix([auc(kind.returns) for _, kind in both]),
    )


def pairs(panels: Sequence[Panel], label: str) -> list[tuple[Curves, Curves]]:
    """The baseline and one kind, for the panels that have both."""
    kinds = [(panel, kind) for panel in panels if (kind := panel.kind(label))]
    return [(base, kind) for panel, kind in kinds if (base := panel.base_of(kind)) and base.returns.size]


def as_json(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """The rows as plain data; what is not known is None, as JSON has no nan."""
    return [vars(row) | {"improvement": plain(row.improvement) if row.improvement else None} for row in rows]


def plain(found: Estimate) -> dict[str, float | None]:
    return {name: value if np.isfinite(value) else None for name, value in vars(found).items()}


def rich_table(run: Run, rows: Sequence[Row]) -> RichTable:
    """The rows as a terminal shows them."""
    last, steps = max((row.last_step for row in rows), default=0), run.config.steps
    late = "" if last == steps else f", evaluated last at step {last:,}"
    table = RichTable(title=f"{run.config.task}, {steps:,} steps{late}", title_justify="left")
    for name in ("", "members", "final return", "AUC"):
        table.add_column(name, justify="left" if not name else "right")
    compared = any(row.improvement for row in rows)
    if compared:
        table.add_column("AUC over the baseline [95 % interval]", justify="right")
    for row in rows:
        count = str(row.members) + (f" ({row.diverged} diverged)" if row.diverged else "")
        cells = ["–", "–"]
        if row.auc is not None:
            error = "" if row.final_error is None else f" ± {row.final_error:.1f}"
            cells = [f"{row.final_return:.1f}{error}", f"{row.auc:,.0f}"]
        gain = [str(row.improvement) if row.improvement else ""] if compared else []
        table.add_row(row.kind, count, *cells, *gain)
    return table


def of_run(run: Run) -> list[Row]:
    return summarise(collect([run])[0])


def picture(run: Run) -> Path:
    """Learning curves with mean and standard error, beside the CSV files."""
    return save_curves(collect([run]), run.path / "curves.png")[0]
