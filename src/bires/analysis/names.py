"""Names of tasks and algorithms as file names."""

from __future__ import annotations

import re


def file_name(name: str) -> str:
    """A name as one file or folder: nothing in it leads elsewhere, and it is not too long for a disk."""
    plain = re.sub(r"[^\w.,()=+ -]", "-", name)[-100:]
    return plain if plain.strip(". ") else "-"
