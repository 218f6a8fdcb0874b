"""`bires list`."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from bires.agents.registry import AGENTS
from bires.envs.families import ATARI
from bires.envs.minatar import CHANNELS
from bires.envs.tasks import DMCONTROL, MUJOCO
from bires.planning.registry import PLANNERS
from bires.rules import RULES, SUMMARIES, equation
from bires.settings.tables import SettingRow, tables
from bires.settings.values import flag
from bires.studies.records import STUDIES

Record = dict[str, Any]
"""One entry of a list, as `--json` prints it."""


def algorithms() -> list[Record]:
    return [
        {"name": name, "agent": spec.title, "actions": spec.actions, "sees": list(spec.run)}
        | {"baseline": spec.baseline, "summary": algorithm.summary}
        for spec in AGENTS.values()
        for name, algorithm in spec.algorithms.items()
    ]


def algorithm_lines(found: Sequence[Record]) -> Iterator[str]:
    for title, some in groupby(found, lambda one: str(one["agent"])):
        mine = list(some)
        sees = " or ".join(mine[0]["sees"])
        yield f"  {title}: {mine[0]['actions']} actions, sees {sees}; compared with {mine[0]['baseline']}"
        yield from (f"    {one['name']:16}{one['summary']}" for one in mine)
    yield "  and every RULE-AGENT, such as qrc-td3: see `bires list rules`"


def rules() -> list[Record]:
    return [
        {"name": name, "summary": SUMMARIES.get(name, "a rule of your own"), "equation": equation(rule)}
        for name, rule in RULES.items()
    ]


def rule_lines(found: Sequence[Record]) -> Iterator[str]:
    for one in found:
        yield f"  {one['name']:12}{one['summary']}"
        yield f"  {'':12}{one['equation']}"


def planners() -> list[Record]:
    return [{"name": name, "summary": planner.summary} for name, planner in PLANNERS.items()]


def studies() -> list[Record]:
    return [{"name": name, "summary": study.summary} for name, study in STUDIES.items()]


def summary_lines(found: Sequence[Record]) -> Iterator[str]:
    yield from (f"  {one['name']:12}{one['summary']}" for one in found)


def tasks() -> list[Record]:
    families: dict[str, Iterable[str]] = {
        "DMControl (28 of the paper)": DMCONTROL,
        "MuJoCo (5 of the paper, -v4)": MUJOCO,
        "Atari (3 of the paper, for DQN)": ATARI,
        "MinAtar (small games, for DQN)": (f"MinAtar/{game}" for game in CHANNELS),
    }
    return [{"name": name, "family": family} for family, names in families.items() for name in names]


def task_lines(found: Sequence[Record]) -> Iterator[str]:
    for family, some in groupby(found, lambda one: str(one["family"])):
        yield f"  {family}: {', '.join(one['name'] for one in some)}"
    who = {
        kind: ", ".join(s.title for s in AGENTS.values() if s.actions == kind) for kind in ("continuous", "discrete")
    }
    yield f"  and every Gymnasium id with continuous actions ({who['continuous']}) or discrete ones ({who['discrete']})"
    yield "  your own is MODULE:ID"


def settings() -> list[Record]:
    return [{"of": table.title} | row._asdict() for table in tables() for row in table.rows]


def setting_lines(found: Sequence[Record]) -> Iterator[str]:
    runs = {table.title: table.run for table in tables()}
    for title, some in groupby(found, lambda one: str(one["of"])):
        yield f"  {title}"
        for one in some:
            row = SettingRow(**{name: one[name] for name in SettingRow._fields})
            name = "TASK" if row.name == "task" else flag(row.name)
            yield f"    {name:26}{row.help}"
            yield f"    {'':26}{facts(row)}"
        for sight, defaults in runs[title].items():
            shown = "  ".join(f"{flag(name)} {value}" for name, value in defaults.items())
            yield f"    defaults of the run ({sight}): {shown}"


def facts(row: SettingRow) -> str:
    """What a setting accepts, its default, and whether several values make a grid."""
    parts = [
        f"default: {row.default}" if row.default else "",
        row.accepted,
        "several make a grid" if row.several else "",
    ]
    return "; ".join(part for part in parts if part)


class Listed(NamedTuple):
    """A list: its entries, and their lines."""

    found: Callable[[], list[Record]]
    lines: Callable[[Sequence[Record]], Iterator[str]]


LISTS: dict[str, Listed] = {
    "algorithms": Listed(algorithms, algorithm_lines),
    "rules": Listed(rules, rule_lines),
    "planners": Listed(planners, summary_lines),
    "settings": Listed(settings, setting_lines),
    "tasks": Listed(tasks, task_lines),
    "studies": Listed(studies, summary_lines),
}


def records(what: str) -> dict[str, list[Record]]:
    """One list, or all of them, by name."""
    return {name: LISTS[name].found() for name in (LISTS if what == "all" else [what])}


def listing(what: str) -> str:
    """The same as text."""
    return "\n".join("\n".join([name, *LISTS[name].lines(found)]) for name, found in records(what).items())


def folded(text: str, width: int | None) -> str:
    """Lines that fit into a width, broken between words; what follows stands below the text, not below its name."""
    if width is None:
        return text
    found: list[str] = []
    for line in text.splitlines():
        named = re.match(r" *\S+ {2,}", line)
        below = " " * (named.end() if named else len(line) - len(line.lstrip()) + 2)
        found += textwrap.wrap(
            line, width, subsequent_indent=below, break_long_words=False, break_on_hyphens=False
        ) or [""]
    return "\n".join(found)
