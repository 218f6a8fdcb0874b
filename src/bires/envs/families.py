"""Families of environments with observations of pixels. A user's own family is found in its module.

An environment of a family gives observations of bytes, (stack × channels, height, width), the newest picture last; its
`info` may say that a life was lost (`life_lost`), which ends an episode for a learner.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from bires.errors import UserError
from bires.machine.modules import import_users
from bires.types import Pixels, Setting

ATARI = ("BeamRider", "Breakout", "Seaquest")
"""The paper's three Atari games, by short name."""


@dataclass(frozen=True)
class PixelFamily:
    """Environments with observations of pixels, and what they have in common."""

    name: str
    owns: Callable[[str], bool]
    """Whether a task belongs to the family, by its name."""
    resolve: Callable[[str, str], str]
    """A task's name and the protocol → its Gymnasium id, registered."""
    build: Callable[[str, Mapping[str, Any]], Any]
    """A Gymnasium id and the family's settings → the environment."""
    pixels: Pixels
    settings: tuple[Setting, ...] = ()
    """Flags of its tasks alone. They describe the environment, so they do not vary inside a population."""


def is_atari(task: str) -> bool:
    """Whether a task's name is that of an Atari game."""
    return task.lower() in map(str.lower, ATARI) or re.search(r"^ALE/|NoFrameskip-v\d+$", task) is not None


def resolve_atari(task: str, protocol: str) -> str:
    """The short name of a game is the paper's `NoFrameskip-v4` under its protocol, else `ALE/…-v5`."""
    from bires.envs import atari

    atari.register()
    short = {name.lower(): name for name in ATARI}
    if task.lower() not in short:
        return task
    name = short[task.lower()]
    return f"{name}NoFrameskip-v4" if protocol == "paper" else f"ALE/{name}-v5"


def build_atari(name: str, settings: Mapping[str, Any]) -> Any:
    from bires.envs.atari import Atari

    sticky = settings["sticky"]
    return Atari(name, None if sticky < 0 else sticky, settings["full_actions"])


FAMILIES: dict[str, PixelFamily] = {
    family.name: family
    for family in (
        PixelFamily(
            "Atari",
            is_atari,
            resolve_atari,
            build_atari,
            Pixels(4, 84, 84),
            (
                Setting(
                    "sticky",
                    -1.0,
                    "The probability that the emulator repeats the last action instead; -1: that of the id "
                    "(v5 0.25, v4 0).",
                    low=-1.0,
                    high=1.0,
                    hint="-1: that of the task's id",
                ),
                Setting("full_actions", False, "All 18 actions, also those without effect in the game."),
            ),
        ),
    )
}


def family_of(task: str) -> PixelFamily | None:
    """The family of a task, perhaps from the module of MODULE:ID. None: its observations are vectors."""
    module, _, name = task.rpartition(":")
    if module:
        load(module)
    return next((family for family in FAMILIES.values() if family.owns(name)), None)


def load(module: str) -> None:
    """Adds the families of a user's module: every `PixelFamily` among its names."""
    for value in vars(import_users(module, "The task")).values():
        if isinstance(value, PixelFamily):
            require_fixed(value, module)
            FAMILIES[value.name] = value


def require_fixed(family: PixelFamily, module: str) -> None:
    """Refuses settings that vary: all members of a population share one task."""
    for setting in family.settings:
        if setting.varies:
            raise UserError(
                f"The setting {setting.name!r} of the family {family.name!r} in {module} has varies=True; a population "
                "has one environment, so it must be False."
            )
