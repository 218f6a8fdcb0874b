"""Tidy tables: columns of a CSV file, without a data-frame library; any of them takes one."""

from __future__ import annotations

import csv
import html
import importlib
import io
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, final

import numpy as np

from bires.errors import UserError
from bires.machine.memory import free_memory
from bires.machine.terminal import printable, terminal_width

MEMORY_PER_BYTE = 20
"""About how much memory a byte of a CSV file takes while it is read."""
SHOWN = 10
"""Rows that a long table shows."""


@final
class Table(dict[str, np.ndarray]):
    """Named columns of equal length: ``table["step"]`` is an array, ``len(table)`` the number of rows.

    `pandas.DataFrame(table)` and `polars.DataFrame(table)` work. It is a dictionary because these ask for one, and
    would take any other mapping for a list of names.
    """

    def __init__(self, columns: Mapping[str, Sequence[Any] | np.ndarray]) -> None:
        super().__init__({name: np.asarray(values) for name, values in columns.items()})
        if len({len(values) for values in self.values()}) > 1:
            lengths = ", ".join(f"{name}: {len(values)}" for name, values in self.items())
            raise UserError(f"A table was given columns of unequal lengths ({lengths}); accepted: equal ones.")

    def __len__(self) -> int:
        return self.height

    def __bool__(self) -> bool:
        """Whether there are columns: a table without rows still has its names."""
        return bool(self.columns)

    def __missing__(self, name: str) -> np.ndarray:
        raise KeyError(f"{name!r} is not a column; the table has: {', '.join(self)}")

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return list(self)

    @property
    def height(self) -> int:
        """The number of rows."""
        return len(next(iter(self.values()), ()))

    def where(self, keep: np.ndarray) -> Table:
        """The rows where ``keep`` is true, or of these numbers: ``table.where(table["step"] > 1000)``."""
        return Table({name: values[keep] for name, values in self.items()})

    def rows(self) -> Iterator[dict[str, Any]]:
        """Each row as a dictionary of plain values."""
        for i in range(self.height):
            cells = {name: values[i] for name, values in self.items()}
            yield {name: value.item() if isinstance(value, np.generic) else value for name, value in cells.items()}

    def to_pandas(self) -> Any:
        """The table as a `pandas.DataFrame`, where pandas is installed."""
        try:
            pandas: Any = importlib.import_module("pandas")
        except ImportError as error:
            raise UserError("to_pandas() needs pandas: `pip install pandas`.") from error
        return pandas.DataFrame(self)

    def __repr__(self) -> str:
        return self.show(SHOWN, terminal_width())

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        names, *rows = self._cells(SHOWN)
        head = "".join(f"<th>{html.escape(name)}</th>" for name in names)
        body = "".join(f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
        more = f"<p>{self.height} rows × {len(names)} columns</p>"
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"

    def show(self, most: int | None = None, width: int | None = None) -> str:
        """The rows as text, or the first of them and how many there are.

        Columns that do not fit into ``width`` stand below the others, with the numbers of the rows before each part.
        """
        cells = self._cells(most)
        parts = [aligned(cells)]
        if width is not None and len(parts[0][0]) > width:
            numbers = ["", *map(str, range(len(cells) - 1))]
            parts = [aligned(list(zip(numbers, *columns, strict=True))) for columns in fitting(cells, width)]
        more = [f"… {self.height} rows"] if self.height > len(cells) - 1 else []
        return "\n".join(line for part in parts for line in part) + "".join(f"\n{line}" for line in more)

    def _cells(self, most: int | None) -> list[list[str]]:
        """The names, then the first rows, as text."""
        rows = [
            [format_cell(value) for value in row.values()] for row in self.where(np.arange(self.height)[:most]).rows()
        ]
        return [[printable(name) for name in self], *rows]


def aligned(cells: Sequence[Sequence[str]]) -> list[str]:
    """Rows as lines, with columns of equal width."""
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in cells]


def fitting(cells: Sequence[Sequence[str]], width: int) -> Iterator[list[tuple[str, ...]]]:
    """The columns in parts, each as wide as fits beside the numbers of the rows."""
    part: list[tuple[str, ...]] = []
    room = left = width - len(str(len(cells)))
    for column in zip(*cells, strict=True):
        needed = 2 + max(map(len, column))
        if part and needed > left:
            yield part
            part, left = [], room
        part.append(column)
        left -= needed
    yield part


def format_cell(value: Any) -> str:
    """A value as `Table.show` prints it."""
    return f"{value:.5g}" if isinstance(value, float) else printable(value)


def read_csv(path: Path, types: Mapping[str, type] | None = None, rest: type | None = None) -> Table:
    """A CSV file as a table. ``types`` says which columns are ``int``, ``float`` or ``str``, ``rest`` what others are.

    A column of which neither says a word is what its values are: whole numbers, floats (empty: nan) or text. The last
    row may be half written, if a run is writing it; such a row elsewhere is damage.
    """
    try:
        if path.stat().st_size * MEMORY_PER_BYTE > free_memory():
            raise OSError(f"its {path.stat().st_size} bytes are more than fit into memory")
        with path.open(newline="") as file:
            text = file.read()
        whole = text[: text.rfind("\n") + 1] if "\n" in text else text
        names, *rows = [*csv.reader(io.StringIO(whole, newline=""))] or [[]]
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
    columns = {name: [row[i] for row in rows] for i, name in enumerate(names)}
    kinds = {name: (types or {}).get(name, rest) for name in columns}
    return Table({name: typed(path, name, values, kinds[name]) for name, values in columns.items()})


def typed(path: Path, name: str, values: list[str], kind: type | None) -> np.ndarray:
    """A column of text as what it is to be; an empty float is nan."""
    if kind is None:
        return parse(values)
    if kind is str:
        return np.array(values, dtype=object)
    try:
        found = [kind(value) if value or kind is int else np.nan for value in values]
        return np.array(found, dtype=np.int64 if kind is int else np.float64)
    except (ValueError, OverflowError) as error:
        raise UserError(
            f"{path} has values that are not numbers {name!r} ({error}). Put a good copy back, or leave it out."
        ) from error


def parse(values: list[str]) -> np.ndarray:
    """A column of text as whole numbers, else as floats (empty: nan), else as text."""
    for convert in (int, lambda text: float(text) if text else float("nan")):
        try:
            return np.array([convert(value) for value in values])
        except ValueError:
            continue
    return np.array(values, dtype=object)
