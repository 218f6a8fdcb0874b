"""docs/settings.md, made from the registries: `make pages`."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from bires.settings.tables import SettingRow, SettingTable, tables

HEAD = """# Settings

<!-- Made by `make pages` from the registries of agents, planners and environments. Do not edit. -->

Every setting is a flag of `bires train` and `bires compare`, and a keyword of `bires.train`: `--eval-every 5000` is
`eval_every=5000`. Where *several values* says yes, several values make a grid, and every combination is a member
of the population: `--eta 0.05 0.2` is `eta=[0.05, 0.2]`. The same tables as text:

    bires list settings

The manifest of a run keeps all of its settings. Flags that change no result (`--workers`, `--cohorts`, …) are in
`bires train --help`.
"""
COLUMNS = ("setting", "default", "accepted", "several values", "what it is")


def page() -> str:
    """The whole page."""
    return "\n".join([HEAD, *(line for table in tables() for line in section(table))])


def section(table: SettingTable) -> Iterator[str]:
    """A heading, and the table below it."""
    yield f"## {table.title}\n"
    yield from grid(COLUMNS, [cells(row) for row in table.rows])
    if table.run:
        yield f"Defaults of {table.title} for the settings of every run, by what it sees:\n"
        names = list(next(iter(table.run.values())))
        yield from grid(
            ("setting", *table.run),
            [[f"`{name}`", *(defaults.get(name, "") for defaults in table.run.values())] for name in names],
        )


def cells(row: SettingRow) -> list[str]:
    return [f"`{row.name}`", row.default or "–", row.accepted, "yes" if row.several else "no", row.help]


def grid(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """A table of Markdown, and an empty line."""
    yield f"| {' | '.join(heads)} |"
    yield "|---" * len(heads) + "|"
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |"
    yield ""


def main(arguments: Sequence[str]) -> None:
    if len(arguments) != 1:
        sys.exit("Usage: python -m bires.cli.settings_page PAGE")
    Path(arguments[0]).write_text(page(), encoding="utf-8")
    print(arguments[0])


if __name__ == "__main__":
    main(sys.argv[1:])
