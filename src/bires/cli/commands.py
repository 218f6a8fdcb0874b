"""The commands: each is a frozen record of its flags and a `run` that gives the exit code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal, Union

import tyro

from bires.agents import registry
from bires.cli.flags import TRAINING, Selection, require_task_first
from bires.cli.groups import with_family, with_groups
from bires.cli.output import (
    NO_DEFAULT,
    Json,
    MaybeNumber,
    MaybePath,
    MaybeText,
    MaybeWhole,
    Output,
    RunFolders,
    Trust,
    metavar,
)
from bires.cli.tools import Check, Doctor, Evaluate, Export, Play
from bires.cli.training import Compare, Resume, Train, Tune
from bires.cli.values import arguments_of, refuse_wrong_values
from bires.errors import UserError, unknown
from bires.settings.config import types
from bires.settings.values import Whole, flag

KEEPING = ("resume", "evaluate", "play", "report", "export")
"""Commands on runs that are there."""


@dataclass(frozen=True)
class List:
    """What there is: algorithms, rules, planners, settings, tasks, studies."""

    what: tyro.conf.Positional[Literal["all", "algorithms", "rules", "planners", "settings", "tasks", "studies"]] = (
        "all"
    )
    """Which of them."""
    json: Json = False

    def run(self) -> int:
        from bires.cli.listing import folded, listing, records
        from bires.machine.terminal import json_line, terminal_width

        print(json_line(records(self.what)) if self.json else folded(listing(self.what), terminal_width()))
        return 0


@dataclass(frozen=True)
class WriteReport:
    """Write report.html, figures and tables of runs; one panel per task."""

    runs: RunFolders
    """Run folders, or folders that hold some."""
    out: Path = Path("report")
    """Where to write."""
    study: MaybeText = None
    """Judge the paper's claims of this study; default: only where `bires reproduce` made these runs."""
    trust: Trust = False
    json: Json = False

    def run(self) -> int:
        from bires.cli.reporting import report

        return report(self.runs, self.out, self.study, self.trust, self.json)


@dataclass(frozen=True)
class Reproduce:
    """Run a study of the paper, or what is missing of it; then write its figures, tables and report.html."""

    study: Annotated[str, tyro.conf.arg(metavar="STUDY"), tyro.conf.Positional]
    """See `bires list studies`."""
    scale: Literal["smoke", "laptop", "small", "paper"] = "small"
    """smoke: minutes; laptop: hours on two cores, small networks; small: hours on a workstation; paper: all of it."""
    dry_run: bool = False
    """Run nothing; show what is left to do: members, steps, memory and time on this machine."""
    task: Annotated[tuple[str, ...], NO_DEFAULT] = ()
    """Only these tasks of the study."""
    seeds: MaybeWhole = None
    """Number of seeds, in place of the scale's."""
    steps: MaybeWhole = None
    """Environment steps of each member, in place of the scale's."""
    eval_every: MaybeWhole = None
    """Steps between evaluations, in place of the scale's."""
    eval_episodes: MaybeWhole = None
    """Episodes of an evaluation, in place of the scale's."""
    protocol: Annotated[Literal["paper", "modern"] | None, metavar("{paper,modern}")] = None
    """Time limits are ends (`paper`), or are bootstrapped through (`modern`); default: the study's own."""
    at_once: MaybeWhole = None
    """Populations that run at the same time, each with its share of the cores; default: as many as fill the machine."""
    minutes: MaybeNumber = None
    """Stop cleanly after this many minutes; a population that would not end in time is not begun."""
    ray: MaybeText = None
    """Run on a Ray cluster: HOST:PORT, auto or local. Its nodes share --out; --workers: cores of each population."""
    output: Output = field(default_factory=Output)

    def run(self) -> int:
        from bires.cli.reproducing import estimate, reproduce
        from bires.studies.reproducing import Request

        mine = {name: getattr(self, name) for name in ("seeds", "steps", "eval_every", "eval_episodes", "protocol")}
        given: dict[str, Any] = {name: value for name, value in mine.items() if value is not None}
        local = (self.at_once, self.minutes, self.ray)
        request = Request(self.study, self.scale, self.task, given, self.output.out, *local)
        return estimate(request, self.output) if self.dry_run else reproduce(request, self.output)


@dataclass(frozen=True)
class Bench:
    """Measure this machine: update speed, environment speed, share of the peak, and peers side by side."""

    peers: MaybePath = None
    """The Python of an environment with Stable-Baselines3, SBX and PyTorch (`make bench` sets one up)."""
    task: str = "walker-stand"
    """The task whose sizes and environments are used."""
    agent: MaybeText = None
    """The agent: ddpg, dqn, td3, sac, crossq, or MODULE:NAME; default: the first of these for the task's actions."""
    populations: Annotated[tuple[Whole, ...], NO_DEFAULT] = ()
    """Population sizes; default: 1, 4, 10 on a CPU; 1, 8, 35, 175, 330 on an accelerator."""
    seconds: float = 4.0
    """About how long each measurement takes."""
    planning: MaybeText = None
    """A task whose oracle, learned models and planners are measured, too."""
    rules: bool = False
    """Measure the time of an update by each rule, too, in units of td's."""
    json: Json = False

    def run(self) -> int:
        from bires.tools.bench.report import BenchRequest, bench

        request = BenchRequest(
            self.task, self.agent, tuple(self.populations), self.seconds, self.peers, self.planning, self.rules
        )
        return bench(request, self.json)


def named(record: type, name: str) -> Any:
    return Annotated[record, tyro.conf.subcommand(name=name)]


def records_of(words: Sequence[str]) -> dict[str, type]:
    """All commands, with the flags of the agent and the task that this command line names."""
    selection = Selection(words if words[:1] in (*TRAINING, ["check"]) else [])
    if words[:1] in TRAINING:
        selection.refuse_foreign()
        selection.refuse_several(words)
    return {
        "list": List,
        "train": with_groups(Train, selection),
        "compare": with_groups(Compare, selection),
        "tune": with_groups(Tune, selection),
        "resume": Resume,
        "evaluate": Evaluate,
        "play": Play,
        "report": WriteReport,
        "export": Export,
        "reproduce": Reproduce,
        "bench": Bench,
        "check": with_family(Check, selection),
        "doctor": Doctor,
    }


def commands(words: Sequence[str]) -> Any:
    """All commands, as tyro takes them."""
    if words[:1] in TRAINING:
        require_task_first(words)
    records = records_of(words)
    if words and not words[0].startswith("-") and words[0] not in records:
        raise unknown("command", words[0], records, "See `bires --help`.")
    if words[:1] and words[0] in records and not {"-h", "--help"} & set(words):
        refuse_wrong_values(records[words[0]], words)
    union: Any = Union[tuple(named(one, name) for name, one in records.items())]  # noqa: UP007
    prefixed: Any = tyro.conf.OmitArgPrefixes
    return prefixed[union]


def refused(words: Sequence[str], rest: Sequence[str]) -> UserError:
    """The error for the words of a command line that its command does not know."""
    if words[0].startswith("-"):
        return UserError(
            f"{words[0]} was given before the command; type the command first: `bires COMMAND {words[0]}`."
        )
    command, see = words[0], f"See `bires {words[0]} --help`."
    given = next((word.partition("=")[0] for word in rest if word.startswith("-")), None)
    if given is None:
        return UserError(f"`bires {command}` has no use for {' '.join(map(repr, rest))}. {see}")
    found = {name: flags_in(record) for name, record in records_of(words).items()}
    wanted = flag(given.lstrip("-"))
    if near := get_close_matches(wanted, found[command], n=2, cutoff=0.8):
        return UserError(f"`bires {command}` has no {given}. Did you mean {' or '.join(near)}? {see}")
    name = wanted[2:].replace("-", "_")
    if command in KEEPING and (name in types() or registry.owner_of(name)):
        why = f"`bires {command}` has no {given}: a run keeps the settings it was made with."
        return UserError(f"{why} For another value train a new run. {see}")
    if name == "agent" and [command] in TRAINING:
        return UserError(f"`bires {command}` has no --agent; use --algorithm, as in --algorithm td3 bi-res-td3.")
    owners = ", ".join(f"`bires {name}`" for name, flags in found.items() if wanted in flags)
    return UserError(f"`bires {command}` has no {given}{f', which is for {owners}' if owners else ''}. {see}")


def flags_in(record: type) -> list[str]:
    """The flags of a command."""
    return [flag(argument.name) for argument in arguments_of(record) if not argument.positional]
