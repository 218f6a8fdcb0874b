"""Keep the numbers and figures of a page equal to those of a run.

    python -m bires.linear.page OUT docs/policy-evaluation.md docs/rules.md

measures nothing: it reads verdicts.csv and measured.csv of a finished study under OUT, rewrites what stands between the
marks ``<!-- verdicts -->``, ``<!-- relatives -->`` or ``<!-- measured: CLAIM -->`` and ``<!-- end -->``, and copies the
two files and the figures next to the page.
"""

from __future__ import annotations

import csv
import re
import shutil
import sys
from pathlib import Path

from bires.errors import UserError

FIGURES = Path("figures") / "linear"
BLOCK = re.compile(r"<!-- (?P<kind>verdicts|relatives|measured: (?P<claim>[\w-]+)) -->\n.*?<!-- end -->", re.DOTALL)


def fill(text: str, verdicts: list[dict[str, str]], measured: list[dict[str, str]]) -> str:
    """The page with every marked block rewritten."""
    by_claim = {row["claim"]: row for row in verdicts}

    def block(found: re.Match[str]) -> str:
        claim = found["claim"]
        if found["kind"] == "relatives":
            body = relatives(measured)
        elif claim is None:
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


METHODS = {
    "TD": "`res`, η = 0",
    "TD, target network": "`td`",
    "bi(0.05)": "`bi`, η = 0.05",
    "bi(0.2)": "`bi`, η = 0.2",
    "RG": "`double-res`, η = 1",
    "RG, one successor": "`res`, η = 1",
    "RA(0.5)": "`double-res`, η = 0.5",
    "TDRC": "`qrc`",
    "C-DQN": "`convergent`",
    "ortho(0.5)": "`ortho`, η = 0.5",
    "fr(0.5)": "`fr`, η = 0.5",
    "Baird's φ + 0.05": "`baird`, η = 0.05",
    "kernel loss": "–",
    "RG, borrowed": "–",
}
"""Methods of the lab → the rule of deep agents."""
PLACES = ("Baird's star", "w→2w", "random MDPs")
MINIMA = ("MSPBE", "MSBE", "MSTDE")


def relatives(measured: list[dict[str, str]]) -> str:
    """One row for each method: its bias, where it rests, and where it is stable although TD diverges."""
    known = {row["quantity"]: float(row["value"]) for row in measured if row["claim"] in ("noise", "rests", "cures")}
    heads = ("method", "rule", "bias / standard error", "rests at the minimum of", *PLACES)
    rows = [" | ".join(heads), " | ".join("---" for _ in heads)]
    for name, rule in METHODS.items():
        bias = known.get(f"{name}: largest bias / standard error")
        stable = [known.get(f"{name}: stable on {place}") for place in PLACES]
        shares = ["–" if share is None or share != share else f"{100 * share:.0f} %" for share in stable]
        rows.append(" | ".join([name, rule, "–" if bias is None else f"{bias:.1f}", resting(name, known), *shares]))
    return "\n".join(f"| {row} |" for row in rows)


def resting(name: str, known: dict[str, float]) -> str:
    """The error whose minimum a method rests at, or nearly."""
    found = {error: known.get(f"{name}: median distance to the {error} minimum") for error in MINIMA}
    for error, distance in found.items():
        if distance is not None and distance < 0.01:
            return error if distance < 1e-6 else f"{error}, nearly"
    return "–" if None in found.values() else "none of them"


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
    if len(sys.argv) < 3:
        sys.exit("Usage: python -m bires.linear.page OUT PAGE …, for example: runs/linear docs/policy-evaluation.md")
    try:
        for page in sys.argv[2:]:
            refresh(Path(sys.argv[1]), Path(page))
    except UserError as error:
        sys.exit(str(error))
