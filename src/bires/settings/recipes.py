"""The environment of a configuration."""

from __future__ import annotations

from dataclasses import replace

from bires.envs.adapter import Recipe, recipe
from bires.settings.config import Config


def recipe_of(config: Config) -> Recipe:
    """The recipe for a configuration's task."""
    made = recipe(config.task, config.protocol)
    return replace(made, sticky=None if config.sticky < 0 else config.sticky, full_actions=config.full_actions)
