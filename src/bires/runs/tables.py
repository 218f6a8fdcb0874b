"""Tidy tables: columns of a CSV file, without a data-frame library (but any of them takes one)."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bires.errors import UserError
from bires.machine.terminal import printable


class Table(Mapping[str, np.ndarray]):
    """Named columns of equal length. `pandas.DataFrame(dict(table))` and `polars.DataFrame(dict(table))` work."""

    def __init__(self, columns: Mapping[str, Sequence[Any] | np.ndarray]) -> None:
        self._columns = {name: np.asarray(values) for name, values in columns.items()}

    def __getitem__(self, name: str) -> np.ndarray:
        return self._columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    @property
    def height(self) -> int:
        """The number of rows."""
        return len(next(iter(self._columns.values()))) if self._columns else 0

    def where(self, keep: np.ndarray) -> Table:
        """The rows where ``keep`` is true."""
        return Table({name: values[keep] for name, values in self._columns.items()})

    def rows(self) -> Iterator[dict[str, Any]]:
        """Each row as a dictionary of plain values."""
        for i in range(self.height):
            cells = {name: values[i] for name, values in self._columns.items()}
            yield {name: value.item() if isinstance(value, np.generic) else value for name, value in cells.items()}

    def __repr__(self) -> str:
        return self.show(10)

    def show(self, most: int | None = None) -> str:
        """The rows as text, or the first of them and how many there are."""
        shown = list(self.rows())[:most]
        cells = [
            [printable(name) for name in self._columns],
            *([format_cell(v) for v in row.values()] for row in shown),
        ]
        widths = [max(len(row[i]) for row in cells) for i in range(len(self._columns))]
        lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in cells]
        more = [f"… {self.height} rows"] if self.height > len(shown) else []
        return "\n".join(lines + more)


def format_cell(value: Any) -> str:
    """A value as `Table.show` prints it."""
    return f"{value:.5g}" if isinstance(value, float) else printable(value)


def read_csv(path: Path) -> Table:
    """A CSV file as a table: whole numbers, floats (empty: nan) or text, column by column.

    The last row may be half written, if a run is writing it; such a row elsewhere is damage.
    """
    try:
        with path.open(newline="") as file:
            names, *rows = [*csv.reader(file)] or [[]]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"{path} cannot be read: {error}. Put a good copy back, or leave that run out.") from error
    if rows and len(rows[-1]) != len(names):
        rows.pop()
    for number, row in enumerate(rows, 2):
        if len(row) != len(names):
            raise UserError(
                f"{path}, line {number}: {len(row)} values where there are {len(names)} columns. Put a good copy back, "
                "or leave that run out."
            )
    return Table({name: parse([row[i] for row in rows]) for i, name in enumerate(names)})


def parse(values: list[str]) -> np.ndarray:
    """A column of text as whole numbers, else as floats (empty: nan), else as text."""
    for convert in (int, lambda text: float(text) if text else float("nan")):
        try:
            return np.array([convert(value) for value in values])
        except ValueError:
            continue
    return np.array(values, dtype=object)
