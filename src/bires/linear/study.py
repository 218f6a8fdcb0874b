"""The whole lab in one call: measure every claim, draw every figure, write every number."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

from bires.linear import claims, figures, improvement, relatives, speed, stability
from bires.linear.claims import FULL, QUICK, LabScale, Table, Verdict

CLAIMS: tuple[Callable[[LabScale], Verdict], ...] = (
    claims.presplit,
    claims.bound,
    claims.unbounded,
    claims.upper,
    claims.learnable,
    claims.tradeoff,
    improvement.improved,
    speed.slower,
    speed.cancellation,
    speed.rooms,
    speed.neural_slower,
    stability.baird,
    stability.two_states,
    stability.nonlinear,
    stability.which_eta,
    stability.targets,
    claims.bias,
    relatives.noise,
    relatives.rests,
    relatives.cures,
    stability.control,
)
"""In the order of the paper's section 3; what goes beyond it comes last."""


def run(out: Path, quick: bool = False) -> list[Verdict]:
    """Measure all claims and write, under ``out``: figures/, data/, verdicts.csv and measured.csv.

    ``quick`` measures on few MDPs, seeds and steps: enough to see that everything works, not to believe the numbers.
    """
    for folder in (out / "figures", out / "data"):
        folder.mkdir(parents=True, exist_ok=True)
    verdicts = []
    for claim in CLAIMS:
        verdict = claim(QUICK if quick else FULL)
        for name, rows in verdict.tables.items():
            write_table(out / "data" / f"{verdict.claim}-{name}.csv", rows)
        figures.save(verdict, out / "figures")
        verdicts.append(verdict)
    write_verdicts(out, verdicts)
    return verdicts


def write_verdicts(out: Path, verdicts: list[Verdict]) -> None:
    """verdicts.csv has one row for each claim, measured.csv one for each number."""
    rows: Table = [
        {"claim": v.claim, "verdict": answer(v), "statement": v.statement, "source": v.source} for v in verdicts
    ]
    write_table(out / "verdicts.csv", rows)
    numbers: Table = [
        {"claim": v.claim, "quantity": name, "value": f"{value:.10g}"}
        for v in verdicts
        for name, value in v.measured.items()
    ]
    write_table(out / "measured.csv", numbers)


def answer(verdict: Verdict) -> str:
    return "yes" if verdict.holds else "no"


def write_table(path: Path, rows: Table) -> None:
    """Rows as CSV; no rows, no file."""
    if not rows:
        return
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
