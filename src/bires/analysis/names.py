"""Names of tasks and algorithms as parts of figures and of file names."""

from __future__ import annotations

import re


def elided(name: str, most: int) -> str:
    """A name that fits; of a long one the end, which tells it apart from others."""
    return name if len(name) <= most else f"…{name[1 - most :]}"


def file_name(name: str) -> str:
    """A name as one file or folder: nothing in it leads elsewhere, and it is not too long for a disk."""
    plain = re.sub(r"[^\w.,()=+ -]", "-", name)[-100:]
    return plain if plain.strip(". ") else "-"
