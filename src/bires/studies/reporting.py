"""A study's report: its claims judged by the available curves, and how these differ from the paper's scale."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from bires.analysis.curves import EARLY, Panel, collect, last_step, superseded
from bires.analysis.report.content import About, Judged
from bires.analysis.report.write import find, write_found
from bires.analysis.scores import short
from bires.analysis.summary import Found
from bires.analysis.totals import groups, model_of, once
from bires.errors import UserError
from bires.runs.run import Run
from bires.settings.config import Config
from bires.studies import plan
from bires.studies.claims import Claim, Finding
from bires.studies.departures import departures, wanted
from bires.studies.records import STUDIES
from bires.studies.study import Part, Study

WITH_A_NAME = ("--out", "--ray")
"""Flags of `bires reproduce` whose value may read like a study."""
LISTED = 12
"""Kinds that a note names."""


@dataclass(frozen=True)
class Reported:
    """What a report says."""

    found: Found
    about: About


def report(
    runs: Sequence[Run], out: Path, name: str | None, command: str, say: Callable[[str], object] = lambda text: None
) -> Reported:
    """Writes the report of some runs. Claims are judged for the study ``name``, or the one that made all of them.

    ``say`` is told what readers of its numbers should know of the runs.
    """
    panels = collect(run for run in runs if run.evaluations.height)
    found = find(panels)
    described = about(panels, name or made_by(panels), command)
    write_found(found, out, described)
    for note in described.notes:
        say(note)
    return Reported(found, described)


def about(panels: Sequence[Panel], name: str | None, command: str) -> About:
    """Title and notes of a report; claims only where there is a study to judge."""
    if name is None:
        return About(f"bires: {titled(panels)}", subject(panels), state(panels), command=command)
    study = plan.get(name)
    require_runs_of(name, study, panels)
    findings = measured(study, panels)
    remarks = dict.fromkeys(found.remark for _, found in findings if found.remark)
    return About(f"bires: {name}", study.summary, (*notes(study, panels), *remarks), judged(findings), command)


def state(panels: Sequence[Panel]) -> tuple[str, ...]:
    """Which runs are not finished, and whose curves are cut so that all of a panel have the same steps."""
    counted = {id(panel) for group in groups(panels).values() for panel in group}
    twice = [panel.title for panel in panels if id(panel) not in counted]
    protocols = dict.fromkeys(run.config.protocol for panel in panels for run in panel.runs)
    said = (
        unfinished(panels),
        *shortened(panels),
        f"Different protocols are counted together: {' and '.join(protocols)}." if len(protocols) > 1 else "",
        f"Left out over tasks, where each counts once (summary.csv has all): {'; '.join(twice)}." if twice else "",
    )
    return tuple(filter(None, said))


def unfinished(panels: Sequence[Panel]) -> str:
    """Which runs have not reached their last step."""
    halfway = [
        f"{run.path.name} (step {last:,} of {run.config.steps:,})"
        for panel in panels
        for run in panel.runs
        if not run.finished and (last := last_step(run)) < run.config.steps
    ]
    return f"Not finished: {', '.join(halfway)}." if halfway else ""


def ended_early(panels: Sequence[Panel]) -> str:
    """Which kinds have members that diverged, failed or were stopped, and how many of how many."""
    found = [
        f"{kind.label} on {panel.title} ({getattr(kind, how)} of {len(kind.returns)} {how})"
        for panel in panels
        for kind in panel.kinds
        for how in EARLY
        if getattr(kind, how)
    ]
    shown = [*found[:LISTED], *([f"{len(found) - LISTED} more"] if len(found) > LISTED else [])]
    return f"Their last evaluation stands for the rest of their curve: {', '.join(shown)}." if found else ""


def shortened(panels: Sequence[Panel]) -> list[str]:
    """Whose curves are cut, what of them is not used, and which runs do not count, as others have the same seeds."""
    cut = [panel for panel in panels if panel.cut]
    ends = {
        panel.title: max((int(kind.steps[-1]) for kind in panel.kinds if len(kind.steps)), default=0) for panel in cut
    }
    unused = [
        f"{run.path.name} after step {ends[panel.title]:,} (it has {last:,})"
        for panel in cut
        for run in panel.runs
        if (last := last_step(run)) > ends[panel.title]
    ]
    again = [run.path.name for panel in panels for run in superseded(panel.runs)]
    return [
        f"Cut to the steps that all of its curves have: {'; '.join(panel.title for panel in cut)}."
        + (f" Not used: {', '.join(unused)}." if unused else "")
        if cut
        else "",
        f"Left out of {', '.join(again)}: members that another run here has, too (same kind, same seed). Each counts "
        "once, in the run that got furthest, of equals in the first that was trained."
        if again
        else "",
    ]


def require_runs_of(name: str, study: Study, panels: Sequence[Panel]) -> None:
    if not study.parts:
        raise UserError(f"--study was given {name}, which has no runs; type `bires reproduce {name}`.")
    tasks = study.tasks
    if panels and not any(short(panel.task) in tasks for panel in panels):
        some = ", ".join(tasks[:5]) + (f" … ({len(tasks)} in all)" if len(tasks) > 5 else "")
        raise UserError(
            f"--study was given {name}, whose tasks are {some}; these runs are of {titled(panels)}. Give runs of "
            "these tasks, or no --study."
        )


def titled(panels: Sequence[Panel]) -> str:
    """The tasks of some panels, or how many there are."""
    tasks = list(dict.fromkeys(panel.task for panel in panels))
    return names if len(names := ", ".join(tasks)) <= 60 else f"{len(tasks)} tasks"


def subject(panels: Sequence[Panel]) -> str:
    """What is compared: the kinds of members, how many of each, for how many steps."""
    kinds = [kind for panel in panels for kind in panel.kinds]
    labels = list(dict.fromkeys(kind.label for kind in kinds))
    shown = ", ".join(labels) if len(labels) <= 6 else f"{len(labels)} kinds of members"
    counts = sorted({len(kind.returns) for kind in kinds})
    lengths = sorted({int(kind.steps[-1]) for kind in kinds if len(kind.steps)})
    seeds = " to ".join(str(count) for count in dict.fromkeys((counts[0], counts[-1])))
    steps = " to ".join(f"{length:,}" for length in dict.fromkeys((lengths[0], lengths[-1]))) if lengths else "0"
    return f"{shown}; {seeds} seed{'s' if counts[-1] != 1 else ''} each, {steps} steps."


def made_by(panels: Sequence[Panel]) -> str | None:
    """The study whose command, `bires reproduce`, made all runs; None for runs of one's own, and for a mixture."""
    made = {study_of(run) for panel in panels for run in panel.runs}
    if len(made) > 1:  # studies may share their runs
        made = {STUDIES[name].runs_of or name if name else None for name in made}
    return made.pop() if len(made) == 1 else None


def study_of(run: Run) -> str | None:
    """The study that a run was made for, from the command in its manifest."""
    words = str(run.manifest.get("command", "")).split()
    if words[:2] != ["bires", "reproduce"]:
        return None
    return next((word for before, word in pairwise(words) if word in STUDIES and before not in WITH_A_NAME), None)


def own(study: Study, panels: Sequence[Panel]) -> list[Panel]:
    """The panels that a study's claims are about: of its own tasks and model, and each task once."""
    models = {part.settings.get("model") for part in study.parts}
    mine = [panel for panel in panels if short(panel.task) in study.tasks]
    protocol = str(study.parts[0].settings.get("protocol", "paper")) if study.parts else "paper"
    return once([panel for panel in mine if models == {None} or model_of(panel) in models], protocol)


def judge(study: Study, panels: Sequence[Panel]) -> tuple[Judged, ...]:
    """Every claim of the study beside what was measured."""
    return judged(measured(study, panels))


def measured(study: Study, panels: Sequence[Panel]) -> list[tuple[Claim, Finding]]:
    mine = own(study, panels)
    return [(claim, claim.measure(mine)) for claim in study.claims]


def judged(findings: Sequence[tuple[Claim, Finding]]) -> tuple[Judged, ...]:
    return tuple(Judged(c.statement, c.paper, f.value, f.unit, f.answer, f.interval) for c, f in findings)


def steps_of(part: Part) -> int:
    """The steps of the paper: the part's own, or its agent's default."""
    given = part.settings.get("steps")
    return int(given or Config(part.tasks[0], algorithm=tuple(part.settings["algorithm"])).steps)


def notes(study: Study, panels: Sequence[Panel]) -> tuple[str, ...]:
    """In what the runs differ from the study's, what is missing or not finished, and what was not judged."""
    if not panels:
        return ()
    mine = own(study, panels)
    tasks = study.tasks
    others = [panel.title for panel in panels if short(panel.task) not in tasks]
    aside = [p.title for p in panels if p.title not in others and not any(p is one for one in mine)] if mine else []
    panels = mine or panels
    missing = [task for task in tasks if task not in {short(panel.task) for panel in panels}]
    lengths = [int(kind.steps[-1]) for panel in panels for kind in panel.kinds if len(kind.steps)]
    steps, most = min(lengths), max(lengths)
    full = max(steps_of(part) for part in study.parts)
    seeds = min(len(kind.returns) for panel in panels for kind in panel.kinds)
    configs = [run.config for panel in panels for run in panel.runs]
    asked = [wanted(study, config, False) for config in configs]
    episodes, most_episodes = min(c.eval_episodes for c in configs), max(c.eval_episodes for c in asked)
    protocols = [ours.protocol for ours, theirs in zip(configs, asked, strict=True) if ours.protocol != theirs.protocol]
    parts = [
        f"{len(tasks) - len(missing)} of {len(tasks)} tasks" if missing else "",
        f"{steps:,}{f' to {most:,}' if most > steps else ''} of {full:,} steps" if steps < full else "",
        f"{seeds} of {study.seeds} seeds" if seeds < study.seeds else "",
        f"{episodes} of {most_episodes} evaluation episodes" if episodes < most_episodes else "",
        *(f"protocol {name}" for name in dict.fromkeys(protocols)),
        *departures(study, panels),
    ]
    lacking, unlike = "; ".join(filter(None, parts)), "Not as in the study" if study.beyond else "Not the paper's"
    said = (
        f"{unlike}: {lacking}." if lacking else "",
        f"Not run: {', '.join(missing)}." if 0 < 3 * len(missing) <= len(tasks) else "",
        unfinished(panels),
        ended_early(panels),
        *shortened(panels),
        f"Not judged (another model, or the task a second time): {'; '.join(aside)}." if aside else "",
        f"Not judged (not tasks of this study): {'; '.join(others)}." if others else "",
    )
    return tuple(filter(None, said))
