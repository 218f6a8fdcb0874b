"""`bires evaluate`."""

from __future__ import annotations

import json
import math
import sys
from typing import Any

from bires.machine.terminal import printable
from bires.runs.run import Run
from bires.runs.tables import terminal_width
from bires.tools import evaluating


def evaluate_run(run: Run, episodes: int, chosen: tuple[int, ...], workers: int | None, as_json: bool) -> int:
    """Evaluates members from the newest checkpoint and prints their rows."""
    found = evaluating.evaluate_run(run, episodes, chosen, workers)
    for member, text in found.skipped.items():
        print(
            f"member {member} is skipped; its environment raised: {printable(text.splitlines()[-1])}", file=sys.stderr
        )
    if as_json:
        rows = [{name: finite(value) for name, value in row.items()} for row in found.table.rows()]
        print(json.dumps(rows))
    else:
        print(found.table.show(width=terminal_width()))
    return 0


def finite(value: Any) -> Any:
    """JSON has no infinity and no nan."""
    return None if isinstance(value, float) and not math.isfinite(value) else value
