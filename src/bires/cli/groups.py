"""The flags of commands that train, in the groups that `--help` shows, and the command that they make.

A command is a plain record (`bires.cli.training`): a configuration, how to run it, and a few values of its own. For
the command line its fields, those of the records in it, and the settings of the agent, of planners and of the task's
family are laid out anew, by what a user looks for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, Field, field, fields, make_dataclass
from typing import Annotated, Any, Literal, NamedTuple, get_type_hints

import tyro

from bires.cli.flags import Selection, typed
from bires.cli.output import Output
from bires.settings.config import Config
from bires.settings.tables import field_docstrings
from bires.settings.values import Number, Omitted, OmittedValues, Whole
from bires.types import Setting, Sight


class Group(NamedTuple):
    """Flags that belong together."""

    about: str
    names: tuple[str, ...]
    """Fields of the command, of `Config` and of `Output`."""


GROUPS = {
    "search": Group("What is searched, and how.", ("range", "trials", "halvings", "search_seed")),
    "population": Group(
        "Who is trained. Several values make a grid; every combination is a member.",
        ("algorithm", "agent", "rule", "planner", "eta", "eta_end", "eta_until", "gamma", "seeds", "seed"),
    ),
    "run": Group(
        "How long, what is measured, and where it is written.",
        (
            "steps",
            "warmup",
            "eval_every",
            "eval_episodes",
            "log_every",
            "out",
            "keep_every",
            "callback",
            "log",
            "quiet",
            "json",
        ),
    ),
    "agent": Group(
        "How members learn. Where several values are accepted, they make a grid, too.",
        (
            *("hidden", "lr_end", "lr_until", "batch", "replay", "update_every", "update_times"),
            *("reward_scale", "normalise_observations"),
        ),
    ),
    "planning": Group("What planners imagine. Without a planner nothing here has an effect.", ()),
    "environment": Group("The task's simulator.", ("protocol", "disturb", "env_kwargs")),
    "machine": Group(
        "How this machine does the work. Nothing here changes results.",
        ("workers", "cohorts", "at_once", "minutes", "checkpoint_minutes", "keep_going"),
    ),
}
KINDS: dict[type, Any] = {int: Whole, float: Number, bool: bool, str: str}


def with_groups(command: type, selection: Selection) -> type:
    """What is parsed for a command: a record of groups, whose `command` is that command."""
    hints = getattr(command, "hints", {})
    known = {**flags_of(Config, selection.config, hints), **flags_of(Output), **flags_of(command)}
    own = selection.groups()
    groups: list[Any] = []
    for name, group in GROUPS.items():
        flags = [known[one] for one in group.names if one in known]
        flags += [field_of(setting, selection.sight) for setting in own.get(name, ())]
        if flags:
            record = make_dataclass(name, flags, frozen=True)
            record.__doc__ = group.about
            groups.append((name, record, field(default_factory=record)))
    task = ("task", noted(get_type_hints(Config, include_extras=True)["task"], None, field_docstrings(Config)["task"]))
    whole = make_dataclass(
        command.__name__,
        [task, *groups],
        frozen=True,
        namespace={"command": lambda parsed: assembled(command, selection, parsed)},
    )
    whole.__doc__ = f"{command.__doc__} The task comes before all flags."
    return whole


def with_family(command: type, selection: Selection) -> type:
    """A command on a task, with the settings of the task's family as flags."""
    settings = selection.groups().get("environment", ())
    flags = [field_of(setting, selection.sight) for setting in settings]
    namespace = {"family": lambda parsed: typed(parsed, settings, selection.sight)}
    made = make_dataclass(command.__name__, flags, bases=(command,), frozen=True, namespace=namespace)
    made.__doc__ = command.__doc__
    return made


def assembled(command: type, selection: Selection, parsed: Any) -> Any:
    """The command that was typed."""
    settings = selection.groups()
    given: dict[str, Any] = {}
    own: dict[str, Any] = {}
    for name in (item.name for item in fields(parsed) if item.name in GROUPS):
        group = getattr(parsed, name)
        own |= typed(group, settings.get(name, ()), selection.sight)
        given |= {item.name: getattr(group, item.name) for item in fields(group)}
    config = Config(parsed.task, **taken(Config, given), own=own)
    mine = taken(command, given)
    return command(config=config, output=Output(**taken(Output, given)), names=tuple(selection.names), **mine)


def taken(record: type, given: dict[str, Any]) -> dict[str, Any]:
    """The fields of a record, out of what was given."""
    return {item.name: given[item.name] for item in fields(record) if item.name in given}


def flags_of(record: type, values: Config | None = None, hints: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The fields of a record as flags, by name; ``values`` shows what will be taken where nothing is given.

    ``hints``: what help says of some defaults in place of them.
    """
    kinds = get_type_hints(record, include_extras=True)
    helps = {name: text for base in record.__mro__[-2::-1] for name, text in field_docstrings(base).items()}
    grouped = {name for group in GROUPS.values() for name in group.names}
    return {
        item.name: (
            item.name,
            noted(kinds[item.name], item.default, helps[item.name], (hints or {}).get(item.name)),
            default_of(item, values),
        )
        for item in fields(record)
        if item.name in grouped
    }


def noted(kind: Any, default: Any, text: str, hint: str | None = None) -> Any:
    """A type with the help of its flag. An empty default is not shown: the help says what it means."""
    empty = default == () and not isinstance(default, OmittedValues)
    return Annotated[kind, tyro.conf.arg(help=text, help_behavior_hint=hint or ("" if empty else None))]


def default_of(item: Field[Any], values: Config | None) -> Any:
    """The default of a flag. One that depends on agent and task is shown, and still known not to be given."""
    if isinstance(item.default, Omitted | OmittedValues):
        return field(default=type(item.default)(getattr(values, item.name)))
    return field(default_factory=item.default_factory) if item.default is MISSING else field(default=item.default)


def field_of(setting: Setting, sight: Sight) -> tuple[str, Any, Any]:
    """A setting of an agent, of planners or of a family as a flag."""
    kind = Literal[setting.choices] if setting.choices else KINDS[setting.type]
    default = setting.default_for(sight)
    if setting.varies:
        kind, default = tuple[kind, ...], (default,)  # type: ignore[valid-type]
    return setting.name, Annotated[kind, tyro.conf.arg(help=setting.help)], field(default=default)
