"""Figures, tables and pages from committed curves.

    python -m bires.studies.publish results docs report README.md

measures nothing: every folder under ``results`` is a collection of run folders, with the name of a study or any other.
For each, the tables are written beside the runs, the figures to docs/figures/NAME/ and a whole report to report/NAME/.
Then what stands in the pages between ``<!-- KIND: NAME -->`` and ``<!-- end -->`` is rewritten; the kinds are
``results`` (a row per task), ``totals`` (over tasks), ``claims`` (totals, claims and notes), and ``again``: the rows of
tasks that have other runs of the same seeds in ``results/again/NUMBER/TASK``.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from bires.analysis import summary
from bires.analysis.curves import Panel, collect
from bires.analysis.intervals import Estimate
from bires.analysis.report.content import Judged
from bires.analysis.report.write import write_found
from bires.analysis.summary import Found, Row
from bires.errors import UserError
from bires.runs.run import Run
from bires.studies.records import STUDIES
from bires.studies.reporting import about
from bires.studies.totalled import FIXED, left_out, markdown, minus, totals_lines

BLOCK = re.compile(r"<!-- (?P<kind>results|totals|claims|again): (?P<name>[\w-]+) -->\n.*?<!-- end -->", re.DOTALL)
FEW = 3
"""As many compared kinds, or more, get no sentences about each."""
JUDGED_AS = {"learning": "auc", "planning": "oracle"}
"""Collections whose curves are held against the claims of a study of another name."""
AGAIN = "again"
"""The folder of runs whose seeds have a longer run in a collection."""
KEPT = ("summary.csv", "totals.csv", "claims.csv", "curves.csv")
"""What is kept beside the runs: the numbers behind figures and tables, byte for byte the same every time."""


def collections(results: Path) -> dict[str, list[Run]]:
    """Name → runs, for every folder under ``results`` that holds runs."""
    return {name: runs for name, runs in runs_below(results).items() if name != AGAIN}


def runs_below(folder: Path) -> dict[str, list[Run]]:
    """Name → runs, for every folder in a folder; none, if it is not there."""
    folders = sorted(path for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []
    found = {path.name: sorted(m.parent for m in path.rglob("manifest.json")) for path in folders}
    return {name: [Run(path) for path in paths] for name, paths in found.items() if paths}


def repeated(results: Path) -> list[Panel]:
    """The panels of all runs of seeds that have a longer run elsewhere, in the order of their numbers."""
    return [panel for runs in runs_below(results / AGAIN).values() for panel in collect(runs)]


def study_of(name: str) -> str | None:
    """The study whose claims a collection is held against: variants-60k, say, against those of `variants`."""
    begun = [study for study in STUDIES if f"{name}-".startswith(f"{study}-")]
    return max(begun, key=len, default=JUDGED_AS.get(name))


def publish(results: Path, docs: Path, reports: Path, pages: Sequence[Path]) -> list[Path]:
    """Rewrites everything that is made from ``results``."""
    written = []
    found_of = {name: found_in(runs) for name, runs in collections(results).items()}
    for name, found in found_of.items():
        out = reports / name
        files = write_found(found, out, about(found.panels, study_of(name), "make figures"))
        figures = docs / "figures" / name
        figures.mkdir(parents=True, exist_ok=True)
        for old in (*(results / name / table for table in KEPT), *figures.glob("*.png")):  # of other runs, perhaps
            old.unlink(missing_ok=True)
        for path in files:
            if path.name in KEPT:
                written.append(Path(shutil.copyfile(path, results / name / path.name)))
            elif path.suffix == ".png":
                written.append(Path(shutil.copyfile(path, figures / path.name)))
    others = repeated(results)
    for page in pages:
        page.write_text(fill(page.read_text(encoding="utf-8"), found_of, others), encoding="utf-8")
    return written + list(pages)


def found_in(runs: Sequence[Run]) -> Found:
    """The curves of a collection, and all that is computed from them, once."""
    return summary.find(collect(runs))


def fill(text: str, found_of: Mapping[str, Found], others: Sequence[Panel] = ()) -> str:
    """A page with every marked block rewritten; ``others`` are the panels of repeated runs."""

    def block(found: re.Match[str]) -> str:
        name = found["name"]
        if name not in found_of:
            raise UserError(f"The page asks for the results {name!r}; there are: {', '.join(found_of)}.")
        results = found_of[name]
        blocks = {
            "results": lambda: results_block(summarised(results)),
            AGAIN: lambda: results_block(again(summarised(results), others)),
            "totals": lambda: "\n".join(totals_lines(results)),
            "claims": lambda: claims_block(name, results),
        }
        return f"<!-- {found['kind']}: {name} -->\n{blocks[found['kind']]()}\n<!-- end -->"

    return BLOCK.sub(block, text)


Summarised = tuple[Panel, Sequence[Row]]
"""A panel and its rows."""


def summarised(found: Found) -> list[Summarised]:
    return [(panel, [row for row in found.rows if row.task == panel.title]) for panel in found.panels]


def again(tasks: Sequence[Summarised], others: Sequence[Panel]) -> list[Summarised]:
    """The tasks that have other runs, each with these."""
    repeats = {title: [o for o in others if o.title == title] for title in {o.title for o in others}}
    return [
        one
        for panel, rows in tasks
        if panel.title in repeats
        for one in [(panel, rows), *((other, summary.summarise(other)) for other in repeats[panel.title])]
    ]


def results_block(tasks: Sequence[Summarised]) -> str:
    """One line per task and kind that has a baseline beside it."""
    heads = [
        "task",
        "steps",
        "baseline",
        "",
        "difference of scores",
        "of final returns",
        "AUC improvement",
        "intervals",
    ]
    lines = markdown(heads, [])
    for panel, found in tasks:
        rows = {row.kind: row for row in found}
        for kind, row in zip(panel.kinds, found, strict=True):
            baseline = panel.base_of(kind)
            if row.difference is not None and baseline is not None:
                base = rows[baseline.label]
                gains = [minus(part.show(form)) for part, form in summary.shown(row) if part]
                steps = f"{row.last_step:,}".replace(",", FIXED)
                names = f"{panel.title} | {steps} | {base.kind} {final(base)} | {row.kind} {final(row)}"
                lines.append(f"| {names} | {' | '.join(gains)} | {row.interval} |")
    return "\n".join(lines)


SMALL = 10.0
"""Returns below this have a digit behind the point."""


def final(row: Row) -> str:
    note = f", {row.diverged} diverged" if row.diverged else ""
    form = ".1f" if abs(row.final_return or 0) < SMALL else ".0f"
    error = "" if row.final_error is None else f" ± {row.final_error:{form}}"
    return f"{row.final_return:{form}}{error} (n = {row.members}{note})".replace("-", "−")


def percent(found: Estimate) -> str:
    return minus(found.show("+.0%"))


def claims_block(name: str, results: Found) -> str:
    """The totals over all tasks, the study's claims, and in which settings the runs differ from the paper's."""
    found = about(results.panels, study_of(name), "")
    heads = ["claim", "paper", "ours [95 % interval]", "intervals", "verdict"]
    judged = [c for c in found.claims if c.answer != "no data"]
    rows = [[c.statement, c.paper or "–", measured(c), c.interval or "–", f"**{c.answer}**"] for c in judged]
    lines, waiting = markdown(heads, rows), len(found.claims) - len(judged)
    notes = [*found.notes, *([f"Claims without runs yet: {waiting} of {len(found.claims)}."] if waiting else [])]
    tables = [*totals_lines(results), *left_out(results), *lines]
    return "\n".join([*tables, *(f"\n{note}" for note in [*task_notes(results), *notes])])


def task_notes(results: Found) -> list[str]:
    """On which tasks each kind is ahead of its baseline or behind it, and what Q believes; only of few kinds."""
    gains, tasks = results.gains(), summarised(results)
    return [note for kind in gains for note in notes_of(kind, tasks)] if len(gains) < FEW else []


def notes_of(kind: str, tasks: Sequence[Summarised]) -> list[str]:
    """The same for one kind."""
    pairs = [pair for task in tasks if (pair := with_baseline(task, kind)) is not None]
    ahead = [row.task for _, row in pairs if row.difference and row.difference.low > 0]
    behind = [row.task for _, row in pairs if row.difference and row.difference.high < 0]
    notes = [
        f"Of {len(pairs)} tasks the interval of {kind}'s difference of scores is above zero on {listed(ahead)}, and "
        f"below it on {listed(behind)}."
    ]
    too_high = np.array([[excess(base), excess(row)] for base, row in pairs], float)
    if len(too_high := too_high[~np.isnan(too_high).any(1)]):
        base, other = (too_high > 0).sum(0)
        nearer = (abs(too_high[:, 1]) < abs(too_high[:, 0])).sum()
        notes.append(
            f"Q is above what returns make likely on {base} of {len(too_high)} tasks with {pairs[0][0].kind}, and on "
            f"{other} with {kind}, which is nearer to it on {nearer}."
        )
    return notes


def with_baseline(task: Summarised, kind: str) -> tuple[Row, Row] | None:
    """The rows of a kind's baseline and of the kind, where both ran."""
    panel, found = task
    rows = {row.kind: row for row in found}
    curves = {curves.label: curves for curves in panel.kinds}
    base = panel.base_of(curves[kind]) if kind in curves else None
    return (rows[base.label], rows[kind]) if base is not None and rows[kind].difference is not None else None


def excess(row: Row) -> float:
    """By how much Q is above what the returns make likely; nan where that is not known."""
    return np.nan if row.q is None or row.q_expected is None else row.q - row.q_expected


def listed(names: Sequence[str]) -> str:
    return f"{len(names)} ({', '.join(names)})" if names else "none"


def measured(claim: Judged) -> str:
    if claim.value is None:
        return "–"
    if claim.unit == "share":
        return percent(claim.value)
    return minus(claim.value.show(".3g"))


def main(arguments: Sequence[str]) -> None:
    if len(arguments) < 3:
        sys.exit("Usage: python -m bires.studies.publish RESULTS DOCS REPORTS PAGE…")
    results, docs, reports, *pages = map(Path, arguments)
    try:
        for path in publish(results, docs, reports, pages):
            print(path)
    except UserError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main(sys.argv[1:])
