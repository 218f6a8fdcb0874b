"""Tables as a terminal of some width shows them: numbers stay whole, names are broken between their words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.console import Group
from rich.table import Table

BETWEEN = re.compile(r"(?<= )|(?<=[-_/:])(?=[^\W\d])")
"""Where a name may be broken: after a space, and after a hyphen and its like before a letter (1e-4 stays whole)."""

WIDE = 110
"""From so many columns on a number and its interval stand on one line."""


@dataclass(frozen=True)
class Column:
    head: str
    cells: Sequence[str]
    words: bool = False
    """Whether its cells may be broken between their words, as its head may."""
    left: bool = False

    @property
    def least(self) -> int:
        """The width that it needs."""
        broken = [self.head, *(self.cells if self.words else ())]
        whole = () if self.words else self.cells
        return widest([*(piece.rstrip() for text in broken for piece in BETWEEN.split(text)), *whole])

    @property
    def full(self) -> int:
        """The width in which nothing is broken."""
        return widest([self.head, *self.cells])


def widest(texts: Iterable[str]) -> int:
    return max((len(line) for text in texts for line in text.splitlines()), default=0)


def broken(text: str, width: int) -> str:
    """The text in lines of at most ``width``: between words, within a word only where it is longer than a line."""
    lines: list[str] = []
    for word in text.split(" "):
        space = " "
        for piece in [word] if len(word) <= width else BETWEEN.split(word):
            if lines and len(lines[-1] + space + piece) <= width:
                lines[-1] += space + piece
            else:
                lines.append(piece)
            space = ""
    return "\n".join(lines)


@dataclass(frozen=True)
class Look:
    """How a table looks beside its columns."""

    title: str | None = None
    caption: str | None = None
    pad_edge: bool = True
    foot: bool = False
    """Whether a line stands above the last row."""


def fitted(columns: Sequence[Column], width: int, look: Look, keys: int = 1) -> Table | Group:
    """The columns beside each other; those without room in tables below, each with the first ``keys`` columns, too."""
    border = 1 if look.pad_edge else -1
    room = width - border - sum(column.least + 3 for column in columns[:keys])
    parts: list[list[Column]] = [[]]
    left = room
    for column in columns[keys:]:
        if parts[-1] and column.least + 3 > left:
            parts.append([])
            left = room
        parts[-1].append(column)
        left -= column.least + 3
    made = [part_of([*columns[:keys], *part], width - border, look) for part in parts]
    made[0].title, made[-1].caption = look.title, look.caption
    return made[0] if len(made) == 1 else Group(*made)


def part_of(columns: Sequence[Column], room: int, look: Look) -> Table:
    """A table of these columns; what is left of the room keeps names whole, those of the first columns first."""
    made = Table(title_justify="left", pad_edge=look.pad_edge)
    left = room - sum(column.least + 3 for column in columns)
    cells: list[list[str]] = []
    for column in columns:
        width = min(column.full, column.least + max(0, left))
        left -= width - column.least
        made.add_column(broken(column.head, width), justify="left" if column.left else "right", no_wrap=True)
        cells.append([broken(text, width) if column.words else text for text in column.cells])
    rows = list(zip(*cells, strict=True))
    for place, row in enumerate(rows):
        if look.foot and place == len(rows) - 1:
            made.add_section()
        made.add_row(*row)
    return made
