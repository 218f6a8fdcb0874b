"""Learning curves of runs, by task and kind of member, on one grid of steps per task.

What is not there is handled so, everywhere:

- *Unequal lengths*: the curves of a task are cut to the steps that all of them have.
- *Diverged members* count. They were frozen, so their last evaluation stands for the rest of their curve; leaving them
  out would reward an algorithm for losing its worst runs. Every number has their count beside it.
- *Missing members*, which have no evaluation at all, are skipped and counted.
- *Several agents on one task* share its panel if they were trained under the same protocol, each with one set of sizes.
- *The same member in several runs* (one kind, one seed) is one member, of the run that got furthest (of equal ones the
  first that was trained): runs of one seed share their start, and counting both would make intervals narrower than they
  are. Reports name the other run.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np

from bires.agents import registry
from bires.analysis.labels import is_unusual, labelled, number_of, plain_label
from bires.machine.terminal import printable
from bires.runs.run import Run
from bires.settings import config as configs
from bires.settings import grid

EARLY = ("diverged", "stopped", "failed")
"""How members are that ended before their run; their curves go on as they ended."""
POOLED = ("task", "algorithm", "rule", *grid.ETAS, "planner", "seed", "log_every", "steps", "gamma", "tuning")
"""Settings of every run in which those of one panel may differ."""
SAME_AT_ZERO = {"td": ("bi", "to"), "online": ("res",)}
"""The rule of a baseline → the residual rules that are the same update with η = 0."""
COLUMNS = ("return_mean", "q_mean", "length_mean")
"""What is read of an evaluation."""
Point = tuple[float, ...]


def baselines(agent: str) -> tuple[str, ...]:
    """What an agent's algorithms are compared with, the first that is there."""
    if agent not in registry.AGENTS:
        return ()
    spec = registry.AGENTS[agent]
    same = SAME_AT_ZERO.get(spec.algorithms[spec.baseline].rule, ())
    return (spec.baseline, *(f"{registry.named(agent, rule, None)}(0)" for rule in same))


def pooled(run: Run) -> set[str]:
    """Settings in which runs of one panel may differ: they distinguish members, or do not change the curves."""
    return {*POOLED, *(one.name for one in (*run.config.own_settings, *run.config.agent.settings))} - set(shared(run))


def shared(run: Run) -> list[str]:
    """Settings of planners and environments, which all members of a panel share."""
    mine = {one.name for one in run.config.agent.settings}
    return [one.name for one in run.config.own_settings if not one.varies and one.name not in mine]


@dataclass(frozen=True)
class Curves:
    """The curves of one kind of member on one task."""

    task: str
    label: str
    algorithm: str
    eta: float | None
    steps: np.ndarray
    returns: np.ndarray
    """(members × points), in the order of their seeds."""
    seeds: tuple[int, ...]
    diverged_at: tuple[int | None, ...]
    missing: int
    """Members without any evaluation."""
    name: str
    """The label without `numbers`."""
    numbers: frozenset[tuple[str, Any]]
    """What distinguishes it from other kinds of the same name: the agent's settings that vary between the runs."""
    unusual: frozenset[str]
    """Of these the ones that all members of a run share, where they are not the defaults: `layer_norm`, `double_q` …"""
    q: np.ndarray
    """Mean Q(s, μ(s)) of the evaluation episodes, and …"""
    lengths: np.ndarray
    """… their mean length: (members × points)."""
    stopped: int
    """Members that a callback or a search ended; their curves go on as they ended."""
    failed: int
    """Members whose environments raised; the same holds of their curves."""
    agent: str
    """The name of its agent."""
    gamma: float
    """γ of its first member; where several vary, kinds differ in it."""

    @property
    def diverged(self) -> int:
        return sum(step is not None for step in self.diverged_at)


@dataclass(frozen=True)
class Panel:
    """The curves that one panel of a figure shows: one task, one set of common settings, all on the same steps."""

    title: str
    task: str
    kinds: tuple[Curves, ...]
    runs: tuple[Run, ...]

    @property
    def cut(self) -> bool:
        """Whether some run was evaluated at steps that its curves here do not have, as others lack them."""
        shown = {int(step) for kind in self.kinds for step in kind.steps}
        return any(not shown.issuperset(map(int, run.evaluations["step"])) for run in self.runs)

    @property
    def ended_early(self) -> bool:
        """Whether every member diverged."""
        return all(kind.diverged == len(kind.returns) and kind.returns.size for kind in self.kinds)

    @property
    def end(self) -> int:
        """Where the axis of steps ends: with the curves, or with the runs if the curves are a point or ended early."""
        last = max((int(kind.steps[-1]) for kind in self.kinds if len(kind.steps)), default=0)
        short = self.ended_early or max((len(kind.steps) for kind in self.kinds), default=0) < 2
        return max(last, *(run.config.steps for run in self.runs)) if short else last

    def kind(self, label: str) -> Curves | None:
        return next((kind for kind in self.kinds if kind.label == label and len(kind.returns)), None)

    def base_of(self, kind: Curves) -> Curves | None:
        """What a kind is compared with: the baseline with the same numbers, as far as a baseline has them.

        A baseline with unusual settings (Double DQN) is compared with the one that has the usual ones, if it is there.
        """
        there = [base for base in self.kinds if len(base.returns) and base.numbers <= kind.numbers]
        base = next((base for name in baselines(kind.agent) for base in there if base.name == name), None)
        return self.usual(kind) if base is kind else base

    def usual(self, kind: Curves) -> Curves:
        """The kind that differs from one in unusual settings alone; without it, the kind itself."""

        def rest(other: Curves) -> set[tuple[str, Any]]:
            return {(name, value) for name, value in other.numbers if name not in kind.unusual}

        alike = [other for other in self.kinds if other.name == kind.name and rest(other) == rest(kind)]
        return next((other for other in alike if len(other.returns) and not other.unusual), kind)


def collect(runs: Iterable[Run]) -> list[Panel]:
    """Runs as panels: those that differ only in their members share one, others of the same task do not."""
    groups: dict[str, list[Run]] = {}
    for run in {run.path.resolve(): run for run in runs}.values():  # a folder may be named twice
        common = {key: value for key, value in settings_of(run).items() if key not in pooled(run)}
        groups.setdefault(f"{run.config.task} {run.config.agent.name} {sorted(common.items())}", []).append(run)
    together = joined(list(groups.values()))
    titles = distinct_titles(together)
    return [
        Panel(title, printable(group[0].config.task), tuple(curves(*group)), tuple(group))
        for title, group in zip(titles, together, strict=True)
    ]


def joined(groups: Sequence[list[Run]]) -> list[list[Run]]:
    """The groups of different agents on a task as one, where each agent has one and the protocol is the same."""

    def place(run: Run) -> str:
        sizes = {name for spec in registry.AGENTS.values() for own in spec.run.values() for name in own}
        kept = {key: value for key, value in settings_of(run).items() if key not in {*pooled(run), *sizes}}
        return f"{run.config.task} {sorted(kept.items())}"

    there: dict[str, list[list[Run]]] = {}
    for group in groups:
        there.setdefault(place(group[0]), []).append(group)
    found = []
    for several in there.values():
        agents = {group[0].config.agent.name for group in several}
        found += [[run for group in several for run in group]] if len(agents) == len(several) else several
    return found


def distinct_titles(groups: Sequence[Sequence[Run]]) -> list[str]:
    """The tasks' names, with the settings, or at last the agents, that distinguish panels of the same task.

    A panel's settings are those that all of its runs share: agents may have sizes of their own.
    """
    common = [shared_settings(group) for group in groups]
    titles = []
    for group, mine in zip(groups, common, strict=True):
        twins = [theirs for theirs in common if theirs["task"] == mine["task"] and theirs != mine]
        title = printable(group[0].config.task)
        for name in (name for name in mine if name not in pooled(group[0])):
            if any(name in theirs and theirs[name] != mine[name] for theirs in twins):
                title += printable(f", {name}={'none' if mine[name] == [] else mine[name]}")
                twins = [theirs for theirs in twins if theirs.get(name) == mine[name]]
        titles.append(title)
    again = Counter(titles)
    agents = [" and ".join(sorted({run.config.agent.name for run in group})) for group in groups]
    return [f"{title}, {names}" if again[title] > 1 else title for title, names in zip(titles, agents, strict=True)]


def shared_settings(runs: Sequence[Run]) -> dict[str, Any]:
    """The settings that are the same in all of these runs."""
    first, *others = map(settings_of, runs)
    return {name: value for name, value in first.items() if all(one.get(name) == value for one in others)}


def settings_of(run: Run) -> dict[str, Any]:
    return configs.to_json(run.config)


def curves(*runs: Run) -> list[Curves]:
    """One entry per kind (algorithm, η and other numbers that vary between the runs), in the order of members.csv."""
    members: dict[tuple[str, int], dict[str, Any]] = {}
    tables = list(zip(runs, labelled(runs), strict=True))
    order = dict.fromkeys((row["label"], row["seed"]) for _, rows in tables for row in rows)
    for run, rows in sorted(tables, key=lambda pair: precedence(pair[0])):  # later ones replace earlier ones
        seen = evaluations_of(run)
        members |= {(row["label"], row["seed"]): row | {"curve": seen.get(row["member"], {})} for row in rows}
    members = {who: members[who] for who in order}
    kinds: dict[str, list[dict[str, Any]]] = {}
    for (label, _), row in members.items():
        kinds.setdefault(label, []).append(row)
    whole = [r["curve"] for rows in kinds.values() for r in rows if r["curve"] and r["status"] not in EARLY]
    if not whole:  # all members ended early: as far as the longest curve
        whole = [dict.fromkeys({step for rows in kinds.values() for r in rows for step in r["curve"]})]
    common: set[int] = set(whole[0]).intersection(*whole[1:])
    steps = np.array(sorted(common), dtype=np.int64)
    return [kind_of(runs[0].config.task, label, rows, steps) for label, rows in kinds.items()]


def precedence(run: Run) -> tuple[int, float, str]:
    """Which run counts where several have the same member: the one that got furthest, of these the first trained.

    Not the longest curve: a member that diverged would give way to one that did not.
    """
    return last_step(run), -timestamp(run.manifest.get("start")), str(run.path.resolve())


def last_step(run: Run) -> int:
    """The step of its last evaluation."""
    return int(max(run.evaluations["step"], default=0))


def timestamp(text: Any) -> float:
    try:
        return datetime.fromisoformat(text).timestamp()
    except (TypeError, ValueError):  # a manifest from before, or edited
        return math.inf


def superseded(runs: Sequence[Run]) -> list[Run]:
    """Runs of which some members do not count, as another run has them, too."""
    holders: dict[tuple[str, int], list[Run]] = {}
    for run, rows in zip(runs, labelled(runs), strict=True):
        for row in rows:
            holders.setdefault((row["label"], row["seed"]), []).append(run)
    rank = {run.path: precedence(run) for run in runs}
    lost = {run.path for several in holders.values() for run in sorted(several, key=lambda run: rank[run.path])[:-1]}
    return [run for run in runs if run.path in lost]


def kind_of(task: str, label: str, rows: Sequence[dict[str, Any]], steps: np.ndarray) -> Curves:
    there = sorted((row for row in rows if row["curve"]), key=lambda row: int(row["seed"]))
    points = [[carried(row["curve"], step) for step in steps.tolist()] for row in there]
    returns, q, lengths = np.moveaxis(np.array(points, float).reshape(len(there), len(steps), len(COLUMNS)), -1, 0)
    return Curves(
        task,
        label,
        printable(rows[0]["algorithm"]),
        number_of(rows[0], "eta") if number_of(rows[0], "eta") is not None else number_of(rows[0], "planning_eta"),
        steps,
        returns,
        tuple(row["seed"] for row in there),
        tuple(int(row["diverged_at"]) if ended(row, "diverged", steps) else None for row in there),
        len(rows) - len(there),
        plain_label(rows[0]),
        frozenset(rows[0]["varied"]),
        frozenset(name for name, _ in rows[0]["varied"] if is_unusual(rows[0], name)),
        q,
        lengths,
        stopped=sum(ended(row, "stopped", steps) for row in there),
        failed=sum(ended(row, "failed", steps) for row in there),
        agent=rows[0]["agent"],
        gamma=float(rows[0]["gamma"]),
    )


def ended(row: dict[str, Any], how: str, steps: np.ndarray) -> bool:
    """Whether a member ended so within these steps: where they are cut, it may have gone on beyond them."""
    return bool(row["status"] == how and max(row["curve"]) <= max(steps.tolist(), default=math.inf))


def carried(curve: dict[int, Point], step: int) -> Point:
    """The curve at a step, or at its end if it ended before."""
    if step in curve:
        return curve[step]
    before = [earlier for earlier in curve if earlier < step]
    return curve[max(before)] if before else (float("nan"),) * len(COLUMNS)


def evaluations_of(run: Run) -> dict[int, dict[int, Point]]:
    """Member → step → what was evaluated."""
    table = run.evaluations
    result: dict[int, dict[int, Point]] = {}
    for member, step, *values in zip(table["member"], table["step"], *(table[name] for name in COLUMNS), strict=True):
        result.setdefault(int(member), {})[int(step)] = tuple(map(float, values))
    return result
