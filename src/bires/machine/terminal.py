"""What a terminal shows: names and messages come from files, and may hold anything."""

from __future__ import annotations

from rich.console import Console


def printable(text: object, keep: str = "") -> str:
    """Text without control sequences: characters that do not print are spelled out, but for those to ``keep``."""
    return "".join(
        one if one.isprintable() or one in keep else one.encode("unicode_escape").decode() for one in str(text)
    )


def elided(name: str, most: int) -> str:
    """A name that fits; of a long one the end, which tells it apart from others."""
    return name if len(name) <= most else f"…{name[1 - most :]}"


def counted(count: int, what: str) -> str:
    """`1 seed`, `2 seeds`."""
    return f"{count} {what}{'' if count == 1 else 's'}"


def console(stderr: bool = False) -> Console:
    """A console that takes no text for mark-up, emoji or numbers to colour."""
    return Console(stderr=stderr, highlight=False, markup=False, emoji=False)
