"""`bires report`."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from bires.analysis.summary import rich_table, totals_table
from bires.errors import UserError
from bires.machine.terminal import aside, console, json_line, printable
from bires.runs.run import Run, run_folders
from bires.studies.reporting import report as write_report

MANY = 20
"""More rows than this are not printed: they are in the report."""


def report(paths: Sequence[Path], out: Path, study: str | None, trust: bool = False, as_json: bool = False) -> int:
    """Figures and tables from raw curves; nothing is trained."""
    if not paths:
        raise UserError("Give one or more run folders, or folders of them: `bires report RUN…`.")
    notes: list[str] = []
    with aside(as_json):
        runs = opened(paths, trust)
    named = ["--study", study] if study else []
    words = ["bires", "report", *(path.as_posix() for path in paths), "--out", out.as_posix(), *named]
    found = write_report(runs, out, study, shlex.join(words), notes.append).found
    if as_json:
        whole = {"report": out / "report.html", "runs": [run.path for run in runs], "notes": notes}
        print(json_line(whole | {"summary": found.rows, "totals": found.totals}))
        return 0
    print(*map(printable, notes), sep="\n", end="\n" if notes else "")
    compared, screen = [total for total in found.totals if total.interval], console()
    if len(found.panels) == 1 and len(found.rows) <= MANY:
        longest = max(found.panels[0].runs, key=lambda run: run.config.steps)
        screen.print(rich_table(longest, found.rows))
    elif 0 < len(compared) <= MANY:
        screen.print(totals_table(compared, screen.width))
    print(f"{printable(out / 'report.html')}, with figures (png, svg, pdf) and tables (csv) beside it")
    return 0


def opened(paths: Sequence[Path], trust: bool = False) -> list[Run]:
    """The runs of some folders, and of folders that hold some."""
    runs = []
    for path in paths:
        found, left = run_folders(path)
        if left:
            print(f"skipped, as nothing was evaluated there: {', '.join(map(printable, left))}")
        runs += [Run(one, trust) for one in found]
    return runs
