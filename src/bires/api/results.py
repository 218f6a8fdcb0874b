"""After training: read, evaluate, compare, draw, film and export runs."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bires.analysis import figures, summary, trials
from bires.analysis.curves import collect
from bires.analysis.labels import labelled, plain_label
from bires.api.spelling import as_typed, folder
from bires.errors import UserError, unknown
from bires.runs import run as reading
from bires.runs.folder import cell
from bires.runs.policies import Policy, saved_policy
from bires.runs.tables import Table
from bires.settings.options import Source, Target
from bires.settings.values import proper, several
from bires.studies import reporting
from bires.tools import evaluating, exporting
from bires.tools import video as filming
from bires.tools.video import Played

LISTED = 12
"""Members that a message names."""


def one_member(members: Table, columns: Mapping[str, Any]) -> int:
    """The number of the only member with these values; a kind may be named by its algorithm and η alone."""
    plain = np.array([plain_label(row) for row in members.rows()], object)
    table = Table({"kind": plain, **members})
    chosen = np.ones(table.height, bool)
    for name, value in columns.items():
        if name not in table:
            raise unknown("column", name, table, "Columns are those of run.members, and kind.")
        kind = table[name].dtype.kind
        wanted = proper(name, value, float if kind in "if" else str)
        same = table[name] == (float(cell(wanted) or "nan") if kind == "f" else wanted)
        chosen &= same | (plain == wanted) if name == "kind" else same
    if chosen.sum() == 1:
        return int(table["member"][chosen][0])
    shown = list(table.where(chosen if chosen.any() else np.ones_like(chosen)).rows())
    lines = [f"  member {row['member']}: {row['kind']}, seed {row['seed']}" for row in shown[:LISTED]]
    more = [f"  and {len(shown) - LISTED} more"] if len(shown) > LISTED else []
    asked = ", ".join(f"{name}={value!r}" for name, value in columns.items()) or "No member"
    said = f"these {len(shown)} members match" if chosen.any() and columns else "the run has these members"
    raise UserError("\n".join([f"{asked} was given; {said}, and one is wanted:", *lines, *more]))


class Run(reading.Run):
    """A run folder, which one command made and can continue; open one with `bires.load`.

    ``path`` is the folder, ``manifest`` what `manifest.json` holds, ``config`` the run's settings, and ``members``,
    ``evaluations`` and ``metrics`` are tables, read from the folder whenever they are asked for.
    """

    @as_typed
    def __init__(self, path: str | os.PathLike[str], trust: bool = False) -> None:
        """``trust``: what the run names is used: modules (MODULE:NAME), whose code runs, and text in env_kwargs."""
        super().__init__(folder("path", path), trust)

    @property
    def evaluations(self) -> Table:
        """One row per member and evaluation, with the member's columns beside it.

        ``kind`` is what figures and `summary` call such members, as in `bi-res-ddpg(0.05)`, or `ddpg tau=0.001` where
        τ varies: group by it to keep the baseline, which has no η.
        """
        return self._with_kinds(super().evaluations)

    @property
    def metrics(self) -> Table:
        """One row per member and logging interval, with the same columns of the member beside it."""
        return self._with_kinds(super().metrics)

    def _with_kinds(self, table: Table) -> Table:
        labels = np.array([row["label"] for row in labelled([self])[0]], object)
        return Table({**table, "kind": labels[table["member"]]})

    @as_typed
    def policy(self, member: int | None = None, step: int | None = None, **columns: Any) -> Policy:
        """The member's noise-free policy: observation(s) → action(s) of the environment.

            run.policy(0)
            run.policy(algorithm="bi-res-sac", seed=1)

        The member is named by its number, or by ``columns`` of `Run.members` (or its ``kind``, as in
        ``kind="bi-res-sac(0.05)"``) that no other member has. The policy is that of the newest checkpoint, or of the
        one of a ``step`` that was kept (``keep_every``). `policy.save("policy.safetensors")` writes it for use without
        this package.
        """
        if member is not None and columns:
            raise UserError(f"Both member and {', '.join(columns)} were given; give the number, or the columns.")
        return super().policy(one_member(self._with_kinds(self.members), columns) if member is None else member, step)

    @as_typed
    def summary(self) -> Table:
        """One row per kind of member: final return, AUC, and what it improves on its baseline.

        ``improvement`` is the AUC improvement, ``improvement_low`` and ``improvement_high`` its 95 % interval (nan for
        the baseline itself, and where no algorithm learned the task or the baseline's AUC is 0). The columns are those
        of a report's summary.csv.
        """
        return summary.as_table(summary.find(collect([self])).rows)

    @as_typed
    def figure(self) -> Any:
        """Learning curves with mean and standard error, as a Matplotlib figure: `run.figure().savefig("a.png")`."""
        return figures.curves_figure(collect([self]))

    @as_typed
    def trials(self) -> Table:
        """Of a search (`bires.tune`): one row per trial, the best first, with its return and 95 % interval."""
        return trials.table(self)

    @as_typed
    def best(self) -> dict[str, Any]:
        """Of a search: the best trial, as arguments of `bires.train`, with seeds that the search did not have.

            bires.train(**run.best(), out="runs/best")

        The best of many trials looks better than it is: its own seeds chose it.
        """
        return trials.best(self)

    @as_typed
    def evaluate(
        self, *, episodes: int = 20, member: int | Iterable[int] | None = None, workers: int | None = None
    ) -> Table:
        """`bires.evaluate` of this run."""
        return evaluate(self, episodes=episodes, member=member, workers=workers)

    @as_typed
    def play(self, *, member: int = 0, episode: int = 0, video: str | os.PathLike[str] | None = None) -> Played:
        """`bires.play` of this run."""
        return play(self, member=member, episode=episode, video=video)

    @as_typed
    def export(
        self,
        to: Target = "tensorboard",
        *,
        out: str | os.PathLike[str] | None = None,
        project: str = "bires",
        member: int = 0,
        episodes: int | None = None,
        source: Source = "played",
    ) -> Path:
        """`bires.export` of this run."""
        return export(self, to=to, out=out, project=project, member=member, episodes=episodes, source=source)


RunLike = str | os.PathLike[str]
"""A run, or its folder."""


@as_typed
def load(path: RunLike, *, trust: bool = False) -> Run:
    """Opens a run folder. No code of it runs, and none that it names, unless you ``trust`` it.

    A run with a task, an algorithm, a rule or a planner of your own (MODULE:NAME) needs ``trust=True``, or that its
    module has been imported: `bires.train` did so in its process, and ``import my_module`` does. A run with text
    among its ``env_kwargs``, which may name a file, needs it, too, unless this process has trained it.
    """
    return Run(path, trust)


@as_typed
def load_policy(path: str | os.PathLike[str]) -> Policy:
    """Loads a policy that `policy.save` wrote as .safetensors; the run folder is not needed, and NumPy acts.

        policy = bires.load_policy("policy.safetensors")
        policy(observation)

    Observations are flat vectors, or batches of them.
    """
    return saved_policy(folder("path", path))


@as_typed
def evaluate(
    run: RunLike,
    *,
    episodes: int = 20,
    member: int | Iterable[int] | None = None,
    workers: int | None = None,
    trust: bool = False,
) -> Table:
    """Evaluates the members of a run at its newest checkpoint: one row per member.

    ``member`` is the number of one of them, or several numbers. Each plays so many ``episodes``, without exploration
    noise. ``workers`` are environment processes (0: none, None: chosen by size). A member whose environment raises has
    no row; a warning says so. ``trust``: see `load`.
    """
    chosen = () if member is None else tuple(several(member))
    if member is not None and not chosen:
        raise UserError("member was given no number; accepted: one or several, or None for all of them.")
    found = evaluating.evaluate_run(Run(run, trust), episodes, chosen, workers)
    for number, text in found.skipped.items():
        warnings.warn(f"member {number} has no row; its environment raised: {text.splitlines()[-1]}", stacklevel=3)
    return found.table


@dataclass(frozen=True)
class Report:
    """What `report` wrote, and its numbers."""

    path: Path
    """report.html; figures (png, svg, pdf) and tables (csv) are beside it."""
    summary: Table
    """One row per task and kind of member; see `Run.summary`."""
    totals: Table
    """One row per group of tasks and kind of member: each against its baseline, over all tasks."""

    def __repr__(self) -> str:
        return f"Report({str(self.path)!r})"


@as_typed
def report(
    runs: RunLike | Iterable[RunLike],
    *,
    out: str | os.PathLike[str] = "report",
    study: str | None = None,
    trust: bool = False,
) -> Report:
    """Writes report.html, figures and tables of runs (or of folders that hold some); one panel per task.

    The paper's claims are judged for the ``study`` that is named, or where `bires reproduce` made all of the runs.
    ``trust``: see `load`.
    """
    study = None if study is None else proper("study", study, str)
    found, where = opened(runs, trust), folder("out", out)
    named = f", study={study!r}" if study else ""
    made = reporting.report(found, where, study, f"bires.report(…, out={str(where)!r}{named})").found
    return Report(where / "report.html", summary.as_table(made.rows), summary.as_table(made.totals))


@as_typed
def play(
    run: RunLike,
    *,
    member: int = 0,
    episode: int = 0,
    video: str | os.PathLike[str] | None = None,
    trust: bool = False,
) -> Played:
    """Films one noise-free episode of a member at the newest checkpoint, without a display.

        bires.play(run, member=1, video="out.gif")

    ``episode`` is its number in an evaluation, whose start it has. ``video`` is where to write, .mp4 (needs
    `bires[video]`) or .gif; by default member-M.mp4, or .gif, in the run folder. A notebook shows what is returned.
    ``trust``: see `load`.
    """
    where = Run(run, trust)
    number, which = proper("episode", episode, int), proper("member", member, int)
    if number < 0:
        raise UserError(f"--episode was given {episode}; accepted: whole numbers from 0.")
    return filming.play(where, which, number, None if video is None else folder("video", video))


@as_typed
def export(
    runs: RunLike | Iterable[RunLike],
    *,
    to: Target = "tensorboard",
    out: str | os.PathLike[str] | None = None,
    project: str = "bires",
    member: int = 0,
    episodes: int | None = None,
    source: Source = "played",
    trust: bool = False,
) -> Path:
    """Writes runs for other programs, and returns the folder or the file: nothing is uploaded.

    ``to="tensorboard"`` and ``"wandb"`` (offline) get the curves of all members. ``"safetensors"`` and ``"onnx"`` are
    one file with the policy of one ``member``, as `Policy.save` writes. ``"hub"`` is a folder for a model hub,
    with the policy of one ``member``, a card and curves. ``"minari"`` is a dataset of ``episodes``: by default 100 that
    the member's policy plays; with ``source="replay"`` those of its training that its replay holds. All but the
    first two take one run. ``trust``: see `load`.
    """
    proper("to", to, Target)
    where = None if out is None else folder("out", out)
    proper("source", source, Source)
    count = None if episodes is None else proper("episodes", episodes, int)
    request = exporting.ExportRequest(to, where, project, proper("member", member, int), count, source)
    return exporting.export(opened(runs, trust), request).path


def opened(runs: RunLike | Iterable[RunLike], trust: bool = False) -> list[reading.Run]:
    """The runs that were named: by folders, by folders of them, or as they are."""
    single = isinstance(runs, str | os.PathLike) or not isinstance(runs, Iterable)
    given = [folder("runs", one) for one in ([runs] if single else runs)]  # type: ignore[union-attr]
    if not given:
        raise UserError("runs was given nothing; accepted: one or more runs, run folders, or folders of them.")
    return [reading.Run(path, trust) for one in given for path in reading.run_folders(one)[0]]
