"""What a run found, as a table and a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.table import Table as RichTable

from bires.curves import Curves, curves
from bires.figures import save_curves
from bires.runs import Run
from bires.statistics import auc, improvement_interval, mean_and_error


def summarise(run: Run) -> list[dict[str, Any]]:
    """One record per kind of member; the improvement is over the run's DDPG, where it has one."""
    kinds = curves(run)
    base = next((kind for kind in kinds if kind.label.split()[0] == "ddpg" and len(kind.returns)), None)
    return [describe(kind, base) for kind in kinds]


def describe(kind: Curves, base: Curves | None) -> dict[str, Any]:
    record: dict[str, Any] = {
        "kind": kind.label,
        "members": len(kind.returns),
        "diverged": kind.diverged,
        "final_return": None,
        "final_error": None,
        "auc": None,
        "improvement": None,
    }
    if not len(kind.returns) or not len(kind.steps):
        return record
    mean, error = mean_and_error(kind.returns)
    record |= {"final_return": float(mean[-1]), "final_error": float(error[-1]), "auc": float(auc(kind.returns).mean())}
    if base is not None and kind is not base:
        found = improvement_interval(base.returns, kind.returns)
        record["improvement"] = {"value": found.value, "low": found.low, "high": found.high}
    return record


def rich_table(run: Run, records: list[dict[str, Any]]) -> RichTable:
    """The records as a terminal shows them."""
    table = RichTable(title=f"{run.config.task}, {run.config.steps:,} steps", title_justify="left")
    for name in ("", "members", "final return", "AUC"):
        table.add_column(name, justify="left" if not name else "right")
    compared = any(record["improvement"] for record in records)
    if compared:
        table.add_column("AUC over ddpg [95 % interval]", justify="right")
    for record in records:
        count = str(record["members"]) + (f" (+{record['diverged']} diverged)" if record["diverged"] else "")
        if record["auc"] is None:
            cells = ["–", "–"]
        else:
            cells = [f"{record['final_return']:.1f} ± {record['final_error']:.1f}", f"{record['auc']:,.0f}"]
        row = [record["kind"], count, *cells]
        if compared:
            gain = record["improvement"]
            row.append(f"{gain['value']:+.1%} [{gain['low']:+.1%}, {gain['high']:+.1%}]" if gain else "")
        table.add_row(*row)
    return table


def picture(run: Run) -> Path:
    """Learning curves with mean and standard error, beside the CSV files."""
    return save_curves([(run.config.task, curves(run))], run.path / "curves.png")
