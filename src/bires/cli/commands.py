"""The commands: each is a frozen record of its flags and a `run` that gives the exit code."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from bires.config import Config, Whole

if TYPE_CHECKING:
    from bires.display import Display
    from bires.runs import Run


class Interrupted(Exception):
    """A run that was asked to stop, and can be continued."""


@dataclass(frozen=True)
class Output:
    """How a command runs and reports; nothing here changes results."""

    out: Path | None = None
    """The run folder; default: runs/<task>-<time>. If the same run is there, it is continued."""
    workers: int | None = None
    """Environment processes; 0: none, step them here; default: chosen by size."""
    quiet: bool = False
    """Print nothing but errors."""
    json: bool = False
    """Print one JSON object per line, for machines."""


@dataclass(frozen=True)
class List:
    """What there is: algorithms, rules, tasks, studies."""

    what: tyro.conf.Positional[Literal["all", "algorithms", "rules", "tasks", "studies"]] = "all"

    def run(self) -> int:
        from bires.cli.listing import listing

        print(listing(self.what))
        return 0


@dataclass(frozen=True)
class Train:
    """Train a population on a task. Several values of a setting make a grid."""

    config: Config
    seeds: Whole | None = None
    """Number of seeds: --seeds 5 is short for --seed 0 1 2 3 4."""
    output: Output = Output()

    def run(self) -> int:
        return train(with_seeds(self.config, self.seeds), self.output)


@dataclass(frozen=True)
class Compare:
    """Train DDPG and Bi-Res-DDPG on the same seeds (five by default) and compare their areas under the curve."""

    config: Config
    seeds: Whole | None = None
    """Number of seeds: --seeds 5 is short for --seed 0 1 2 3 4."""
    output: Output = Output()

    def run(self) -> int:
        config = self.config
        if config.algorithm == Config.algorithm:
            config = replace(config, algorithm=("ddpg", "bi-res-ddpg"))
        count = self.seeds if self.seeds is not None or config.seed != Config.seed else 5
        return train(with_seeds(config, count), self.output)


@dataclass(frozen=True)
class Resume:
    """Continue a run where its newest checkpoint left it."""

    run_folder: Annotated[Path, tyro.conf.arg(name="RUN"), tyro.conf.Positional]
    workers: int | None = None
    """Environment processes; 0: none; default: chosen by size."""
    quiet: bool = False
    """Print nothing but errors."""
    json: bool = False
    """Print one JSON object per line, for machines."""

    def run(self) -> int:
        from bires.runs import Run

        config = Run(self.run_folder).config
        return train(config, Output(self.run_folder, self.workers, self.quiet, self.json))


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

    def run(self) -> int:
        from bires.cli.evaluating import evaluate_run

        return evaluate_run(self.run_folder, self.episodes, self.member, self.workers, self.json)


@dataclass(frozen=True)
class Report:
    """Draw the learning curves of runs, one panel per run, and write their summary."""

    runs: Annotated[tuple[Path, ...], tyro.conf.arg(name="RUN"), tyro.conf.Positional]
    out: Path = Path("report")
    """Where to write curves.png, curves.svg, curves.pdf and summary.csv."""

    def run(self) -> int:
        from bires.cli.reporting import report

        return report(self.runs, self.out)


@dataclass(frozen=True)
class Reproduce:
    """Run a study: its experiments, its figures and a verdict on each claim."""

    study: tyro.conf.Positional[Literal["linear"]]
    """`linear`: the policy-evaluation lab, section 3 of the paper (about a minute)."""
    scale: Literal["smoke", "small", "paper"] = "paper"
    """`smoke` only shows that everything works; `linear` has no middle scale."""
    out: Path | None = None
    """Where to write; default: runs/<study>."""

    def run(self) -> int:
        from bires.cli.reproducing import reproduce_linear

        return reproduce_linear(self.out or Path("runs") / self.study, quick=self.scale == "smoke")


@dataclass(frozen=True)
class Bench:
    """Measure this machine: update speed, environment speed, share of the peak, and peers side by side."""

    peers: Path | None = None
    """The Python of an environment with Stable-Baselines3, SBX and PyTorch (`make bench` sets one up)."""
    task: str = "walker-stand"
    """The task whose sizes and environments are used."""
    populations: tuple[Whole, ...] = (1, 4, 10)
    """Population sizes."""
    seconds: float = 4.0
    """About how long each measurement takes."""
    json: bool = False
    """Print JSON, for machines."""

    def run(self) -> int:
        from bires.bench.report import bench

        return bench(self.task, tuple(self.populations), self.seconds, self.peers, self.json)


def named(record: type, name: str) -> Any:
    return Annotated[record, tyro.conf.subcommand(name=name)]


if TYPE_CHECKING:
    COMMANDS: Any
else:
    COMMANDS = tyro.conf.OmitArgPrefixes[
        named(List, "list")
        | named(Train, "train")
        | named(Compare, "compare")
        | named(Resume, "resume")
        | named(Evaluate, "evaluate")
        | named(Report, "report")
        | named(Reproduce, "reproduce")
        | named(Bench, "bench")
    ]


def with_seeds(config: Config, count: int | None) -> Config:
    from bires.api import seeds
    from bires.errors import UserError

    if count is None:
        return config
    if config.seed != Config.seed:
        raise UserError("Both --seeds and --seed were given; --seeds 5 is short for --seed 0 1 2 3 4.")
    return replace(config, seed=seeds(count))


def train(config: Config, output: Output) -> int:
    """Trains, then shows what was found."""
    from bires.api import start
    from bires.display import Display
    from bires.trainer import Stopped

    display = Display(output.quiet, output.json)
    try:
        run = start(config, output.out, output.workers, display)
    except Stopped as stopped:
        raise Interrupted(f"{stopped}; continue with `bires resume {display.out}`") from None
    show(run, display)
    return 0


def show(run: Run, display: Display) -> None:
    """The table and the picture at the end of a run."""
    from bires.summary import picture, rich_table, summarise

    records = summarise(run)
    path = picture(run)
    (run.path / "summary.json").write_text(json.dumps(records, indent=2) + "\n")
    display.event("done", run=str(run.path), summary=records, picture=str(path))
    if not display.quiet and not display.as_json:
        display.console.print(rich_table(run, records))
        display.console.print(f"learning curves: {path}", soft_wrap=True)
