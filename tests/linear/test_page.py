"""The page shows what was measured, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bires.errors import UserError
from bires.linear import page, study

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "policy-evaluation.md"
VERDICTS = [{"claim": "one", "verdict": "no", "statement": "It holds.", "source": "ours"}]
MEASURED = [
    {"claim": "one", "quantity": "size", "value": "0.123456789"},
    {"claim": "two", "quantity": "x", "value": "1"},
]


def test_blocks_are_rewritten_and_the_rest_is_kept() -> None:
    text = "before\n<!-- measured: one -->\nstale\n<!-- end -->\nbetween\n<!-- verdicts -->\n<!-- end -->\nafter\n"
    filled = page.fill(text, VERDICTS, MEASURED)
    assert "stale" not in filled
    assert "**Measured: no.**" in filled
    assert "| size | 0.1235 |" in filled
    assert "| x | 1 |" not in filled
    assert re.sub(r"<!--.*?<!-- end -->", "", filled, flags=re.DOTALL) == "before\n\nbetween\n\nafter\n"
    assert page.fill(filled, VERDICTS, MEASURED) == filled


def test_an_unknown_claim_is_refused() -> None:
    with pytest.raises(UserError, match="asks for the claim 'three'; the run has: one"):
        page.fill("<!-- measured: three -->\n<!-- end -->", VERDICTS, MEASURED)


def test_a_missing_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"verdicts\.csv does not exist"):
        page.refresh(tmp_path, PAGE)


@pytest.mark.parametrize(
    ("text", "shown"), [("0", "0"), ("1e-15", "< 1e-12"), ("-0.5", "-0.5"), ("16644.3", "1.664e+04")]
)
def test_numbers_are_short(text: str, shown: str) -> None:
    assert page.number(text) == shown


def test_the_page_is_the_one_its_numbers_make() -> None:
    folder = DOCS / page.FIGURES
    verdicts, measured = page.read(folder / "verdicts.csv"), page.read(folder / "measured.csv")
    rules = (DOCS / "rules.md").read_text(encoding="utf-8")
    assert "| TDRC | `qrc` |" in rules
    assert page.fill(rules, verdicts, measured) == rules
    text = PAGE.read_text(encoding="utf-8")
    assert page.fill(text, verdicts, measured) == text
    assert set(re.findall(r"<!-- measured: ([\w-]+) -->", text)) == {row["claim"] for row in verdicts}
    assert len(verdicts) == len(study.CLAIMS)
    for name in re.findall(r"\]\((figures/[^)]+)\)", text):
        assert (DOCS / name).stat().st_size < 80_000
