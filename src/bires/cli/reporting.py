"""`bires report`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bires.analysis.summary import totals_table
from bires.errors import UserError
from bires.machine.terminal import console, printable
from bires.runs.run import Run
from bires.studies.reporting import report as write_report

MANY = 20
"""More totals than this are not printed: they are in the report."""


def report(paths: Sequence[Path], out: Path, study: str | None) -> int:
    """Figures and tables from raw curves; nothing is trained."""
    if not paths:
        raise UserError("Give one or more run folders, or folders of them: `bires report RUN…`.")
    runs = [Run(path) for given in paths for path in run_folders(given)]
    named = f" --study {study}" if study else ""
    command = f"bires report {' '.join(path.as_posix() for path in paths)} --out {out.as_posix()}{named}"
    found = write_report(runs, out, study, command)
    compared = [total for total in found.totals if total.interval]
    if 0 < len(compared) <= MANY:
        screen = console()
        screen.print(totals_table(compared, screen.width))
    print(f"{printable(out / 'report.html')}, with figures (png, svg, pdf) and tables (csv) beside it")
    return 0


def run_folders(path: Path) -> list[Path]:
    """The folder itself, if it is a run, or the runs under it."""
    if (path / "manifest.json").exists() or not path.is_dir():
        return [path]
    found = sorted(manifest.parent for manifest in path.rglob("manifest.json"))
    begun = [run for run in found if (run / "evaluations.csv").exists()]
    if len(begun) < len(found):
        left = ", ".join(printable(run) for run in found if run not in begun)
        print(f"skipped, as nothing was evaluated there: {left}")
    return begun or found or [path]
