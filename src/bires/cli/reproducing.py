"""`bires reproduce`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from rich.table import Table

from bires.analysis.report.content import Judged
from bires.cli.output import Interrupted, Output
from bires.machine import terminal
from bires.machine.hardware import gigabytes
from bires.settings.options import Stopped
from bires.studies import reproducing
from bires.studies.estimate import costs
from bires.studies.reporting import about
from bires.studies.reproducing import Request
from bires.studies.run import unfinished
from bires.training.display import Display


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
    finish(request.study, outcome.runs, outcome.report, display)
    reproducing.require_all(outcome, request)
    return 0


def finish(name: str, runs: Sequence[Any], where: Path, display: Display) -> None:
    """Prints the results and where they are."""
    from bires.analysis.curves import collect
    from bires.analysis.summary import totals_table
    from bires.analysis.totals import totals

    panels = collect(runs)
    found = about(panels, name, "")
    display.event("done", study=name, report=str(where / "report.html"), claims=[told(claim) for claim in found.claims])
    if display.quiet or display.as_json:
        return
    for note in found.notes:
        display.console.print(note, soft_wrap=True)
    compared = [total for total in totals(panels) if total.interval]
    if compared and max(total.count for total in compared) > 1:
        display.console.print(totals_table(compared, display.console.width))
    if found.claims:
        display.console.print(claims_table(found.claims))
    display.console.print(f"report: {where / 'report.html'}", soft_wrap=True)


def told(claim: Judged) -> dict[str, Any]:
    """A claim and its verdict, for machines."""
    value = claim.value and {end: getattr(claim.value, end) for end in ("value", "low", "high")}
    return {"claim": claim.statement, "paper": claim.paper, "answer": claim.answer, "unit": claim.unit, **(value or {})}


def claims_table(claims: Sequence[Judged]) -> Table:
    table = Table(title="claims", title_justify="left")
    for column in ("claim", "paper", "ours [95 % interval]", "intervals", "verdict"):
        table.add_column(column, overflow="fold")
    for claim in claims:
        numbers = "–" if claim.value is None else claim.value.show("+.1%" if claim.unit == "share" else ".3g")
        table.add_row(claim.statement, claim.paper or "–", numbers, claim.interval or "–", claim.answer)
    return table


def estimate(request: Request, output: Output) -> int:
    """Estimates the time that the rest of a study takes on this machine."""
    console = terminal.console()
    if request.linear:
        reproducing.require_plain(request)
        console.print("linear: small MDPs in one process, about a minute on two cores, 1 GB of memory.")
        return 0
    jobs = request.jobs()
    left = unfinished(jobs)
    rows = costs(left, lambda text: console.print(text, style="dim", soft_wrap=True))
    table = Table(title=f"{request.study}, scale {request.scale}: what is left to do", title_justify="left")
    for column in ("population", "members", "training steps", "evaluation steps", "memory", "time"):
        table.add_column(column, justify="left" if column == "population" else "right", overflow="fold")
    for row in rows:
        numbers = [f"{row.members}", f"{row.steps:,}", f"{row.evaluation_steps:,}", gigabytes(row.memory)]
        table.add_row(row.job.path.name, *numbers, duration(row.seconds))
    if rows:
        table.add_section()
        sums = [sum(r.members for r in rows), sum(r.steps for r in rows), sum(r.evaluation_steps for r in rows)]
        largest, total = max(row.memory for row in rows), sum(row.seconds for row in rows)
        table.add_row("all", *(f"{s:,}" for s in sums), f"≤ {gigabytes(largest)}", duration(total))
    if output.json:
        about = ("members", "steps", "evaluation_steps", "memory", "seconds")
        names = [{"task": row.job.config.task, "population": row.job.path.name} for row in rows]
        costs_of = [{name: getattr(row, name) for name in about} for row in rows]
        print(json.dumps([name | cost for name, cost in zip(names, costs_of, strict=True)]))
        return 0
    console.print(table)
    done = len(jobs) - len(left)
    console.print(
        f"{done} of {len(jobs)} populations are finished. Times are from a few seconds of one population and of every "
        "task's environment on this machine, one population after another: side by side, as they will run, they take "
        "less. Starting up and compiling (about ten seconds a task) come on top."
    )
    return 0


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
