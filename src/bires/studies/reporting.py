"""A study's report: its claims judged by the available curves, and how these differ from the paper's scale."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from bires.analysis.curves import Panel, collect
from bires.analysis.report.content import About, Judged
from bires.analysis.report.write import find, write_found
from bires.analysis.scores import short
from bires.analysis.summary import Found
from bires.analysis.totals import model_of, once
from bires.errors import UserError
from bires.runs.run import Run
from bires.settings.config import Config
from bires.studies import plan
from bires.studies.departures import departures
from bires.studies.records import STUDIES, Part, Study


def report(runs: Sequence[Run], out: Path, name: str | None, command: str) -> Found:
    """Writes the report of some runs, with the claims of their study if they belong to one."""
    panels = collect(run for run in runs if run.evaluations.height)
    found = find(panels)
    write_found(found, out, about(panels, name or guess(panels), command))
    return found


def about(panels: Sequence[Panel], name: str | None, command: str) -> About:
    if name is None:
        tasks = ", ".join(dict.fromkeys(panel.task for panel in panels))
        return About(f"bires: {tasks if len(tasks) < 60 else f'{len(panels)} tasks'}", "", command=command)
    study = plan.get(name)
    return About(f"bires: {name}", study.summary, notes(study, panels), judge(study, panels), command)


def own(study: Study, panels: Sequence[Panel]) -> list[Panel]:
    """The panels that a study's claims are about: of its own model, and each task once."""
    models = {part.settings["model"] for part in study.parts if "model" in part.settings}
    return once([panel for panel in panels if not models or model_of(panel) in models])


def judge(study: Study, panels: Sequence[Panel]) -> tuple[Judged, ...]:
    """Every claim of the study beside what was measured."""
    mine = own(study, panels)
    found = [(claim, claim.measure(mine)) for claim in study.claims]
    return tuple(Judged(c.statement, c.paper, f.value, f.unit, f.answer, f.interval) for c, f in found)


def guess(panels: Sequence[Panel]) -> str | None:
    """The first study of which one task, all algorithms and all values of η are there."""
    tasks = {run.config.task for panel in panels for run in panel.runs}
    there = {(kind.algorithm, kind.eta) for panel in panels for kind in panel.kinds}
    models = {None, *(model_of(panel) for panel in panels)}
    for name, study in STUDIES.items():
        wanted = {kind for part in study.parts for kind in wanted_kinds(part, there)}
        if tasks.isdisjoint(task for part in study.parts for task in part.tasks):
            continue
        if wanted and wanted <= there and {part.settings.get("model") for part in study.parts} <= models:
            return name
    return None


def wanted_kinds(part: Part, there: set[tuple[str, float | None]]) -> Iterator[tuple[str, float | None]]:
    """The algorithms of a part with the η that each has, if it has one."""
    etas = part.settings.get("eta") or part.settings.get("planning_eta") or (None,)
    for algorithm in part.settings["algorithm"]:
        has = any(name == algorithm and eta is not None for name, eta in there)
        yield from ((algorithm, eta if has else None) for eta in etas)


def steps_of(part: Part) -> int:
    """The steps of the paper: the part's own, or its agent's default."""
    given = part.settings.get("steps")
    return int(given or Config(part.tasks[0], algorithm=tuple(part.settings["algorithm"])).steps)


def notes(study: Study, panels: Sequence[Panel]) -> tuple[str, ...]:
    """In what the runs differ from the paper's, what is missing or not finished, and what was not judged."""
    if not panels:
        return ()
    if not study.parts:
        raise UserError("--study was given linear, which has no runs; type `bires reproduce linear`.")
    mine = own(study, panels)
    aside = [panel.title for panel in panels if not any(panel is one for one in mine)] if mine else []
    panels = mine or panels
    tasks = list(dict.fromkeys(task for part in study.parts for task in part.tasks))
    missing = [task for task in tasks if task not in {short(panel.task) for panel in panels}]
    lengths = [int(kind.steps[-1]) for panel in panels for kind in panel.kinds if len(kind.steps)]
    steps, most = min(lengths), max(lengths)
    wanted = max(steps_of(part) for part in study.parts)
    seeds = min(len(kind.returns) for panel in panels for kind in panel.kinds)
    configs = [run.config for panel in panels for run in panel.runs]
    episodes = min(config.eval_episodes for config in configs)
    parts = [
        f"{len(tasks) - len(missing)} of {len(tasks)} tasks" if missing else "",
        f"{steps:,}{f' to {most:,}' if most > steps else ''} of {wanted:,} steps" if steps < wanted else "",
        f"{seeds} of {study.seeds} seeds" if seeds < study.seeds else "",
        f"{episodes} of {Config.eval_episodes} evaluation episodes" if episodes < Config.eval_episodes else "",
        "" if {config.protocol for config in configs} == {"paper"} else "protocol modern",
        *departures(study, panels),
    ]
    lacking = [text for text in parts if text]
    unfinished = [run.config.task for panel in panels for run in panel.runs if not run.finished]
    return tuple(
        text
        for text in (
            f"Not the paper's: {'; '.join(lacking)}." if lacking else "",
            f"Not run: {', '.join(missing)}." if 0 < 3 * len(missing) <= len(tasks) else "",
            f"Not finished: {', '.join(unfinished)}." if unfinished else "",
            f"Not judged (another model, or the task a second time): {'; '.join(aside)}." if aside else "",
        )
        if text
    )
