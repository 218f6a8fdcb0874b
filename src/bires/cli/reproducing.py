"""`bires reproduce`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from rich.console import Group
from rich.table import Table

from bires.analysis.report.content import Judged
from bires.analysis.summary import totals_table
from bires.cli.output import Interrupted, Output
from bires.machine import terminal
from bires.machine.columns import WIDE, Column, Look, fitted
from bires.machine.memory import gigabytes
from bires.machine.terminal import json_line, plain
from bires.settings.options import Stopped
from bires.studies import reproducing
from bires.studies.estimate import Cost, costs
from bires.studies.reporting import Reported
from bires.studies.reproducing import Request
from bires.studies.run import unfinished
from bires.training.display import Display

LINEAR = {"population": "linear", "memory": 10**9, "seconds": 60}
"""About what the lab takes on two cores."""


def reproduce(request: Request, output: Output) -> int:
    """Runs the missing populations of a study, then writes its report."""
    display = Display(output.quiet, output.json)
    if request.linear:
        return reproduce_linear(request, display)
    try:
        outcome = reproducing.reproduce(request, output.options(), display)
    except Stopped as stopped:
        display.event("stopped", study=request.study, said=str(stopped))
        raise Interrupted(str(stopped)) from None
    finish(request.study, outcome.written, outcome.report, display)
    reproducing.require_all(outcome, request)
    return 0


def finish(name: str, written: Reported, where: Path, display: Display) -> None:
    """Prints the results and where they are."""
    found = written.about
    display.event("done", study=name, report=str(where / "report.html"), claims=[told(claim) for claim in found.claims])
    if display.quiet or display.as_json:
        return
    for note in found.notes:
        display.console.print(note, soft_wrap=True)
    compared = [total for total in written.found.totals if total.interval]
    if compared and max(total.count for total in compared) > 1:
        display.console.print(totals_table(compared, display.console.width))
    if found.claims:
        display.console.print(claims_table(found.claims, display.console.width))
    display.console.print(f"report: {where / 'report.html'}", soft_wrap=True)


def told(claim: Judged) -> dict[str, Any]:
    """A claim and its verdict, for machines."""
    value = plain(claim.value) or {}
    return {"claim": claim.statement, "paper": claim.paper, "answer": claim.answer, "unit": claim.unit, **value}


def claims_table(claims: Sequence[Judged], width: int) -> Table | Group:
    numbers = ["–" if one.value is None else one.value.show("+.1%" if one.unit == "share" else ".3g") for one in claims]
    columns = [
        Column("claim", [claim.statement for claim in claims], words=True, left=True),
        Column("paper", [claim.paper or "–" for claim in claims], left=True),
        Column("ours [95 % interval]", numbers if width >= WIDE else [text.replace(" [", "\n[") for text in numbers]),
        Column("intervals", [claim.interval or "–" for claim in claims], left=True),
        Column("verdict", [claim.answer for claim in claims], left=True),
    ]
    return fitted(columns, width, Look("claims"))


def estimate(request: Request, output: Output) -> int:
    """Estimates the time that the rest of a study takes on this machine."""
    console = terminal.console(stderr=output.json)
    if request.linear:
        reproducing.require_plain(request)
        if output.json:
            print(json_line([LINEAR]))
        else:
            console.print("linear: small MDPs in one process, about a minute on two cores, 1 GB of memory.")
        return 0
    jobs = request.jobs()
    left = unfinished(jobs)
    rows = costs(left, lambda text: console.print(text, style="dim", soft_wrap=True))
    if output.json:
        about = ("members", "steps", "evaluation_steps", "memory", "seconds")
        names = [{"task": row.job.config.task, "population": row.job.path.name} for row in rows]
        costs_of = [{name: getattr(row, name) for name in about} for row in rows]
        print(json_line([name | cost for name, cost in zip(names, costs_of, strict=True)]))
        return 0
    if rows:
        console.print(costs_table(f"{request.study}, scale {request.scale}: what is left to do", rows, console.width))
    done = len(jobs) - len(left)
    console.print(
        f"{done} of {len(jobs)} populations are finished. Times are from a few seconds of one population and of every "
        "task's environment on this machine, one population after another: side by side, as they will run, they take "
        "less. Starting up and compiling (about ten seconds a task) come on top."
    )
    return 0


def costs_table(title: str, rows: Sequence[Cost], width: int) -> Table | Group:
    """What each population takes, and all of them, as a terminal of some width shows it."""
    times = [row.seconds for row in rows]
    counts = ("members", "steps", "evaluation_steps")
    found = {name: [getattr(row, name) for row in rows] for name in counts}
    members, steps, evaluation = ([f"{n:,}" for n in (*found[name], sum(found[name]))] for name in counts)
    memory = [*(gigabytes(row.memory) for row in rows), f"≤ {gigabytes(max(row.memory for row in rows))}"]
    columns = [
        Column("population", [*(row.job.path.name for row in rows), "all"], words=True, left=True),
        Column("members", members),
        Column("training steps", steps),
        Column("evaluation steps", evaluation),
        Column("memory", memory),
        Column("time", [duration(seconds) for seconds in (*times, sum(times))]),
    ]
    return fitted(columns, width, Look(title, foot=True))


def duration(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds)))


def reproduce_linear(request: Request, display: Display) -> int:
    """Runs the policy-evaluation lab and prints its verdicts."""
    from bires.linear import study

    reproducing.require_plain(request)
    out = request.where
    reproducing.require_place(out)
    verdicts = study.run(out, request.scale == "smoke")
    display.event("done", study="linear", report=str(out), claims={v.claim: v.holds for v in verdicts})
    if display.quiet or display.as_json:
        return 0
    table = Table(title="claims of section 3", title_justify="left")
    table.add_column("claim")
    table.add_column("holds")
    table.add_column("statement", overflow="fold")
    for verdict in verdicts:
        table.add_row(verdict.claim, "yes" if verdict.holds else "NO", verdict.statement)
    console = terminal.console()
    console.print(table)
    console.print(f"figures, data and verdicts: {out}", soft_wrap=True)
    return 0
