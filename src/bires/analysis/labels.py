"""What kinds of members are called: by their algorithm and η, and by what else distinguishes those of some runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from bires.machine.terminal import printable
from bires.runs.run import AFTERWARDS, Run
from bires.settings import grid

HEAD = ("member", "task", "algorithm", "rule", "eta", "eta_end", "seed", "planner", "planning_eta", *AFTERWARDS)
"""Of a member, what is not a number of its agent or planner."""


ADDED = ("agent", "variants", "usual", "varied", "label", "curve")
"""What is added to a row of members.csv here."""


def variants(run: Run) -> dict[str, Any]:
    """The agent's settings that all members of a run share, such as layer normalisation."""
    return {one.name: run.config.own[one.name] for one in run.config.agent.settings if not one.varies}


def usual(run: Run) -> dict[str, Any]:
    """The defaults of these settings for what the run's task shows."""
    return {one.name: one.default_for(run.config.sight) for one in run.config.agent_settings if not one.varies}


def labelled(runs: Sequence[Run]) -> list[list[dict[str, Any]]]:
    """The members of each run: rows of members.csv, with `ADDED`."""
    tables = [
        [
            {**row, "agent": run.config.agent.name, "variants": variants(run), "usual": usual(run)}
            for row in run.members.rows()
        ]
        for run in runs
    ]
    varied = {
        agent: varying(row for rows in tables for row in rows if row["agent"] == agent)
        for agent in {run.config.agent.name for run in runs}
    }
    for row in (row for rows in tables for row in rows):
        row["varied"] = numbers_of(row, varied[row["agent"]])
        row["label"] = label_of(row)
    return tables


def varying(rows: Iterable[dict[str, Any]]) -> list[str]:
    """The numbers in which some members of an agent differ, and the shared settings that are not the usual ones."""
    known = list(rows)
    numbers = dict.fromkeys(name for row in known for name in row if name not in (*HEAD, *ADDED))
    found = [name for name in numbers if len({number_of(row, name) for row in known} - {None}) > 1]
    names = dict.fromkeys(name for row in known for name in row["variants"])
    return found + [name for name in names if any(is_unusual(row, name) for row in known)]


def number_of(row: dict[str, Any], name: str) -> float | None:
    """A member's number; None where it has none (runs from before planning lack the columns)."""
    value = row.get(name, "")
    return None if value == "" or value != value else float(value)


def plain_label(row: dict[str, Any]) -> str:
    etas = (number_of(row, name) for name in ("eta", "planning_eta"))
    return grid.label(printable(row["algorithm"]), *etas, end=number_of(row, "eta_end"))


def is_unusual(row: dict[str, Any], name: str) -> bool:
    """Whether a setting that the members of a run share is not the default."""
    return name in row["variants"] and row["variants"][name] != row["usual"].get(name)


def label_of(row: dict[str, Any]) -> str:
    """The algorithm with its η, and what else distinguishes it; a shared setting is named where it is not the usual."""
    named = [(name, value) for name, value in row["varied"] if name not in row["variants"] or is_unusual(row, name)]
    return plain_label(row) + "".join(f" {shown(name, value)}" for name, value in named)


def shown(name: str, value: Any) -> str:
    if value is True:
        return printable(name)
    return printable(f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}")


def numbers_of(row: dict[str, Any], varied: Sequence[str]) -> list[tuple[str, Any]]:
    """Those of the varied settings that a member has."""
    return [
        (name, value)
        for name in varied
        if (value := row["variants"][name] if name in row["variants"] else number_of(row, name)) is not None
    ]
