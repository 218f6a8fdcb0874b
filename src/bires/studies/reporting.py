"""A study's report: its claims judged by the curves there are, and how far these are from the paper's scale."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bires.analysis.curves import Panel, collect
from bires.analysis.report.content import About, Judged
from bires.analysis.report.write import write
from bires.errors import UserError
from bires.runs.run import Run
from bires.settings.config import Config
from bires.studies import plan
from bires.studies.records import STUDIES, Part, Study


def report(runs: Sequence[Run], out: Path, name: str | None, command: str) -> list[Path]:
    """Writes the report of some runs; of a study, if they are a study's."""
    panels = collect(run for run in runs if run.evaluations.height)
    return write(panels, out, about(panels, name or guess(panels), command))


def about(panels: Sequence[Panel], name: str | None, command: str) -> About:
    if name is None:
        tasks = ", ".join(dict.fromkeys(panel.task for panel in panels))
        return About(f"bires: {tasks if len(tasks) < 60 else f'{len(panels)} tasks'}", "", command=command)
    study = plan.get(name)
    return About(f"bires: {name}", study.summary, notes(study, panels), judge(study, panels), command)


def judge(study: Study, panels: Sequence[Panel]) -> tuple[Judged, ...]:
    """Every claim of the study beside what was measured."""
    found = [(claim, claim.measure(panels)) for claim in study.claims]
    return tuple(Judged(c.statement, c.paper, f.value, f.unit, f.answer) for c, f in found)


def guess(panels: Sequence[Panel]) -> str | None:
    """The first study of which one task, all algorithms and all values of η are there."""
    tasks = {run.config.task for panel in panels for run in panel.runs}
    there = {(kind.algorithm, kind.eta) for panel in panels for kind in panel.kinds}
    models = {None, *(run.config.own["model"] for panel in panels for run in panel.runs)}
    for name, study in STUDIES.items():
        wanted = {
            (algorithm, eta if any(k[0] == algorithm and k[1] is not None for k in there) else None)
            for part in study.parts
            for algorithm in part.settings["algorithm"]
            for eta in part.settings.get("eta", part.settings.get("planning_eta"))
        }
        if tasks.isdisjoint(task for part in study.parts for task in part.tasks):
            continue
        if wanted and wanted <= there and {part.settings.get("model") for part in study.parts} <= models:
            return name
    return None


def steps_of(part: Part) -> int:
    """The steps of the paper: the part's own, or its agent's default."""
    given = part.settings.get("steps")
    return int(given or Config(part.tasks[0], algorithm=tuple(part.settings["algorithm"])).steps)


def notes(study: Study, panels: Sequence[Panel]) -> tuple[str, ...]:
    """In what the runs fall short of the paper's scale, and what is missing or not finished."""
    if not panels:
        return ()
    if not study.parts:
        raise UserError("--study was given linear, which has no runs; type `bires reproduce linear`.")
    tasks = list(dict.fromkeys(task for part in study.parts for task in part.tasks))
    missing = [task for task in tasks if task not in {panel.task for panel in panels}]
    lengths = [int(kind.steps[-1]) for panel in panels for kind in panel.kinds if len(kind.steps)]
    steps, most = min(lengths), max(lengths)
    wanted = max(steps_of(part) for part in study.parts)
    seeds = min(len(kind.returns) for panel in panels for kind in panel.kinds)
    configs = [run.config for panel in panels for run in panel.runs]
    episodes = min(config.eval_episodes for config in configs)
    short = [
        f"{len(tasks) - len(missing)} of {len(tasks)} tasks" if missing else "",
        f"{steps:,}{f' to {most:,}' if most > steps else ''} of {wanted:,} steps" if steps < wanted else "",
        f"{seeds} of {study.seeds} seeds" if seeds < study.seeds else "",
        f"{episodes} of {Config.eval_episodes} evaluation episodes" if episodes < Config.eval_episodes else "",
        "" if {config.protocol for config in configs} == {"paper"} else "protocol modern",
    ]
    lacking = [text for text in short if text]
    unfinished = [run.config.task for panel in panels for run in panel.runs if not run.finished]
    return tuple(
        text
        for text in (
            f"Not the paper's scale: {'; '.join(lacking)}." if lacking else "",
            f"Not run: {', '.join(missing)}." if 0 < 3 * len(missing) <= len(tasks) else "",
            f"Not finished: {', '.join(unfinished)}." if unfinished else "",
        )
        if text
    )
