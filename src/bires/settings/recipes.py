"""The environment of a configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from bires.envs.families import family_of
from bires.envs.recipe import Recipe, recipe
from bires.errors import unknown
from bires.settings.config import Config
from bires.settings.values import settled_own


def family_values(task: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a task's family: those that were given, checked, and defaults."""
    family = family_of(task)
    known = {one.name: one for one in family.settings} if family else {}
    for name in given:
        if name not in known:
            raise unknown("setting", name, known, "" if known else f"Task {task!r} has no settings of its own.")
    return {name: settled_own(one, given.get(name, one.default_for("pixels"))) for name, one in known.items()}


def recipe_of(config: Config) -> Recipe:
    """The recipe for a configuration's task, with the settings of its family."""
    family = family_of(config.task)
    settings = {one.name: config.own[one.name] for one in family.settings} if family else None
    made = recipe(config.task, config.protocol, settings, config.env_kwargs)
    return replace(made, disturb=config.disturb)
