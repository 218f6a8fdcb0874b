"""Families of environments with observations of pixels. A user's own family is found in its module.

An environment of a family gives observations of bytes, (stack × channels, height, width), the newest picture last; its
`info` may say that a life was lost (`life_lost`), which ends an episode for a learner.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
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
    pixels: Pixels | Callable[[str], Pixels]
    """What its tasks show; or a task's name → what it shows."""
    settings: tuple[Setting, ...] = ()
    """Flags of its tasks alone. They describe the environment, so they do not vary inside a population."""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """Settings of runs and agents → defaults in place of theirs."""

    def seen(self, task: str) -> Pixels:
        """What a task shows."""
        return self.pixels if isinstance(self.pixels, Pixels) else self.pixels(task)


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


def is_minatar(task: str) -> bool:
    """Whether a task's name is that of a MinAtar game."""
    return minatar().game_of(task) is not None


def minatar() -> Any:
    from bires.envs import minatar  # imports Gymnasium

    return minatar


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
        PixelFamily(
            "MinAtar",
            is_minatar,
            lambda task, protocol: minatar().resolve(task, protocol),
            lambda name, settings: minatar().build(name, settings),
            lambda task: minatar().pixels_of(task),
            (
                Setting("sticky", 0.1, "The probability that the last action is repeated instead.", low=0.0, high=1.0),
                Setting("ramping", True, "Whether a game becomes harder as it goes on."),
            ),
            {  # its authors' for DQN
                "steps": 5_000_000,
                "warmup": 5_000,
                "eval_every": 100_000,
                "replay": 100_000,
                "update_every": 1,
                "hidden": (128,),
                "critic_lr": 2.5e-4,
                "epsilon_end": 0.1,
                "epsilon_steps": 100_000.0,
                "target_every": 1_000,
                "max_grad_norm": 0.0,
            },
        ),
    )
}


def family_of(task: str) -> PixelFamily | None:
    """The family of a task, perhaps from the module of MODULE:ID. None: its observations are vectors."""
    module, _, name = task.rpartition(":")
    if module:
        load(module)
    return next((family for family in FAMILIES.values() if family.owns(name)), None)


def settings_of(agent: Sequence[Setting], family: PixelFamily | None) -> tuple[Setting, ...]:
    """An agent's settings, with the defaults of a family in place of its own."""
    known = family.defaults if family else {}
    return tuple(replace(one, default=known[one.name]) if one.name in known else one for one in agent)


def load(module: str) -> None:
    """Adds the families of a user's module: every `PixelFamily` among its names."""
    for value in vars(import_users(module, "The task")).values():
        if isinstance(value, PixelFamily):
            require_fixed(value, module)
            if FAMILIES.get(value.name, value).build.__module__ != value.build.__module__:
                raise UserError(f"{module} has a family {value.name!r}, a name that is taken. Give yours another name.")
            FAMILIES[value.name] = value


def require_fixed(family: PixelFamily, module: str) -> None:
    """Refuses settings that vary: all members of a population share one task."""
    for setting in family.settings:
        if setting.varies:
            raise UserError(
                f"The setting {setting.name!r} of the family {family.name!r} in {module} has varies=True; a population "
                "has one environment, so it must be False."
            )
