"""In which settings runs differ from the paper's, apart from the settings of members."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bires.analysis.curves import Panel
from bires.analysis.scores import short
from bires.analysis.totals import model_of
from bires.envs.tasks import SHORT, known_as
from bires.settings import config as configs
from bires.settings.config import Config
from bires.settings.keywords import make_config
from bires.studies.study import Study

SUBJECT = ("task", "algorithm", "eta", "planning_eta", "seed", "log_every", "model")
"""Settings that are the study's subject, or do not touch a curve."""
ELSEWHERE = ("steps", "eval_episodes", "protocol")
"""Settings that the report shows elsewhere."""
LEARNED = ("model_scale", "model_noise", "ensemble")
"""Settings of learned models."""


def wanted(study: Study, config: Config, learned: bool) -> Config:
    """The settings that the study has for a run: those of the part that is nearest to it."""
    tasked = [part for part in study.parts if short(config.task) in part.tasks] or study.parts[:1]
    known = [make_config(config.task, {"protocol": "paper", **part.settings}) for part in tasked]
    return min(known, key=lambda theirs: len(differing(config, theirs, learned)))


def departures(study: Study, panels: Sequence[Panel]) -> list[str]:
    """One phrase for each setting that is not the paper's in some run."""
    found: dict[tuple[str, str], list[str]] = {}
    for panel in panels:
        learned = model_of(panel) == "learned"
        for run in panel.runs:
            ours = configs.to_json(run.config)
            for name, theirs in differing(run.config, wanted(study, run.config, learned), learned).items():
                if name in ours:  # another agent has other settings
                    found.setdefault((name, theirs), []).append(shown(ours[name]))
    others = dict.fromkeys(text for panel in panels for run in panel.runs if (text := other_version(run.config.task)))
    settings = [
        f"{name} {' or '.join(dict.fromkeys(ours))} instead of {theirs}" for (name, theirs), ours in found.items()
    ]
    return [*others, *settings]


def other_version(task: str) -> str:
    """Says so where a task is another version than the one that its short name means; else nothing."""
    name = short(task)
    return f"{task} instead of {SHORT[name]}" if name in SHORT and known_as(task) not in (name, SHORT[name]) else ""


def differing(config: Config, study: Config, learned: bool) -> dict[str, str]:
    """Setting → what it would be in the study."""
    ours, theirs = configs.to_json(config), configs.to_json(study)
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
    if isinstance(value, float) and value.is_integer() and value >= 1000:  # a number of steps, written 1e5
        value = int(value)
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else f"{value}"
