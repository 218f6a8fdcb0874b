"""The reading side of a run folder."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bires.errors import UserError
from bires.machine.terminal import counted
from bires.runs.folder import EVALUATION_COLUMNS, FORMAT, METRIC_COLUMNS
from bires.runs.tables import Table, read_csv
from bires.runs.trust import read_manifest, remember, require_trusted
from bires.settings import config as configs
from bires.settings.config import Config
from bires.settings.validation import require_counts

if TYPE_CHECKING:
    from bires.runs.policies import Policy

TYPES = {
    **dict.fromkeys(("member", "seed", "step", "episodes", "updates"), int),
    **dict.fromkeys(("task", "algorithm", "rule", "planner", "status"), str),
    **dict.fromkeys(("eta", "eta_end", "eta_until", "lr_end", "lr_until", "gamma", "diverged_at", "stopped_at"), float),
}
"""What the columns of a run's files are, whatever their values."""
AFTERWARDS = ("status", "diverged_at", "stopped_at")
"""Columns of members.csv that say how a member ended."""

MEMBER_COLUMNS = ("member", "task", "algorithm", "rule", "eta", "seed", "gamma", "status", "diverged_at")
"""Those of every members.csv."""


TAIL = 0.1
"""The share of a curve's points, the last ones, whose mean is the final performance."""


def tail(points: int) -> slice:
    """The last points of a curve of so many."""
    return slice(-max(1, int(TAIL * points)), None)


class Run:
    """The reading side of a run folder, which one command made and can continue.

    ``path`` is the folder, ``manifest`` what `manifest.json` holds, ``config`` the run's settings.
    """

    def __init__(self, path: str | os.PathLike[str], trust: bool = False) -> None:
        """``trust``: what the manifest names may be used: modules (MODULE:NAME), whose code runs, and files."""
        self.path = Path(path)
        self.read_again(trust)

    def read_again(self, trust: bool = False) -> None:
        """Reads manifest and settings as they are now: a run may have been made longer."""
        self.manifest: dict[str, Any] = read_manifest(self.path)
        if trust:
            remember(self.manifest["config"])
        else:
            require_trusted(self.path, self.manifest["config"])
        try:
            self.config: Config = configs.from_json(self.manifest["config"])
            require_counts(self.config)
        except (UserError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise UserError(f"{self.path / 'manifest.json'} cannot be used: {error}") from error

    def __fspath__(self) -> str:
        """A run may stand wherever its folder may."""
        return str(self.path)

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r}: {self.config.task}, {counted(self.members.height, 'member')})"

    def require_resumable(self) -> None:
        """Refuses to continue a run of another format: the two parts of its curve would not be comparable."""
        found = self.manifest.get("format")
        if found != FORMAT:
            raise UserError(
                f"{self.path} was made by another version of bires (format {found}, this version writes {FORMAT}) and "
                "cannot be continued; reports, evaluate and play still work. Train anew, with another --out."
            )

    @property
    def finished(self) -> bool:
        """Whether the run has reached its last step, as its folder says now."""
        return read_manifest(self.path).get("end") is not None

    @property
    def members(self) -> Table:
        """One row per member."""
        agent, planners = self.config.agent.settings, self.config.planner_settings
        own = {one.name: float if one.type is float else int for one in agent if one.varies}
        planned = {one.name: float for one in planners if one.varies}  # nan for members without such a planner
        path = self.path / "members.csv"
        table = read_csv(path, TYPES | own | planned)
        missing = [name for name in MEMBER_COLUMNS if name not in table]
        if missing or not table.height or not np.array_equal(table["member"], np.arange(table.height)):
            what = f"no column {missing[0]!r}" if missing else "not one row for each member from 0 on"
            raise UserError(f"{path} has {what}. Put a good copy back, or leave that run out.")
        return table

    @property
    def evaluations(self) -> Table:
        """One row per member and evaluation, with the member's columns beside it."""
        return self._joined("evaluations.csv", EVALUATION_COLUMNS)

    @property
    def metrics(self) -> Table:
        """One row per member and logging interval, with the member's columns beside it."""
        return self._joined("metrics.csv", METRIC_COLUMNS)

    def policy(self, member: int, step: int | None = None) -> Policy:
        """The member's noise-free policy: observation(s) → action(s) of the environment.

        It is that of the newest checkpoint, or of the one of a ``step`` that was kept (``keep_every``).
        """
        from bires.runs.policies import load_policy

        return load_policy(self.path, self.config, member, step)

    def _joined(self, name: str, columns: Sequence[str]) -> Table:
        members = self.members
        if not (self.path / name).exists() and not self.finished:
            raise UserError(
                f"{self.path} has no {name} yet: nothing was evaluated. Wait for the run's first evaluation; if it had "
                "one, put a good copy back."
            )
        table = read_csv(self.path / name, TYPES, float)
        for column in columns:
            if column not in table:
                raise UserError(f"{self.path / name} has no column {column!r}. Put a good copy back, or leave it out.")
        if table.height and not np.isin(table["member"], members["member"]).all():
            raise UserError(f"{self.path / name} has members that members.csv does not have. Put a good copy back.")
        extra = [column for column in members if column not in table and column not in AFTERWARDS]
        return Table({**table, **{column: members[column][table["member"]] for column in extra}})


def run_folders(path: Path) -> tuple[list[Path], list[Path]]:
    """The folder itself, if it is a run, or the runs under it; and those of them where nothing was evaluated."""
    if (path / "manifest.json").exists() or not path.is_dir():
        return [path], []
    found = sorted(manifest.parent for manifest in path.rglob("manifest.json"))
    begun = [run for run in found if (run / "evaluations.csv").exists()]
    return begun or found or [path], [run for run in found if begun and run not in begun]
