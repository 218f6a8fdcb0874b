"""`bires report`."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path

from bires.curves import curves
from bires.errors import UserError
from bires.figures import save_curves
from bires.runs import Run, cell, write_whole
from bires.summary import summarise

COLUMNS = ("task", "kind", "members", "diverged", "last_step", "final_return", "final_error", "auc")
INTERVAL = ("improvement", "improvement_low", "improvement_high")


def report(paths: Sequence[Path], out: Path) -> int:
    """Figures and a table from raw curves; nothing is trained."""
    if not paths:
        raise UserError("Give one or more run folders: `bires report RUN…`.")
    runs = [Run(path) for path in paths]
    try:
        out.mkdir(parents=True, exist_ok=True)
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow([*COLUMNS, *INTERVAL])
        for run in runs:
            last = int(run.evaluations["step"].max())
            for record in summarise(run):
                gain = record.pop("improvement") or {"value": None, "low": None, "high": None}
                row = {"task": run.config.task, "last_step": last, **record}
                writer.writerow(
                    [cell(row[name]) for name in COLUMNS] + [cell(gain[k]) for k in ("value", "low", "high")]
                )
        write_whole(out / "summary.csv", text.getvalue())
        panels = [(run.config.task, curves(run)) for run in runs]
        for kind in ("png", "svg", "pdf"):
            save_curves(panels, out / f"curves.{kind}")
    except OSError as error:
        raise UserError(f"Cannot write to --out {out} ({error.strerror}). Give a folder you may write to.") from error
    print(f"{out}/curves.png, .svg, .pdf and {out}/summary.csv")
    return 0
