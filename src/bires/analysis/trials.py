"""The trials of a search as a table, and what to type to train the best of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from rich.console import Group
from rich.table import Table as RichTable

from bires.analysis import statistics
from bires.analysis.intervals import UNKNOWN, Estimate, estimate
from bires.errors import UserError
from bires.machine.columns import WIDE, Column, Look, fitted
from bires.machine.terminal import printable
from bires.runs.folder import csv_text, write_whole
from bires.runs.run import Run
from bires.runs.tables import Table
from bires.settings import config as configs
from bires.settings import grid
from bires.settings.searching import Trial, alone, command_of, trials_of, varied
from bires.settings.tables import shown
from bires.training.halving import rank, returns

BROKEN = ("diverged", "failed")
"""How members are that did not train as they should."""
SHOWN = 20
"""Trials that a terminal shows."""
CAUTION = "The best of many trials looks better than it is: its own seeds chose it. Train it anew, with other seeds:"


def ranked(run: Run) -> list[Trial]:
    """Trials from the best to the worst: first those that were trained longest; last those with a broken member."""
    if run.config.tuning is None:
        raise UserError(f"{run.path} is not a search; `bires tune` makes one.")
    members = run.members
    whole = {row["member"] for row in members.rows() if row["status"] not in BROKEN}
    order = rank(trials_of(grid.members(run.config)), run.evaluations, whole)

    def place(trial: Trial) -> tuple[bool, int]:
        return not all(one.member in whole for one in trial.members), -steps_of(run, members, trial)

    return sorted(order, key=place)  # which keeps the order among equals


def steps_of(run: Run, members: Table, trial: Trial) -> int:
    """How far a trial was trained: to the end, or to where the last of its members ended."""
    ends = [(members["stopped_at"][one.member], members["diverged_at"][one.member]) for one in trial.members]
    return max(min((int(end) for end in both if end == end), default=run.config.steps) for both in ends)


def table(run: Run) -> Table:
    """One row per trial, the best first: its settings that vary, its return with a 95 % interval, its steps."""
    trials, members, found = ranked(run), run.members, returns(run.evaluations)
    names = varied(trials)
    rows: list[dict[str, Any]] = []
    for trial in trials:
        scores = np.array([found[one.member] for one in trial.members if one.member in found])
        value = estimate(statistics.mean, scores[:, None]) if len(scores) else UNKNOWN
        status = {str(members["status"][one.member]) for one in trial.members}
        own = trial.first.row()
        rows.append(
            {
                "trial": trial.number,
                **{name: own[name] if own[name] is not None else float("nan") for name in names},
                "seeds": len(trial.members),
                "return_mean": value.value,
                "return_low": value.low,
                "return_high": value.high,
                "steps": steps_of(run, members, trial),
                "status": next((one for one in (*BROKEN, "stopped", "running") if one in status), "finished"),
            }
        )
    return Table({name: column([row[name] for row in rows]) for name in rows[0]})


def column(values: list[Any]) -> np.ndarray:
    return np.array(values, object if any(isinstance(value, str) for value in values) else None)


def write(run: Run) -> Table:
    """The table, also as trials.csv in the run folder."""
    found = table(run)
    write_whole(run.path / "trials.csv", csv_text([found.columns, *(row.values() for row in found.rows())]))
    return found


def best_command(run: Run) -> str:
    """What to type to train the best trial with seeds that the search did not have."""
    return command_of(alone(run.config, ranked(run)[0]))


def best(run: Run) -> dict[str, Any]:
    """The best trial as keyword arguments: all settings, with seeds that the search did not have."""
    return configs.to_json(alone(run.config, ranked(run)[0]))


def rich_table(run: Run, found: Table, width: int) -> RichTable | Group:
    """The best trials as a terminal of some width shows them."""
    others = ("trial", "seeds", "return_mean", "return_low", "return_high", "steps", "status")
    own = [name for name in found if name not in others and not (name == "rule" and "algorithm" in found)]
    rows = list(found.rows())[:SHOWN]
    values = [Estimate(row["return_mean"], row["return_low"], row["return_high"]).show(".4g") for row in rows]
    columns = [Column("trial", [str(row["trial"]) for row in rows])]
    for name in own:
        cells = ["–" if row[name] != row[name] else printable(shown(row[name])) for row in rows]
        columns.append(Column(name, cells, words=isinstance(rows[0][name], str), left=name == "algorithm"))
    steps, states = [f"{row['steps']:,}" for row in rows], [row["status"] for row in rows]
    if width >= WIDE:
        columns += [Column("return [95 %]", values), Column("steps", steps), Column("", states, left=True)]
    else:
        ends = [f"{count}\n{state}" for count, state in zip(steps, states, strict=True)]
        columns += [Column("return [95 %]", [value.replace(" [", "\n[") for value in values]), Column("steps", ends)]
    title = f"{printable(run.config.task)}: {found.height} trials, longest trained first, then by return"
    more = f"{found.height - SHOWN} more in trials.csv" if found.height > SHOWN else None
    return fitted(columns, width, Look(title, more))
