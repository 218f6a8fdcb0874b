"""Several tasks with the same settings: a run for each, as many at the same time as fill the machine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from bires.envs.recipe import probe
from bires.errors import UserError
from bires.population.program import require_actions
from bires.runs.trust import remember
from bires.settings import config as configuration
from bires.settings.config import Config
from bires.settings.options import Options
from bires.settings.recipes import recipe_of
from bires.settings.validation import validate
from bires.studies.plan import Job
from bires.studies.run import StudyOutcome, Way, fill
from bires.training.display import Display
from bires.training.start import folder_name


def train_each(configs: Sequence[Config], out: Path, options: Options, display: Display, way: Way) -> StudyOutcome:
    """Trains each configuration, which differ in their tasks, in a folder of its own under ``out``.

    One that cannot run does not stop the others (see `require_all`). `StudyStopped` says how many are done.
    """
    return fill(jobs(configs, out), options, display, way)


def require_all(outcome: StudyOutcome) -> None:
    """Raises if some population could not be run."""
    if outcome.failures:
        names = ", ".join(str(path) for path in outcome.failures)
        why = "\n".join(dict.fromkeys(outcome.failures.values()))
        raise UserError(f"{len(outcome.failures)} of the runs could not be made: {names}.\n{why}")


def jobs(configs: Sequence[Config], out: Path) -> list[Job]:
    """The populations, and where they go."""
    names = [folder_name(config.task) for config in configs]
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise UserError(f"Task {twice[0]} was named twice. For more members of it, use --seeds.")
    if (out / "manifest.json").exists():
        raise UserError(f"--out {out} is a run of one task; several tasks need a folder for their runs. Give another.")
    for config in configs:
        validate(config)
        require_actions(config, probe(recipe_of(config)))  # or an error that names the nearest tasks
        remember(configuration.to_json(config))  # what was typed is trusted, also when these runs are read here
    return [Job(config, out / name) for config, name in zip(configs, names, strict=True)]


def default_out(configs: Sequence[Config]) -> Path:
    return Path("runs") / f"{len(configs)}-tasks-{datetime.now():%Y%m%d-%H%M%S}"
