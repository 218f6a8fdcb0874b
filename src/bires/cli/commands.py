"""The commands: each is a frozen record of its flags and a `run` that gives the exit code."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, make_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union

import tyro

from bires.cli.flags import Selection, record, typed
from bires.cli.output import Interrupted, Output, RunOptions
from bires.cli.tools import Doctor, Export, Play
from bires.settings.config import Config, Whole

if TYPE_CHECKING:
    from bires.runs.run import Run
    from bires.studies.run import Way
    from bires.training.display import Display


@dataclass(frozen=True)
class List:
    """What there is: algorithms, rules, planners, settings, tasks, studies."""

    what: tyro.conf.Positional[Literal["all", "algorithms", "rules", "planners", "settings", "tasks", "studies"]] = (
        "all"
    )

    def run(self) -> int:
        from bires.cli.listing import listing

        print(listing(self.what))
        return 0


@dataclass(frozen=True)
class Training:
    """What `train` and `compare` share: a configuration, from all groups of flags."""

    config: Config
    seeds: Whole | None = None
    """Number of seeds: --seeds 5 is short for --seed 0 1 2 3 4."""
    callback: str | None = None
    """MODULE:FUNCTION of your own, called after each evaluation; it may stop members."""
    output: Output = field(default_factory=Output)

    def whole(self, config: Config, seeds: int | None) -> Config:
        """The configuration with the settings of agent, planners and environment, and with so many seeds."""
        selection: Selection = type(self).selection  # type: ignore[attr-defined]
        own = dict(config.own)
        for group, settings in selection.groups().items():
            own |= typed(getattr(self, group), settings, selection.sight)
        plain = Config(**{item.name: getattr(config, item.name) for item in fields(Config)} | {"own": own})
        return with_seeds(plain, seeds)


class Train(Training):
    """Train a population on a task. Several values of a setting make a grid."""

    def run(self) -> int:
        return train_and_show(self.whole(self.config, self.seeds), self.output, self.callback)


@dataclass(frozen=True)
class Compare(Training):
    """Train an agent and its Bi-Res version on the same seeds (five by default) and compare their areas under the
    curve."""

    compared: Annotated[str | None, tyro.conf.arg(name="agent")] = None
    """The agent: ddpg, dqn, td3, sac, or MODULE:NAME; default: the first of these for the task's actions."""

    def run(self) -> int:
        seeds = self.seeds if self.seeds is not None or given(self.config, "seed") else 5
        return train_and_show(self.whole(self.config, seeds), self.output, self.callback)


def with_groups(base: type, selection: Selection) -> type:
    """A command with the flags of the selected agent and task, in groups."""
    records = {name: record(name, settings, selection.sight) for name, settings in selection.groups().items()}
    groups: list[Any] = [(name, made, field(default_factory=made)) for name, made in records.items()]
    made = make_dataclass(
        base.__name__,
        [("config", selection.config_type()), *groups],
        bases=(base,),
        frozen=True,
        namespace={"selection": selection},
    )
    made.__doc__ = base.__doc__
    return made


@dataclass(frozen=True)
class Resume:
    """Continue a run where its newest checkpoint left it; with --steps, beyond its end."""

    run_folder: Annotated[Path, tyro.conf.arg(name="RUN"), tyro.conf.Positional]
    steps: Whole | None = None
    """Train until this many steps in all; default: those of the run."""
    trust: bool = False
    """Use what RUN names: modules (MODULE:NAME), whose code runs, and text in --env-kwargs. For runs of your own."""
    callback: str | None = None
    """MODULE:FUNCTION of your own, called after each evaluation; it may stop members."""
    running: RunOptions = field(default_factory=RunOptions)

    def run(self) -> int:
        from bires.api.training import lengthen
        from bires.runs.run import Run

        if self.steps is not None:
            lengthen(self.run_folder, self.steps, self.trust)
        config = Run(self.run_folder, self.trust).config
        return train_and_show(config, Output(**vars(self.running), out=self.run_folder), self.callback)


@dataclass(frozen=True)
class Evaluate:
    """Evaluate the members of a run at its newest checkpoint."""

    run_folder: Annotated[Path, tyro.conf.arg(name="RUN"), tyro.conf.Positional]
    episodes: Whole = 20
    """Noise-free episodes of each member."""
    member: tuple[Whole, ...] = ()
    """Only these members."""
    workers: int | None = None
    """Environment processes; 0: none; default: chosen by size."""
    json: bool = False
    """Print JSON, for machines."""
    trust: bool = False
    """Use what RUN names: modules (MODULE:NAME), whose code runs, and text in --env-kwargs. For runs of your own."""

    def run(self) -> int:
        from bires.cli.evaluating import evaluate_run
        from bires.runs.run import Run

        found = Run(self.run_folder, self.trust)
        return evaluate_run(found, self.episodes, self.member, self.workers, self.json)


@dataclass(frozen=True)
class Report:
    """Write report.html, figures and tables of runs; one panel per task."""

    runs: Annotated[tuple[Path, ...], tyro.conf.arg(name="RUN"), tyro.conf.Positional]
    """Run folders, or folders that hold some."""
    out: Path = Path("report")
    """Where to write."""
    study: str | None = None
    """Judge the paper's claims of this study; default: only where `bires reproduce` made these runs."""
    trust: bool = False
    """Use what RUN names: modules (MODULE:NAME), whose code runs, and text in --env-kwargs. For runs of your own."""

    def run(self) -> int:
        from bires.cli.reporting import report

        return report(self.runs, self.out, self.study, self.trust)


@dataclass(frozen=True)
class Reproduce:
    """Run a study of the paper, or what is missing of it; then write its figures, tables and report.html."""

    study: tyro.conf.Positional[str]
    """See `bires list studies`."""
    scale: Literal["smoke", "small", "paper"] = "small"
    """smoke: minutes, to see that everything works; small: hours on a workstation; paper: all of it."""
    dry_run: bool = False
    """Run nothing; show what is left to do: members, steps, memory and time on this machine."""
    task: tuple[str, ...] = ()
    """Only these tasks of the study."""
    seeds: Whole | None = None
    """Number of seeds, in place of the scale's."""
    steps: Whole | None = None
    """Environment steps of each member, in place of the scale's."""
    eval_every: Whole | None = None
    """Steps between evaluations, in place of the scale's."""
    eval_episodes: Whole | None = None
    """Episodes of an evaluation, in place of the scale's."""
    protocol: Literal["paper", "modern"] = "paper"
    """`paper` treats time limits as ends, as the paper's code did; `modern` bootstraps through them."""
    at_once: Whole | None = None
    """Populations that run at the same time, each with its share of the cores; default: as many as fill the machine."""
    minutes: float | None = None
    """Stop cleanly after this many minutes; a population that would not end in time is not begun."""
    ray: str | None = None
    """Run on a Ray cluster: its HOST:PORT, auto (the one this machine belongs to) or local. --out must be shared by its
    nodes; --workers is the number of cores of each population."""
    output: Output = field(default_factory=Output)

    def run(self) -> int:
        from bires.cli.reproducing import estimate, reproduce

        mine = {name: getattr(self, name) for name in ("seeds", "steps", "eval_every", "eval_episodes")}
        given: dict[str, Any] = {name: value for name, value in mine.items() if value is not None}
        if self.protocol != "paper":
            given["protocol"] = self.protocol
        if self.dry_run:
            return estimate(self.study, self.scale, self.task, given, self.output)
        return reproduce(self.study, self.scale, self.task, given, self.output, self._way())

    def _way(self) -> tuple[Way, str]:
        """How the populations are run, and what a user types for it."""
        from bires.errors import UserError
        from bires.studies.cluster import over
        from bires.studies.together import at_once

        local = {"--at-once": self.at_once, "--minutes": self.minutes}
        typed = [f" {name} {value:g}" for name, value in local.items() if value is not None]
        if self.ray is None:
            return at_once(self.at_once, self.minutes), "".join(typed)
        if typed:
            raise UserError(f"Both --ray and{typed[0]} were given; --at-once and --minutes are for this machine alone.")
        return over(self.ray), f" --ray {self.ray}"


@dataclass(frozen=True)
class Bench:
    """Measure this machine: update speed, environment speed, share of the peak, and peers side by side."""

    peers: Path | None = None
    """The Python of an environment with Stable-Baselines3, SBX and PyTorch (`make bench` sets one up)."""
    task: str = "walker-stand"
    """The task whose sizes and environments are used."""
    agent: str | None = None
    """The agent: ddpg, dqn, td3, sac, or MODULE:NAME; default: the first of these for the task's actions."""
    populations: tuple[Whole, ...] = ()
    """Population sizes; default: 1, 4, 10 on a CPU; 1, 8, 35, 175, 330 on an accelerator."""
    seconds: float = 4.0
    """About how long each measurement takes."""
    planning: str | None = None
    """A task whose oracle, learned models and planners are measured, too."""
    rules: bool = False
    """Measure the time of an update by each rule, too, in units of td's."""
    json: bool = False
    """Print JSON, for machines."""

    def run(self) -> int:
        from bires.tools.bench.report import Wish, bench

        wish = Wish(self.task, self.agent, tuple(self.populations), self.seconds, self.peers, self.planning, self.rules)
        return bench(wish, self.json)


def named(record: type, name: str) -> Any:
    return Annotated[record, tyro.conf.subcommand(name=name)]


def commands(words: Sequence[str]) -> Any:
    """All commands, as tyro takes them, with the flags of the agent and the task that this command line names."""
    training = words[:1] in (["train"], ["compare"])
    selection = Selection(words if training else [])
    if training:
        selection.refuse_foreign()
    records = {
        "list": List,
        "train": with_groups(Train, selection),
        "compare": with_groups(Compare, selection),
        "resume": Resume,
        "evaluate": Evaluate,
        "play": Play,
        "report": Report,
        "export": Export,
        "reproduce": Reproduce,
        "bench": Bench,
        "doctor": Doctor,
    }
    union: Any = Union[tuple(named(one, name) for name, one in records.items())]  # noqa: UP007
    prefixed: Any = tyro.conf.OmitArgPrefixes
    return prefixed[union]


def given(config: Config, name: str) -> bool:
    """Whether a setting was typed, even with its default value: what was not typed is the default object itself."""
    return getattr(config, name) is not getattr(Config, name)


def with_seeds(config: Config, count: int | None) -> Config:
    from bires.errors import UserError
    from bires.settings.keywords import seeds

    if count is None:
        return config
    if given(config, "seed"):
        raise UserError("Both --seeds and --seed were given; --seeds 5 is short for --seed 0 1 2 3 4.")
    return replace(config, seed=seeds(count))


def train_and_show(config: Config, output: Output, callback: str | None = None) -> int:
    """Trains, then shows the results."""
    from bires.settings.options import Stopped
    from bires.training.callbacks import load_callback
    from bires.training.display import Display
    from bires.training.start import start

    display = Display(output.quiet, output.json)
    options = replace(output.options(), callback=load_callback(callback) if callback else None)
    try:
        run = start(config, output.out, options, display)
    except Stopped as stopped:
        raise Interrupted(f"{stopped}; continue with `bires resume {display.out}`") from None
    show(run, display)
    return 0


def show(run: Run, display: Display) -> None:
    """The table and the picture at the end of a run."""
    from bires.analysis.summary import as_json, of_run, picture, rich_table

    rows = of_run(run)
    path: Path | None = None
    try:
        path = picture(run)
        (run.path / "summary.json").write_text(json.dumps(as_json(rows), indent=2) + "\n")
    except OSError as error:  # a finished run may lie where nothing can be written
        what = f"summary.json or curves.png of {run.path} cannot be written ({error.strerror})"
        display.warn(f"{what}; the run itself is whole. They are made anew by `bires resume {run.path}`")
    display.event("done", run=str(run.path), summary=as_json(rows), picture=path and str(path))
    if not display.quiet and not display.as_json:
        display.console.print(rich_table(run, rows))
        if path is not None:
            display.console.print(f"learning curves: {path}", soft_wrap=True)
