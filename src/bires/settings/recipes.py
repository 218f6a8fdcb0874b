"""The environment of a configuration."""

from __future__ import annotations

from dataclasses import replace

from bires.envs.adapter import Recipe, recipe
from bires.envs.families import family_of
from bires.settings.config import Config


def recipe_of(config: Config) -> Recipe:
    """The recipe for a configuration's task, with the settings of its family."""
    family = family_of(config.task)
    settings = {one.name: config.own[one.name] for one in family.settings} if family else None
    made = recipe(config.task, config.protocol, settings, config.env_kwargs)
    return replace(made, disturb=config.disturb)
