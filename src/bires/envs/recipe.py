"""How an environment is built: a recipe, from a task's name, that other processes can follow."""

from __future__ import annotations

import copy
import re
import traceback
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any

from bires.envs import families, tasks
from bires.envs.adapter import Environment, Protocol
from bires.errors import UserError
from bires.machine.modules import import_users, look_here
from bires.types import Space


@dataclass(frozen=True)
class Recipe:
    """How to build one environment, as plain data that a worker process gets."""

    id: str
    protocol: Protocol
    spec: str | None = None
    """The Gymnasium specification as JSON, for an environment that this package does not know by itself."""
    portable: bool = True
    """Whether another process can build it."""
    family: str | None = None
    """The family of pixel environments; None: its observations are vectors."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """The family's settings."""
    module: str | None = None
    """The user's module that has the family."""
    factory: bool = False
    """Whether the id is MODULE:FUNCTION, of a function that returns an environment."""
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of the environment's constructor, or of the function."""
    disturb: float = 0.0
    """σ of the noise on actions inside the environment."""

    def build(self, render: bool = False) -> Environment:
        from gymnasium import wrappers

        from bires.envs import limits, suite

        if self.family is not None:
            if self.module is not None:
                families.load(self.module)
            family = families.FAMILIES[self.family]
            env = family.build(self.id, self.settings)
            seen, has = family.seen(self.id), self.module is None or limits.has_limit(env)  # the package's have theirs
            return Environment(env if has else limits.limited(env), self.protocol, seen, self.disturb, not has)
        env = self.make(render)
        if suite.is_suite(env):
            env = suite.Suite(env)
        elif isinstance(getattr(env, "observation_space", None), flattened()):
            env = wrappers.FlattenObservation(env)
        has = limits.has_limit(env)
        return Environment(env if has else limits.limited(env), self.protocol, None, self.disturb, not has)

    def make(self, render: bool = False) -> Any:
        """The environment as Gymnasium has it."""
        import gymnasium
        from gymnasium.envs.registration import EnvSpec

        tasks.register()
        look_here()
        known = self.id in gymnasium.registry or self.spec is None
        mode: dict[str, Any] = {"render_mode": "rgb_array"} if render else {}  # a constructor need not know of modes
        spec = self.id if known else EnvSpec.from_json(str(self.spec))
        try:
            if self.factory:
                return self._call(dict(self.kwargs) | mode)
            return gymnasium.make(spec, disable_env_checker=True, **self.kwargs, **mode)
        except UserError:
            raise
        except gymnasium.error.DependencyNotInstalled as error:
            raise UserError(needed(self.id, str(error))) from error
        except Exception as error:
            if render and not isinstance(error, TypeError):  # perhaps another GL library will do
                raise
            if (refused := refused_arguments(error, self.kwargs)) is not None:
                raise UserError(f"Task {self.id!r} cannot be built: {refused}") from error
            raise UserError(f"Task {self.id!r} cannot be built; it raised:\n{traceback.format_exc()}") from error

    def _call(self, kwargs: dict[str, Any]) -> Any:
        """What the user's function returns, which must be an environment."""
        import gymnasium

        module, _, name = self.id.rpartition(":")
        env = getattr(import_users(module, "The task"), name)(**kwargs)
        if not isinstance(env, gymnasium.Env):
            raise UserError(f"{self.id} returned {env!r}; accepted: a gymnasium.Env.")
        return env


def flattened() -> tuple[type, ...]:
    """The spaces whose observations become vectors: parts one after another, a number of choices as 0 and one 1."""
    from gymnasium import spaces

    return spaces.Dict, spaces.Tuple, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary


def refused_arguments(error: Exception, kwargs: Mapping[str, Any]) -> str | None:
    """What is wrong, where a constructor does not accept an argument; None: it is something else."""
    found = re.search(r"unexpected keyword argument '(\w+)'", str(error)) if isinstance(error, TypeError) else None
    if found is None:
        return None
    if found[1] == "render_mode" and "render_mode" not in kwargs:
        return "it takes no render_mode, so it cannot be drawn. Give its function or class that argument."
    if found[1] not in kwargs:
        return None
    return f"--env-kwargs has {found[1]!r}, which it does not accept. Its constructor says: {error}"


def needed(task: str, said: str) -> str:
    """What to type for a task whose simulator is not installed."""
    if "box2d" in said.lower():
        return f"Task {task!r} needs Box2D. Type: pip install 'bires[box2d]'"
    return f"Task {task!r} needs a package that is not installed. Gymnasium says: {said}"


def defaults_of(family: families.PixelFamily) -> dict[str, Any]:
    return {setting.name: setting.default_for("pixels") for setting in family.settings}


def recipe(
    task: str,
    protocol: Protocol,
    settings: Mapping[str, Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
) -> Recipe:
    """The recipe for a task name. An environment that no other process could build has no specification.

    ``settings`` are those of the task's family, ``kwargs`` the arguments of the environment's constructor.
    """
    name, family = tasks.resolve(task, protocol), families.family_of(task)
    if family is not None:
        if kwargs:
            own = ", ".join(f"--{one.name.replace('_', '-')}" for one in family.settings)
            raise UserError(
                f"--env-kwargs was given {dict(kwargs)}; tasks of the family {family.name} do not accept them. It has "
                f"{own or 'no settings'}."
            )
        module = task.rpartition(":")[0] or None
        return Recipe(name, protocol, family=family.name, settings=settings or defaults_of(family), module=module)
    return replace(plain_recipe(name, protocol), kwargs=dict(kwargs or {}))


def plain_recipe(name: str, protocol: Protocol) -> Recipe:
    """The recipe for a Gymnasium id, or for MODULE:FUNCTION, without arguments."""
    import gymnasium

    if name.startswith("dm_control/"):
        return Recipe(name, protocol)
    if name not in gymnasium.registry:
        return Recipe(name, protocol, portable=not name.startswith("__main__:"), factory=True)
    spec = copy.copy(gymnasium.spec(name))
    if callable(spec.entry_point):
        entry = spec.entry_point
        spec.entry_point = f"{getattr(entry, '__module__', '')}:{getattr(entry, '__qualname__', '<')}"
    if re.search(r"^__main__\b|^:|<", str(spec.entry_point)):
        return Recipe(name, protocol, portable=False)
    try:
        return Recipe(name, protocol, spec.to_json())
    except (TypeError, ValueError):  # keyword arguments that JSON cannot hold
        return Recipe(name, protocol, portable=False)


def probe(made: Recipe) -> Space:
    """The task's sizes, from one environment that is closed again."""
    with closing(made.build()) as environment:
        return environment.space
