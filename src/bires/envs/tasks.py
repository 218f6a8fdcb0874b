"""Task names: Gymnasium ids, and short names for the paper's tasks."""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import os
import sys
import warnings

from bires.envs.families import family_of
from bires.errors import UserError, unknown

DMCONTROL = (
    "acrobot-swingup",
    "acrobot-swingup_sparse",
    "ball_in_cup-catch",
    "cartpole-swingup",
    "cartpole-swingup_sparse",
    "cartpole-balance",
    "cartpole-balance_sparse",
    "cheetah-run",
    "finger-turn_hard",
    "finger-spin",
    "finger-turn_easy",
    "fish-upright",
    "fish-swim",
    "hopper-stand",
    "hopper-hop",
    "humanoid-stand",
    "humanoid-walk",
    "humanoid-run",
    "manipulator-bring_ball",
    "pendulum-swingup",
    "point_mass-easy",
    "reacher-easy",
    "reacher-hard",
    "swimmer-swimmer15",
    "swimmer-swimmer6",
    "walker-stand",
    "walker-walk",
    "walker-run",
)
"""The paper's 28 DMControl tasks, by short name."""

MUJOCO = ("HalfCheetah", "Walker2d", "Hopper", "Swimmer", "Humanoid")
"""The paper's 5 MuJoCo tasks; the `-v4` ids are the nearest to the ones it used."""

SHORT: dict[str, str] = {
    **{name: f"dm_control/{name}-v0" for name in DMCONTROL},
    **{name: f"{name}-v4" for name in MUJOCO},
}
"""Short name → Gymnasium id."""


SUITE = "dm-control==1.0.50"
"""What DMControl's tasks need. From Python 3.13 on it comes by a command of its own (see pyproject.toml)."""


def has_suite() -> bool:
    """Whether DMControl is installed."""
    return importlib.util.find_spec("dm_control") is not None


def register() -> None:
    """Makes the DMControl ids known to Gymnasium. No GL library is touched: training never renders."""
    import gymnasium

    os.environ.setdefault("MUJOCO_GL", "disable")
    if "dm_control/walker-stand-v0" not in gymnasium.registry:
        with warnings.catch_warnings(), contextlib.redirect_stdout(None):  # it prints what it does not find, too
            warnings.simplefilter("ignore")
            gymnasium.register_envs(importlib.import_module("shimmy"))
    quiet()


def quiet() -> None:
    """Keeps warnings of third parties that no user of this package can act on off the terminal."""
    logging.getLogger("absl").setLevel(logging.ERROR)  # MuJoCo on deprecated attributes of DMControl's models
    warnings.filterwarnings("ignore", category=DeprecationWarning, module=r"(dm_control|gymnasium|shimmy)\b")
    warnings.filterwarnings("ignore", message=r".*out of date. You should consider upgrading.*")
    warnings.filterwarnings("ignore", message=r".*The environment creator metadata.*")


def known_as(task: str) -> str:
    """The name of a task as the package writes it; others stay as they are."""
    return next((short for short in SHORT if short.lower() == task.lower()), task)


def resolve(task: str, protocol: str = "modern") -> str:
    """The Gymnasium id for a task name: short name, id, or `module:id` for an environment of the user's own.

    `module:function` stays as it is: a function that returns an environment.
    """
    import gymnasium

    register()
    short = known_as(task)
    if SHORT.get(short, short).startswith("dm_control/") and not has_suite():
        raise UserError(f"Task {task!r} needs DMControl, which is not installed. Type: pip install --no-deps {SUITE}")
    if short in SHORT:
        return SHORT[short]
    family = family_of(task)  # imports the module of MODULE:ID, which registers the id
    name = task.rpartition(":")[2]
    if family is not None:
        name = family.resolve(name, protocol)
    if name not in gymnasium.registry and is_factory(task):
        return task
    if name in gymnasium.registry and outdated(name):
        stem = name.rpartition("-v")[0]
        newest = max(id_ for id_ in gymnasium.registry if id_.rpartition("-v")[0] == stem)
        raise UserError(f"Task {name!r} is too old for this Gymnasium. Use {newest!r}.")
    if name not in gymnasium.registry and (module := task.rpartition(":")[0]):
        hint = "A module registers an id, or has a function that builds the environment."
        raise unknown("task", task, [f"{module}:{one}" for one in offered(module)], hint)
    if name not in gymnasium.registry:
        names = [*SHORT, *sorted(gymnasium.registry)]
        raise unknown("task", task, names, "See `bires list tasks`; your own environment is MODULE:ID.")
    return name


def outdated(name: str) -> bool:
    """Whether Gymnasium knows a version of a task only to refuse it."""
    import gymnasium

    return "mujoco_py" in getattr(gymnasium.spec(name).entry_point, "__name__", "")


def offered(module: str) -> list[str]:
    """What of a user's module may be a task: ids that it registered, and its own functions and classes."""
    import gymnasium

    ids = [name for name, spec in gymnasium.registry.items() if module_of(spec.entry_point) == module]
    here = vars(sys.modules[module]).items()
    return ids + [name for name, one in here if callable(one) and getattr(one, "__module__", "") == module]


def module_of(entry_point: object) -> str:
    """The module of an entry point, which is text or a function."""
    return entry_point.partition(":")[0] if isinstance(entry_point, str) else getattr(entry_point, "__module__", "")


def is_factory(task: str) -> bool:
    """Whether a task is MODULE:FUNCTION, of a module that has been imported."""
    module, _, name = task.rpartition(":")
    return callable(getattr(sys.modules.get(module), name, None))
