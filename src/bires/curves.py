"""Learning curves of a run, by kind of member."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bires.runs import Run


@dataclass(frozen=True)
class Curves:
    """The curves of one kind of member on one task."""

    task: str
    label: str
    steps: np.ndarray
    returns: np.ndarray
    """(members × points): only members that reached the last point."""
    diverged: int
    """Members left out because they diverged."""


def curves(run: Run) -> list[Curves]:
    """One entry per kind (algorithm and η, and whatever else the run varies), in the order of members.csv."""
    table, members = run.evaluations, run.members
    varied = [n for n in ("gamma", "tau", "actor_lr", "critic_lr", "noise") if len(set(members[n].tolist())) > 1]
    kinds: dict[str, list[int]] = {}
    for row in members.rows():
        eta = row["eta"]
        label = row["algorithm"] if eta != eta or eta == "" else f"{row['algorithm']}({eta:g})"
        label += "".join(f" {name}={row[name]:g}" for name in varied)
        kinds.setdefault(label, []).append(row["member"])
    steps = np.unique(table["step"]) if table.height else np.zeros(0, int)
    result = []
    for label, ids in kinds.items():
        rows = [table["return_mean"][table["member"] == member] for member in ids]
        whole = [row for row in rows if len(row) == len(steps)]
        status = members["status"][ids]
        returns = np.array(whole, float).reshape(len(whole), len(steps))
        result.append(Curves(run.config.task, label, steps, returns, int(np.sum(status == "diverged"))))
    return result
