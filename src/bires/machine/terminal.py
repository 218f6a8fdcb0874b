"""What is printed: for a terminal, where names and messages come from files and may hold anything, and for machines."""

from __future__ import annotations

import json
import math
import shutil
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext, redirect_stdout
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

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


def terminal_width() -> int | None:
    """Characters in a line of the terminal; None: output goes elsewhere."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def json_line(value: Any) -> str:
    """What `--json` prints: one line."""
    return json.dumps(plain(value), allow_nan=False)


def aside(as_json: bool) -> AbstractContextManager[object]:
    """With `--json` remarks on the way, and what environments print, go to the standard error."""
    return redirect_stdout(sys.stderr) if as_json else nullcontext()


def plain(value: Any) -> Any:
    """Records and paths as JSON has them; numbers that are not finite are None, as it has none for them."""
    if is_dataclass(value) and not isinstance(value, type):
        value = vars(value)
    if isinstance(value, Mapping):
        return {name: plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if isinstance(value, Path):
        return str(value)
    return None if isinstance(value, float) and not math.isfinite(value) else value
