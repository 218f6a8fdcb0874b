"""From a study and a scale to populations and their run folders."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bires.errors import unknown
from bires.runs.run import Run
from bires.runs.tables import read_csv
from bires.settings import grid
from bires.settings.config import Config
from bires.settings.keywords import make_config
from bires.settings.validation import validate
from bires.settings.values import proper
from bires.studies.records import STUDIES
from bires.studies.study import SCALES, Part, Scale, Study


@dataclass(frozen=True)
class Job:
    """One population, and the folder of its run."""

    config: Config
    path: Path

    @property
    def members(self) -> int:
        return len(grid.members(self.config))

    @property
    def finished(self) -> bool:
        return self.started and Run(self.path).finished

    @property
    def started(self) -> bool:
        return (self.path / "manifest.json").exists()

    @property
    def step(self) -> int:
        """How far it has come: the last evaluation."""
        if self.finished:
            return self.config.steps
        table = self.path / "evaluations.csv"
        steps = read_csv(table).get("step", ()) if table.exists() else ()
        return int(max(steps, default=0))


def get(name: str) -> Study:
    """The study of that name, or an error with the nearest names."""
    if proper("study", name, str) not in STUDIES:
        raise unknown("study", name, STUDIES, "See `bires list studies`.")
    return STUDIES[name]


def jobs(name: str, scale: Scale, out: Path, overrides: Mapping[str, Any]) -> list[Job]:
    """The populations of a study. ``overrides`` are the user's settings; they replace those of study and scale."""
    study = get(name)
    return [
        Job(config_of(study, part, scale, task, overrides), out / (task.replace("/", "-") + part.suffix))
        for part in study.parts
        for task in part.tasks
    ]


def config_of(study: Study, part: Part, scale: Scale, task: str, overrides: Mapping[str, Any]) -> Config:
    size = SCALES[scale]
    seeds = min(study.seeds, size.seeds or study.seeds)
    scaled = {**size.settings, **study.scaled.get(scale, {})}
    settings = {"protocol": "paper", "seeds": seeds, **part.settings, **scaled, **overrides}
    if "seed" in overrides:
        del settings["seeds"]
    config = make_config(task, settings)
    validate(config)
    return config


def default_out(name: str, scale: Scale) -> Path:
    return Path("runs") / f"{get(name).runs_of or name}-{scale}"


def report_folder(name: str, out: Path) -> Path:
    """Where a study's figures go, beside its runs."""
    return out / ("report" if get(name).runs_of is None else f"report-{name}")
