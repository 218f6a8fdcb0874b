"""Every setting, as rows of tables: what `bires list settings` and docs/settings.md show."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from itertools import pairwise
from typing import Any, Literal, NamedTuple, get_args, get_origin

from bires.agents.base import AgentSpec
from bires.agents.registry import AGENTS
from bires.envs.families import FAMILIES, PixelFamily
from bires.planning import registry as planners
from bires.settings.config import Config, types
from bires.settings.validation import BOUNDS
from bires.settings.values import Omitted, OmittedValues
from bires.types import Setting, Sight, accepted


class SettingRow(NamedTuple):
    """One setting."""

    name: str
    default: str
    accepted: str
    several: bool
    """Whether it may vary inside a population: then several values make a grid."""
    help: str


class SettingTable(NamedTuple):
    """The settings that one part of a run has."""

    title: str
    rows: tuple[SettingRow, ...]
    run: Mapping[Sight, Mapping[str, str]] = {}
    """Of an agent: its defaults of the run's settings, by kind of observation."""


def tables() -> list[SettingTable]:
    """All settings: of every run, of each agent, of planners, of each family of pixel environments."""
    return [
        SettingTable("Every run", tuple(common_rows())),
        *map(agent_table, AGENTS.values()),
        SettingTable("Planning", rows_of(planners.SETTINGS, ("vector",))),
        *map(family_table, FAMILIES.values()),
    ]


def family_table(family: PixelFamily) -> SettingTable:
    """The settings of a family, and its defaults in place of those of agents."""
    defaults: dict[Sight, dict[str, str]] = {"pixels": {name: shown(value) for name, value in family.defaults.items()}}
    return SettingTable(family.name, rows_of(family.settings, ("pixels",)), defaults if family.defaults else {})


def agent_table(spec: AgentSpec) -> SettingTable:
    run = {sight: {name: shown(value) for name, value in defaults.items()} for sight, defaults in spec.run.items()}
    return SettingTable(spec.title, rows_of(spec.settings, tuple(spec.run)), run)


def rows_of(settings: Sequence[Setting], sights: Sequence[Sight]) -> tuple[SettingRow, ...]:
    """The settings of an agent, of planners or of a family, with their defaults for what it can see."""
    return tuple(SettingRow(s.name, default(s, sights), s.accepted, s.varies, s.help) for s in settings)


def default(setting: Setting, sights: Sequence[Sight]) -> str:
    """One default, or one for each kind of observation where they differ."""
    found = {sight: shown(setting.default_for(sight)) for sight in sights}
    if len(set(found.values())) == 1:
        return next(iter(found.values()))
    return ", ".join(f"{value} ({sight})" for sight, value in found.items())


def common_rows() -> Iterable[SettingRow]:
    """The settings of every run: fields of `Config` with their docstrings."""
    helps = field_docstrings(Config)
    for item in fields(Config):
        if item.name in types():
            kind = types()[item.name]
            several = get_origin(kind) is tuple and item.name != "hidden"  # which is one value, a list of sizes
            yield SettingRow(
                item.name, common_default(item.name), common_accepted(item.name, kind), several, helps[item.name]
            )


def common_default(name: str) -> str:
    value = getattr(Config, name, None)
    if isinstance(value, Omitted | OmittedValues):
        return "by agent"
    if name == "env_kwargs":
        return "{}"
    if value == ():
        return "the algorithm's" if name in ("rule", "planner") else "none"
    return "" if value is None else shown(value)


def common_accepted(name: str, kind: Any) -> str:
    if get_origin(kind) is Literal:
        return ", ".join(get_args(kind))
    if name in ("algorithm", "rule", "planner"):
        return "names"
    if name == "env_kwargs":
        return "a JSON object"
    one = get_args(kind)[0] if get_origin(kind) is tuple else kind
    bounds = BOUNDS.get(name)
    return accepted(one, bounds.low, bounds.high) if bounds else accepted(one)


def shown(value: Any) -> str:
    """A value as it is typed."""
    if isinstance(value, tuple):
        return " ".join(map(shown, value))
    if isinstance(value, bool | str):
        return str(value)
    short = f"{value:.0e}".replace("e+0", "e").replace("e-0", "e-")  # 1e6 is easier to read than 1000000
    return short if float(short) == value and not 1e-2 < abs(value) < 1e5 and value else f"{value:.10g}"


def field_docstrings(record: type) -> dict[str, str]:
    """The text below each field of a class."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(record)))
    body = tree.body[0].body  # type: ignore[attr-defined]
    found = {}
    for item, after in pairwise(body):
        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name) and isinstance(after, ast.Expr):
            found[item.target.id] = " ".join(str(ast.literal_eval(after.value)).split())
    return found
