"""The totals over tasks as tables of a page: a row per number, as many columns as fit beside each other."""

from __future__ import annotations

import re
from collections.abc import Sequence

from bires.analysis import summary
from bires.analysis.summary import Found
from bires.analysis.totals import Total
from bires.machine.terminal import counted

MANY = 20
"""More totals than this do not go onto a page."""
FIXED = "\N{NO-BREAK SPACE}"
MOST = 6
"""Columns of numbers with intervals that fit beside each other."""
MEASURES = {
    "P(better)": "probability that a seed is better",
    "mean difference": "difference of scores: mean over tasks",
    "median": "… median",
    "IQM": "… IQM",
    "final return": "… of final returns, mean",
    "AUC ratio: median": "improvement of the AUC: median over tasks",
    "mean": "… mean",
    "over": "… over tasks that at least one algorithm learned",
    "median of all": "… median over all tasks, learned or not (the paper's)",
    "intervals": "95 % intervals",
}
"""The columns of the totals as rows of a page's table."""


def totals_lines(results: Found) -> list[str]:
    """The tables of the totals, where several tasks were run.

    One kind of member has a column for each group of tasks; several kinds have a table, or more, for each group.
    """
    found = shown_totals(results)
    kinds, groups = (list(dict.fromkeys(getattr(total, name) for total in found)) for name in ("kind", "tasks"))
    if len(kinds) == 1:
        return table(f"{kinds[0]} against its baseline", found, "tasks")
    tables = [of_group(group, [total for total in found if total.tasks == group]) for group in groups]
    return [line for one in tables for line in ("", *one)][1:]


def of_group(name: str, found: Sequence[Total]) -> list[str]:
    """The kinds of members on one group of tasks."""
    counts = {total.count for total in found}
    tasks = f" ({counted(counts.pop(), 'task')})" if len(counts) == 1 else ""
    return table(f"{name}{tasks}, against the baseline", found, "algorithm")


def table(head: str, found: Sequence[Total], column: str) -> list[str]:
    """Totals beside each other, as a table for every few of them; rows with the same numbers are one."""
    cells = [{name: minus(text) for name, text in summary.total_cells(total)} for total in found]
    labels: dict[tuple[str, ...], list[str]] = {}
    for measure, label in MEASURES.items():
        labels.setdefault(tuple(one[measure] for one in cells), []).append(label)
    count = -(-len(cells) // MOST)
    parts = [range(len(cells))[i * len(cells) // count : (i + 1) * len(cells) // count] for i in range(count)]
    tables = [
        markdown(
            [head, *(cells[i][column] for i in part)],
            [[joined(names), *(texts[i] for i in part)] for texts, names in labels.items()],
        )
        for part in parts
    ]
    return [line for one in tables for line in ("", *one)][1:]


def joined(names: Sequence[str]) -> str:
    """The names of rows that are one."""
    return ", ".join([*names[:1], *(name.removeprefix("… ") for name in names[1:])])


def shown_totals(results: Found) -> list[Total]:
    found = [total for total in results.totals if total.interval]
    return [] if len(found) > MANY or max((total.count for total in found), default=0) < 2 else found


def left_out(results: Found) -> list[str]:
    """What follows the table: a blank line, and which tasks the ratio skips."""
    found = shown_totals(results)
    without = "; ".join(dict.fromkeys(name for total in found for name in total.left_out.split("; ") if name))
    nobody = f"No algorithm learned these (or the baseline's AUC is 0), so the ratio leaves them out: {without}."
    return [*([""] if found else []), *([nobody, ""] if without else [])]


def minus(text: str) -> str:
    """Numbers as the pages show them."""
    return re.sub(r"-(?=[\d∞])", "−", text.replace("%", f"{FIXED}%"))


def markdown(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a table."""
    return [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|", *(f"| {' | '.join(row)} |" for row in rows)]
