"""Flags that depend on what is trained: the settings of an agent, of planners and of a family of environments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bires.agents import registry
from bires.envs.families import family_of
from bires.errors import UserError
from bires.settings.arguments import arguments
from bires.settings.comparison import compared, default_algorithm
from bires.settings.config import Config, family_settings, refuse_foreign, types
from bires.settings.foreign import ELSEWHERE
from bires.settings.values import flag, is_number, require_one
from bires.types import Setting, Sight

TRAINING = (["train"], ["compare"], ["tune"])
"""How a command line begins that trains a new run."""


class Selection:
    """The agent, planners and task of a command line, before it is parsed."""

    def __init__(self, words: Sequence[str]) -> None:
        env_kwargs(words)  # or an error that says more than the parser's
        task = next((word for word in words[1:2] if not word.startswith("-")), "walker-stand")
        algorithms = tuple(values_after(words, "--algorithm")) or Config.algorithm
        self.config = Config(task, algorithm=algorithms, planner=tuple(values_after(words, "--planner")))
        self.names = [word[2:].partition("=")[0].replace("-", "_") for word in words if word.startswith("--")]

    @property
    def sight(self) -> Sight:
        return self.config.sight

    def groups(self) -> dict[str, tuple[Setting, ...]]:
        """The settings of the agent, of planners and of the task's family, by the group of flags they belong to."""
        family = family_of(self.config.task)
        found = {"agent": self.config.agent_settings, "planning": self.config.planner_settings}
        return found | ({"environment": family.settings} if family and family.settings else {})

    def refuse_foreign(self) -> None:
        """Refuses flags of another agent or family by name, with what to type instead."""
        mine = {one.name for group in self.groups().values() for one in group}
        refuse_foreign(self.config, [n for n in self.names if n not in mine and n not in types() and known(n)])

    def refuse_several(self, words: Sequence[str]) -> None:
        """Refuses several numbers of a setting that takes one; the parser would only say that it knows no such word."""
        single = [name for name, kind in types().items() if kind in (int, float)]
        single += [one.name for one in self.config.own_settings if not one.varies and one.type in (int, float)]
        for name in single:
            places = [place for place, word in enumerate(words) if word.partition("=")[0] == flag(name)]
            values = values_after(words[places[-1] :], flag(name)) if places else []  # the last one counts
            if all(is_number(value) for value in values):
                require_one(name, values)


def require_task_first(words: Sequence[str]) -> None:
    """Refuses a command line that trains and begins with a flag: it is not certain which of its words is the task."""
    foreign = words[1:2] and words[1].removeprefix("--").partition("=")[0].replace("-", "_") in ELSEWHERE
    asks = any(word in ("-h", "--help") for word in words)
    if words[1:2] and words[1].startswith("-") and not asks and not foreign:
        rest = " ".join(words[1:3])
        raise UserError(f"The task comes first: `bires {words[0]} TASK {rest} …`; `bires list tasks` names some.")


def one_task_each(words: list[str]) -> list[list[str]]:
    """A command line that names several tasks before its flags, as one for each of them."""
    flags = next((place for place, word in enumerate(words) if word.startswith("-")), len(words))
    tasks = words[1:flags]
    if words[:1] == ["tune"] and len(tasks) > 1:
        raise UserError(f"A search is on one task; these were named: {', '.join(tasks)}. Type `bires tune {tasks[0]}`.")
    if words[:1] not in (["train"], ["compare"]) or len(tasks) < 2:
        return [words]
    return [[words[0], task, *words[flags:]] for task in tasks]


def completed(words: list[str]) -> list[str]:
    """A command line that names its algorithms: of `bires compare` two, those of --agent or of the task's first agent;
    of `train` and `tune` that agent's Bi-Res version."""
    if words[:1] not in TRAINING:
        return words
    agents, given = values_after(words, "--agent"), values_after(words, "--algorithm")
    if agents and given:
        raise UserError("Both --agent and --algorithm were given; --agent td3 is short for --algorithm td3 bi-res-td3.")
    named = any(word.partition("=")[0] == "--algorithm" for word in words)
    if named or len(words) < 2 or words[1].startswith("-"):
        return words
    if words[0] != "compare":
        return [*words, "--algorithm", default_algorithm(words[1], env_kwargs(words))]
    return [*words, "--algorithm", *compared(words[1], agents[-1] if agents else None, env_kwargs(words))]


def env_kwargs(words: Sequence[str]) -> dict[str, Any]:
    """The arguments of the environment on a command line."""
    found = values_after(words, "--env-kwargs")
    return arguments(found[-1]) if found else {}


def known(name: str) -> bool:
    """Whether some agent or family has such a setting, or another library."""
    return bool(registry.owner_of(name)) or name in family_settings() or name in ELSEWHERE


def values_after(words: Sequence[str], wanted: str) -> list[str]:
    """The values of a flag among the words of a command line."""
    found: list[str] = []
    taking = False
    for word in words:
        if word.startswith("--"):
            name, _, value = word.partition("=")
            taking = name == wanted
            found += [value] if taking and value else []
        elif taking:
            found.append(word)
    return found


def typed(record: Any, settings: Sequence[Setting], sight: Sight) -> dict[str, Any]:
    """The values of a record that are not the defaults."""
    given = {}
    for setting in settings:
        value, default = getattr(record, setting.name), setting.default_for(sight)
        if value == () and setting.varies:
            raise UserError(f"{flag(setting.name)} was given no value; give one or more.")
        if value != ((default,) if setting.varies else default):
            given[setting.name] = value
    return given
