"""The study: files, verdicts, and imports that point one way."""

from __future__ import annotations

import ast
import csv
from pathlib import Path

import numpy as np
import pytest

import bires.linear
from bires.linear import claims, figures, stability, study

CHEAP = (claims.presplit, claims.bound, claims.learnable)


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_the_study_writes_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(study, "CLAIMS", CHEAP)
    verdicts = study.run(tmp_path, quick=True)
    names = [verdict.claim for verdict in verdicts]
    assert [row["claim"] for row in rows(tmp_path / "verdicts.csv")] == names
    assert {row["verdict"] for row in rows(tmp_path / "verdicts.csv")} == {"yes"}
    measured = {(row["claim"], row["quantity"]): float(row["value"]) for row in rows(tmp_path / "measured.csv")}
    assert measured["presplit", "MSVE at the MSBE minimum"] == pytest.approx(5 / 32)
    assert measured["bound", "violations"] == 0
    for name in names:
        for kind in ("png", "svg"):
            assert (tmp_path / "figures" / f"{name}.{kind}").stat().st_size > 1000
    assert len(rows(tmp_path / "data" / "bound-points.csv")) == claims.QUICK.mdps


def test_figures_do_not_change_between_runs(tmp_path: Path) -> None:
    verdict = claims.presplit()
    one, other = tmp_path / "one", tmp_path / "other"
    for folder in (one, other):
        folder.mkdir()
        figures.save(verdict, folder)
    for kind in ("png", "svg"):
        assert (one / f"presplit.{kind}").read_bytes() == (other / f"presplit.{kind}").read_bytes()


def test_a_claim_that_does_not_hold_says_no(tmp_path: Path) -> None:
    verdict = claims.Verdict("presplit", "x", "y", False, {"number": 1.5}, {})
    study.write_verdicts(tmp_path, [verdict])
    assert rows(tmp_path / "verdicts.csv")[0]["verdict"] == "no"


def test_the_bias_of_one_successor_grows_with_noise() -> None:
    verdict = claims.bias(claims.QUICK)
    assert verdict.holds
    for family in ("A-split", "ring"):
        errors = [row["one successor"] for row in verdict.tables["noise"] if row["family"] == family]
        assert errors[0] < 1e-9 < errors[2] < errors[6]


def test_growth_tells_divergence_from_rest() -> None:
    steps = np.arange(101)
    assert stability.growth(np.exp(0.1 * steps)[None]) > 10
    assert stability.growth(np.ones((3, 101))) == pytest.approx(1.0)
    assert stability.growth(np.where(steps > 70, np.nan, 1.0)[None]) > 1e20
    assert stability.growth(np.where(steps > 20, np.nan, 1.0)[None]) == np.inf, "also if it overflowed long ago"
    assert stability.growth(np.zeros((3, 101))) == 0.0


def test_the_lab_imports_rules_and_errors_only() -> None:
    for path in Path(bires.linear.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            found = []
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "bires":
                found = [node.module or ""] if node.module != "bires" else [f"bires.{n.name}" for n in node.names]
            if isinstance(node, ast.Import):
                found = [n.name for n in node.names if n.name.split(".")[0] == "bires"]
            for name in found:
                assert name.startswith("bires.linear") or name in ("bires.rules", "bires.errors"), (
                    f"{path.name}: {name}"
                )


@pytest.mark.slow
def test_the_whole_study_runs(tmp_path: Path) -> None:
    verdicts = study.run(tmp_path, quick=True)
    assert {verdict.claim for verdict in verdicts} == set(figures.FIGURES)
    assert len(list((tmp_path / "figures").glob("*.png"))) == len(study.CLAIMS)
