"""`bires list`."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterator

from bires.agents.registry import AGENTS
from bires.envs.families import ATARI
from bires.envs.minatar import CHANNELS
from bires.envs.tasks import DMCONTROL, MUJOCO
from bires.planning.registry import PLANNERS
from bires.rules import RULES, SUMMARIES, equation
from bires.settings.tables import SettingRow, tables
from bires.settings.values import flag
from bires.studies.records import STUDIES


def algorithms() -> Iterator[str]:
    for spec in AGENTS.values():
        sees = " or ".join(spec.run)
        yield f"  {spec.title}: {spec.actions} actions, sees {sees}; compared with {spec.baseline}"
        yield from (f"    {name:16}{algorithm.summary}" for name, algorithm in spec.algorithms.items())
    yield "  and every RULE-AGENT, such as qrc-td3: see `bires list rules`"


def rules() -> Iterator[str]:
    for name, rule in RULES.items():
        yield f"  {name:12}{SUMMARIES.get(name, 'a rule of your own')}"
        yield f"  {'':12}{equation(rule)}"


def planners() -> Iterator[str]:
    yield from (f"  {name:12}{planner.summary}" for name, planner in PLANNERS.items())


def tasks() -> Iterator[str]:
    yield f"  DMControl (28 of the paper): {', '.join(DMCONTROL)}"
    yield f"  MuJoCo (5 of the paper, -v4): {', '.join(MUJOCO)}"
    yield f"  Atari (3 of the paper, for DQN): {', '.join(ATARI)}"
    yield f"  MinAtar (small games, for DQN): {', '.join(f'MinAtar/{game}' for game in CHANNELS)}"
    who = {
        kind: ", ".join(s.title for s in AGENTS.values() if s.actions == kind) for kind in ("continuous", "discrete")
    }
    yield f"  and every Gymnasium id with continuous actions ({who['continuous']}) or discrete ones ({who['discrete']})"
    yield "  your own is MODULE:ID"


def settings() -> Iterator[str]:
    for table in tables():
        yield f"  {table.title}"
        for row in table.rows:
            name = "TASK" if row.name == "task" else flag(row.name)
            yield f"    {name:26}{row.help}"
            yield f"    {'':26}{facts(row)}"
        for sight, defaults in table.run.items():
            found = "  ".join(f"{flag(name)} {value}" for name, value in defaults.items())
            yield f"    defaults of the run ({sight}): {found}"


def facts(row: SettingRow) -> str:
    """What a setting accepts, its default, and whether several values make a grid."""
    parts = [
        f"default: {row.default}" if row.default else "",
        row.accepted,
        "several make a grid" if row.several else "",
    ]
    return "; ".join(part for part in parts if part)


def studies() -> Iterator[str]:
    yield from (f"  {name:12}{study.summary}" for name, study in STUDIES.items())


LISTS: dict[str, Callable[[], Iterator[str]]] = {
    "algorithms": algorithms,
    "rules": rules,
    "planners": planners,
    "settings": settings,
    "tasks": tasks,
    "studies": studies,
}


def listing(what: str) -> str:
    """One list, or all of them, as text."""
    chosen = list(LISTS) if what == "all" else [what]
    return "\n".join("\n".join([name, *LISTS[name]()]) for name in chosen)


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
