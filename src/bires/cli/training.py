"""The commands that train: `train`, `compare`, `tune` and `resume`, with what they share."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import tyro

from bires.cli.output import (
    Interrupted,
    MaybeNumber,
    MaybeText,
    MaybeViewer,
    MaybeWhole,
    Output,
    RunFolder,
    RunOptions,
    Trust,
)
from bires.settings.config import Config
from bires.settings.values import Whole

if TYPE_CHECKING:
    from bires.runs.run import Run
    from bires.training.display import Display


@dataclass(frozen=True)
class Training:
    """What `train`, `compare` and `tune` share. `bires.cli.groups` makes their flags, and them from what was typed."""

    hints: ClassVar = {"algorithm": "(default: bi-res-ddpg; with discrete actions bi-res-dqn)"}
    config: Config
    output: Output
    names: tuple[str, ...]
    """The flags that were typed."""
    seeds: MaybeWhole = None
    """Number of seeds: --seeds 5 is short for --seed 0 1 2 3 4."""
    callback: MaybeText = None
    """MODULE:FUNCTION of your own, called after each evaluation; it may stop members."""
    log: MaybeViewer = None
    """Write curves for a viewer while training: into RUN/tensorboard, or into wandb here; needs that extra."""

    def seeded(self, count: int | None = None) -> Config:
        """The configuration with as many seeds as were asked for; with ``count`` of them if none were."""
        asked = self.seeds if self.seeds is not None or given(self.config, "seed") else count
        return with_seeds(self.config, asked)


@dataclass(frozen=True)
class OnTasks(Training):
    """A command that takes one task, or several: a run for each."""

    at_once: MaybeWhole = None
    """With several tasks: runs at the same time; default: as many as fill the machine."""
    minutes: MaybeNumber = None
    """With several tasks: stop cleanly after this many minutes; a run that would not end in time is not begun."""

    def configuration(self) -> Config:
        """All that was typed, with defaults where nothing was."""
        return self.seeded()

    def run(self) -> int:
        from bires.errors import UserError

        for flag, value in {"--at-once": self.at_once, "--minutes": self.minutes}.items():
            if value is not None:
                raise UserError(
                    f"{flag} was given with one task; it is for several: `bires train TASK TASK … {flag} 2`."
                )
        return train_and_show(self.configuration(), self.output, self.callback, self.log)


class Train(OnTasks):
    """Train a population on a task; on several tasks, a population on each. Several values of a setting make a grid."""


@dataclass(frozen=True)
class Compare(OnTasks):
    """Train an agent and its Bi-Res version on the same seeds (five by default) and compare their areas under the
    curve; on several tasks, over all of them, too."""

    hints: ClassVar = {"algorithm": "(default: the agent and its Bi-Res version)", "seed": "(default: 0 1 2 3 4)"}
    agent: MaybeText = None
    """The agent: ddpg, dqn, td3, sac, crossq, or MODULE:NAME; default: the first of these for the task's actions."""

    def configuration(self) -> Config:
        from bires.settings.comparison import require_two

        return require_two(self.seeded(5))


def on_several(commands: Sequence[OnTasks]) -> int:
    """The same command on several tasks: a run for each, then what all of them show."""
    from bires.settings.options import Stopped
    from bires.studies.run import Following
    from bires.studies.several import default_out, require_all, train_each
    from bires.studies.together import at_once
    from bires.training.display import Display
    from bires.training.start import stoppable

    first, configs = commands[0], [command.configuration() for command in commands]
    output, out = first.output, first.output.out or default_out(configs)
    display = Display(output.quiet, output.json)
    way = at_once(first.at_once, first.minutes, Following(first.callback, first.log))
    try:
        outcome = train_each(configs, out, output.options(), display, way)
    except Stopped as stopped:
        display.event("stopped", run=str(out), said=str(stopped))
        again = "" if output.out else f" with --out {shlex.quote(str(out))}"
        raise Interrupted(f"{stopped}; the same command{again} goes on") from None
    with stoppable():  # the runs are done
        for run in outcome.runs:
            show(run, display)
        show_totals(outcome.runs, out, display)
    require_all(outcome)
    return 0


@dataclass(frozen=True)
class Tune(Training):
    """Search settings: every list and range makes trials, all of them train as one population, the worse half is
    stopped again and again, and the command that trains the best is printed."""

    range: Annotated[tuple[tuple[str, ...], ...], tyro.conf.UseAppendAction] = ()
    """SETTING LOW HIGH, then `log` for numbers of several magnitudes: --range critic_lr 1e-4 1e-2 log."""
    trials: Whole = 16
    """Draws from the ranges, for each combination of the lists."""
    halvings: Whole = 3
    """How often the worse half of the trials is stopped: after 1/8, 1/4 and 1/2 of the steps; 0: never."""
    search_seed: Whole = 0
    """The seed of the draws."""

    def run(self) -> int:
        from bires.settings.searching import Search, searched
        from bires.settings.tuning import ranges_of

        search = Search(ranges_of(self.range), self.trials, self.halvings, self.search_seed)
        config = searched(self.seeded(3), search, self.names)
        return train_and_show(config, self.output, self.callback, self.log)


@dataclass(frozen=True)
class Resume:
    """Continue a run where its newest checkpoint left it; with --steps, beyond its end."""

    run_folder: RunFolder
    """The folder of a run."""
    steps: MaybeWhole = None
    """Train until this many steps in all; default: those of the run."""
    trust: Trust = False
    callback: MaybeText = None
    """MODULE:FUNCTION of your own, called after each evaluation; it may stop members."""
    log: MaybeViewer = None
    """Write curves for a viewer while training: into RUN/tensorboard, or into wandb here; needs that extra."""
    running: RunOptions = field(default_factory=RunOptions)

    def run(self) -> int:
        from bires.runs.run import Run
        from bires.studies.run import Following
        from bires.training.launch import lengthen

        if self.steps is not None:
            Following(self.callback, self.log).require()
            lengthen(self.run_folder, self.steps, self.running.options(), self.trust)
        config = Run(self.run_folder, self.trust).config
        return train_and_show(config, Output(**vars(self.running), out=self.run_folder), self.callback, self.log)


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


def train_and_show(config: Config, output: Output, callback: str | None, log: str | None) -> int:
    """Trains, then shows the results."""
    from bires.analysis.live import logging
    from bires.runs.trust import resume_command
    from bires.settings.config import to_json
    from bires.settings.options import Stopped
    from bires.training.callbacks import load_callback
    from bires.training.display import Display
    from bires.training.start import start, stoppable

    display = Display(output.quiet, output.json)
    options = replace(output.options(), callback=load_callback(callback) if callback else None)
    try:
        with logging(log) as live:
            run = start(config, output.out, replace(options, log=live), display)
    except Stopped as stopped:
        display.event("stopped", run=str(display.out), said=str(stopped))
        raise Interrupted(f"{stopped}; continue with {resume_command(display.out, to_json(config))}") from None
    with stoppable():  # the run is done: a signal that comes now need not end the process
        show(run, display)
    return 0


def show(run: Run, display: Display) -> None:
    """The table and the picture at the end of a run."""
    from bires.analysis.summary import of_run, picture, rich_table
    from bires.machine.terminal import plain
    from bires.runs.folder import write_whole
    from bires.runs.trust import resume_command

    if run.config.tuning is not None:
        show_trials(run, display)
        return
    rows = of_run(run)
    path: Path | None = None
    try:
        path = picture(run)
        write_whole(run.path / "summary.json", json.dumps(plain(rows), indent=2) + "\n")
    except OSError as error:  # a finished run may lie where nothing can be written
        what = f"summary.json or curves.png of {run.path} cannot be written ({error.strerror})"
        again = resume_command(run.path, run.manifest["config"])
        display.warn(f"{what}; the run itself is whole. They are made anew by {again}")
    display.event("done", run=str(run.path), summary=rows, picture=path and str(path))
    if not display.quiet and not display.as_json:
        display.console.print(rich_table(run, rows))
        if path is not None:
            display.console.print(f"learning curves: {path}", soft_wrap=True)


def show_totals(runs: Sequence[Run], out: Path, display: Display) -> None:
    """What several tasks say together, and how to see more."""
    from bires.analysis.curves import collect
    from bires.analysis.summary import totals_table
    from bires.analysis.totals import totals

    if display.quiet or display.as_json:
        return
    compared = [total for total in totals(collect(runs)) if total.interval]
    if compared and max(total.count for total in compared) > 1:
        display.console.print(totals_table(compared, display.console.width))
    display.console.print(
        f"curves, tables and report.html of all tasks: `bires report {shlex.quote(str(out))}`", soft_wrap=True
    )


def show_trials(run: Run, display: Display) -> None:
    """The trials of a search, and what to type next."""
    from bires.analysis.trials import CAUTION, best_command, rich_table, table, write

    try:
        found = write(run)
    except OSError as error:  # a finished run may lie where nothing can be written
        display.warn(f"trials.csv of {run.path} cannot be written ({error.strerror}); the run itself is whole")
        found = table(run)
    command = best_command(run)
    display.event("done", run=str(run.path), trials=list(found.rows()), command=command)
    if not display.quiet and not display.as_json:
        display.console.print(rich_table(run, found, display.console.width))
        display.console.print(f"trials: {run.path / 'trials.csv'}\n{CAUTION}\n\n    {command}\n", soft_wrap=True)
