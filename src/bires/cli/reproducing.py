"""`bires reproduce`."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.table import Table

from bires.errors import UserError


def reproduce_linear(out: Path, quick: bool) -> int:
    """Runs the policy-evaluation lab and prints its verdicts."""
    from bires.linear import study

    try:
        out.mkdir(parents=True, exist_ok=True)
        (out / "verdicts.csv").touch()
    except OSError as error:
        raise UserError(f"Cannot write to --out {out} ({error.strerror}). Give a folder you may write to.") from error
    verdicts = study.run(out, quick)
    table = Table(title="claims of section 3", title_justify="left")
    table.add_column("claim")
    table.add_column("holds")
    table.add_column("statement", overflow="fold")
    for verdict in verdicts:
        table.add_row(verdict.claim, "yes" if verdict.holds else "NO", verdict.statement)
    console = Console(highlight=False)
    console.print(table)
    console.print(f"figures, data and verdicts: {out}", soft_wrap=True)
    return 0
