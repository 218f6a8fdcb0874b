"""In what runs differ from the paper's settings: everything but who their members are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from bires.config import Config
from bires.curves import Panel
from bires.scores import short
from bires.studies.records import Part, Study
from bires.totals import model_of

WHO = ("task", "algorithm", "eta", "planning_eta", "seed", "log_every", "model")
"""Settings that are the study's subject, or do not touch a curve."""
TOLD = ("steps", "eval_episodes", "protocol")
"""Settings that are told in other words."""
LEARNED = ("model_scale", "ensemble")
"""Settings of learned models."""


def part_of(study: Study, task: str) -> Part:
    """The part of a study that a task belongs to; the first for a task of no part."""
    return next((part for part in study.parts if short(task) in part.tasks), study.parts[0])


def papers(study: Study, task: str) -> Config:
    """The settings that the paper has for a task."""
    settings = {"protocol": "paper", **part_of(study, task).settings}
    return Config(task, **settings)


def departures(study: Study, panels: Sequence[Panel]) -> list[str]:
    """One phrase for each setting that is not the paper's in some run."""
    found: dict[tuple[str, str], list[str]] = {}
    for panel in panels:
        learned = model_of(panel) == "learned"
        for run in panel.runs:
            wanted = papers(study, run.config.task)
            for name, theirs in differing(run.config, wanted, learned).items():
                found.setdefault((name, theirs), []).append(shown(getattr(run.config, name)))
    return [f"{name} {' or '.join(dict.fromkeys(ours))} instead of {theirs}" for (name, theirs), ours in found.items()]


def differing(config: Config, wanted: Config, learned: bool) -> dict[str, str]:
    """Setting → what it would be in the paper."""
    names = [field.name for field in fields(Config) if field.name not in (*WHO, *TOLD)]
    unlike = [name for name in names if getattr(config, name) != getattr(wanted, name)]
    return {name: shown(getattr(wanted, name)) for name in unlike if matters(name, config, learned)}


def matters(name: str, config: Config, learned: bool) -> bool:
    """A replay as large as the run forgets nothing; a run without learned models has no use for their sizes."""
    if name == "replay":
        return config.replay < config.steps
    return learned or name not in LEARNED


def shown(value: Any) -> str:
    if isinstance(value, tuple):
        return " and ".join(map(shown, value)) if value else "none"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else f"{value}"
