"""`bires evaluate`."""

from __future__ import annotations

import sys

from bires.machine.terminal import aside, json_line, printable
from bires.runs.run import Run
from bires.runs.tables import terminal_width
from bires.tools import evaluating


def evaluate_run(run: Run, episodes: int, chosen: tuple[int, ...], workers: int | None, as_json: bool) -> int:
    """Evaluates members from the newest checkpoint and prints their rows."""
    with aside(as_json):
        found = evaluating.evaluate_run(run, episodes, chosen, workers)
    for member, text in found.skipped.items():
        print(
            f"member {member} is skipped; its environment raised: {printable(text.splitlines()[-1])}", file=sys.stderr
        )
    if as_json:
        print(json_line(list(found.table.rows())))
    else:
        print(found.table.show(width=terminal_width()))
    return 0
