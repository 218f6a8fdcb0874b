"""In which settings runs differ from the paper's, apart from the settings of members."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bires.analysis.curves import Panel
from bires.analysis.scores import short
from bires.analysis.totals import model_of
from bires.settings import config as configs
from bires.settings.config import Config
from bires.settings.keywords import make_config
from bires.studies.records import Part, Study

SUBJECT = ("task", "algorithm", "eta", "planning_eta", "seed", "log_every", "model")
"""Settings that are the study's subject, or do not touch a curve."""
ELSEWHERE = ("steps", "eval_episodes", "protocol")
"""Settings that the report shows elsewhere."""
LEARNED = ("model_scale", "ensemble")
"""Settings of learned models."""


def part_of(study: Study, task: str) -> Part:
    """The part of a study that a task belongs to; the first for a task of no part."""
    return next((part for part in study.parts if short(task) in part.tasks), study.parts[0])


def papers(study: Study, task: str) -> Config:
    """The settings that the paper has for a task."""
    settings = {"protocol": "paper", **part_of(study, task).settings}
    return make_config(task, settings)


def departures(study: Study, panels: Sequence[Panel]) -> list[str]:
    """One phrase for each setting that is not the paper's in some run."""
    found: dict[tuple[str, str], list[str]] = {}
    for panel in panels:
        learned = model_of(panel) == "learned"
        for run in panel.runs:
            wanted = papers(study, run.config.task)
            for name, theirs in differing(run.config, wanted, learned).items():
                found.setdefault((name, theirs), []).append(shown(configs.to_json(run.config)[name]))
    return [f"{name} {' or '.join(dict.fromkeys(ours))} instead of {theirs}" for (name, theirs), ours in found.items()]


def differing(config: Config, wanted: Config, learned: bool) -> dict[str, str]:
    """Setting → what it would be in the paper."""
    ours, theirs = configs.to_json(config), configs.to_json(wanted)
    unlike = [name for name in theirs if name not in (*SUBJECT, *ELSEWHERE) and ours.get(name) != theirs[name]]
    return {name: shown(theirs[name]) for name in unlike if matters(name, config, learned)}


def matters(name: str, config: Config, learned: bool) -> bool:
    """A replay as large as the run forgets nothing; a run without learned models has no use for their sizes."""
    if name == "replay":
        return config.replay < config.steps
    return learned or name not in LEARNED


def shown(value: Any) -> str:
    if isinstance(value, list):
        return " and ".join(map(shown, value)) if value else "none"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else f"{value}"
