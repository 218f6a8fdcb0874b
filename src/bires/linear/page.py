"""Keep the numbers and figures of a page equal to those of a run.

    python -m bires.linear.page OUT docs/policy-evaluation.md

measures nothing: it reads verdicts.csv and measured.csv of a finished study under OUT, rewrites what stands between the
marks ``<!-- verdicts -->`` or ``<!-- measured: CLAIM -->`` and ``<!-- end -->``, and copies the two files and the
figures next to the page.
"""

from __future__ import annotations

import csv
import re
import shutil
import sys
from pathlib import Path

from bires.errors import UserError

FIGURES = Path("figures") / "linear"
BLOCK = re.compile(r"<!-- (?P<kind>verdicts|measured: (?P<claim>[\w-]+)) -->\n.*?<!-- end -->", re.DOTALL)


def fill(text: str, verdicts: list[dict[str, str]], measured: list[dict[str, str]]) -> str:
    """The page with every marked block rewritten."""
    by_claim = {row["claim"]: row for row in verdicts}

    def block(found: re.Match[str]) -> str:
        claim = found["claim"]
        if claim is None:
            body = summary(verdicts)
        elif claim in by_claim:
            body = details(by_claim[claim], [row for row in measured if row["claim"] == claim])
        else:
            raise UserError(f"The page asks for the claim {claim!r}; the run has: {', '.join(by_claim)}.")
        return f"<!-- {found['kind']} -->\n{body}\n<!-- end -->"

    return BLOCK.sub(block, text)


def summary(verdicts: list[dict[str, str]]) -> str:
    """A table of all claims."""
    rows = [f"| [{row['claim']}](#{row['claim']}) | {row['statement']} | **{row['verdict']}** |" for row in verdicts]
    return "\n".join(["| claim | statement | measured |", "|---|---|---|", *rows])


def details(verdict: dict[str, str], measured: list[dict[str, str]]) -> str:
    """Statement, verdict, figure and numbers of one claim."""
    rows = [f"| {row['quantity']} | {number(row['value'])} |" for row in measured]
    head = f"> {verdict['statement']} **Measured: {verdict['verdict']}.** Source: {verdict['source']}."
    figure = f"![{verdict['claim']}]({FIGURES.as_posix()}/{verdict['claim']}.png)"
    return "\n".join([head, "", figure, "", "| quantity | value |", "|---|---|", *rows])


def number(text: str) -> str:
    """Four significant digits; what is below 1e-12 is rounding."""
    value = float(text)
    return "< 1e-12" if 0.0 < abs(value) < 1e-12 else f"{value:.4g}"


def read(path: Path) -> list[dict[str, str]]:
    if not path.is_file():
        raise UserError(
            f"{path} does not exist. Give the folder of a finished study: bires reproduce linear --out FOLDER."
        )
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def refresh(out: Path, page: Path) -> None:
    """Rewrite the page from a run, and copy the run's figures and numbers next to it."""
    text = fill(page.read_text(encoding="utf-8"), read(out / "verdicts.csv"), read(out / "measured.csv"))
    page.write_text(text, encoding="utf-8")
    folder = page.parent / FIGURES
    folder.mkdir(parents=True, exist_ok=True)
    for path in [out / "verdicts.csv", out / "measured.csv", *sorted((out / "figures").glob("*.png"))]:
        shutil.copyfile(path, folder / path.name)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("Usage: python -m bires.linear.page OUT PAGE, for example: runs/linear docs/policy-evaluation.md")
    try:
        refresh(Path(sys.argv[1]), Path(sys.argv[2]))
    except UserError as error:
        sys.exit(str(error))
