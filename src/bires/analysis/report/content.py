"""What the HTML report shows, as plain data."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from bires.analysis import scores, statistics, summary
from bires.analysis.curves import Curves, Panel
from bires.analysis.figures import MANY_LINES, Styles, eta_styles, smoothing, styles
from bires.analysis.intervals import Estimate
from bires.analysis.summary import Row
from bires.analysis.totals import Total, groups
from bires.machine.terminal import plain
from bires.runs.run import Run
from bires.settings import config as configs

LEVELS = np.linspace(0.0, 1.0, 51)
"""Where performance profiles are taken: normalised scores."""
CROWDED = 8
"""More kinds of member than this in a panel are spread over one panel per algorithm, if they differ in η alone."""
FILES = ("evaluations.csv", "members.csv", "metrics.csv", "manifest.json")


@dataclass(frozen=True)
class Judged:
    """A claim of the paper beside what was measured."""

    statement: str
    paper: str
    value: Estimate | None
    unit: str
    answer: str
    interval: str = ""
    """`paired`, `unpaired`, or on how many tasks which; empty where nothing was compared."""


@dataclass(frozen=True)
class About:
    """How a report was made."""

    title: str
    summary: str
    notes: tuple[str, ...] = ()
    claims: tuple[Judged, ...] = ()
    command: str = ""


def content(found: summary.Found, about: About, out: Path) -> dict[str, Any]:
    """Everything the page needs; links are relative to the folder ``out``."""
    panels = found.panels
    runs = [run for panel in panels for run in panel.runs]
    look, split = looks(panels), by_eta(panels)
    return {
        "title": about.title,
        "summary": about.summary,
        "notes": list(about.notes),
        "claims": [asdict(claim) | {"value": shown(claim.value)} for claim in about.claims],
        "command": about.command,
        "panels": [drawn for panel in panels for drawn in panel_data(panel, look, split)],
        "smoothing": max(
            (smoothing(len(k.steps), len(p.kinds) > MANY_LINES) for p in panels for k in p.kinds), default=1
        ),
        "rows": [shown(row) for row in found.rows],
        "totals": [shown(total) for total in found.totals],
        "profiles": profiles(panels, look),
        "diverged": [
            {"task": panel.title, "kind": kind.label, "seed": seed, "step": step}
            for panel in panels
            for kind in panel.kinds
            for seed, step in zip(kind.seeds, kind.diverged_at, strict=True)
            if step is not None
        ],
        "runs": [run_data(run, out) for run in runs],
        "versions": versions(runs),
    }


def shown(record: Any) -> Any:
    """A record as plain data, and the estimates in it; an end without a bound is a word, as JSON has no infinity."""
    if isinstance(record, Row | Total | Estimate):
        return {name: shown(value) for name, value in vars(record).items()}
    if isinstance(record, float) and np.isinf(record):
        return "Infinity" if record > 0 else "-Infinity"
    return plain(record)


def looks(panels: Sequence[Panel]) -> Styles:
    """Colours by kind, or by η where there are too many kinds for that."""
    return eta_styles(panels) if by_eta(panels) else styles(panels)


def by_eta(panels: Sequence[Panel]) -> bool:
    """Whether a panel is crowded, and η alone tells the kinds of an algorithm apart."""
    told = [len({(kind.algorithm, kind.eta) for kind in panel.kinds}) == len(panel.kinds) for panel in panels]
    return all(told) and any(len(panel.kinds) > CROWDED for panel in panels)


def panel_data(panel: Panel, look: Styles, split: bool) -> list[dict[str, Any]]:
    """A panel as one drawing, or ``split`` into one for each algorithm."""
    parts = {panel.title: list(panel.kinds)}
    if split and len(panel.kinds) > CROWDED:
        algorithms = dict.fromkeys(kind.algorithm for kind in panel.kinds)
        parts = {f"{panel.title}, {name}": [k for k in panel.kinds if k.algorithm == name] for name in algorithms}
    steps = panel.kinds[0].steps.tolist() if panel.kinds else []
    return [
        {
            "title": title,
            "task": panel.title,
            "steps": steps,
            "end": panel.end,
            "note": "all members diverged" if panel.ended_early else "",
            "kinds": [kind_data(kind, look) for kind in kinds],
        }
        for title, kinds in parts.items()
    ]


def kind_data(kind: Curves, look: Styles) -> dict[str, Any]:
    return {
        "label": kind.label,
        "algorithm": kind.algorithm,
        "eta": kind.eta,
        "seeds": list(kind.seeds),
        "diverged": [pair for pair in zip(kind.seeds, kind.diverged_at, strict=True) if pair[1] is not None],
        "returns": [[float(f"{value:.5g}") for value in row] for row in kind.returns.tolist()],
        **look_data(look[kind.label]),
    }


def look_data(look: tuple[Any, Any]) -> dict[str, str]:
    """Colour and dash as SVG writes them."""
    colour, dash = look
    if not isinstance(colour, str):
        colour = "#" + "".join(f"{round(255 * part):02x}" for part in colour[:3])
    dashes = {"-": "", "--": "7 4", "-.": "8 3 2 3", ":": "2 3"}
    text = dashes[dash] if isinstance(dash, str) else " ".join(str(2 * part) for part in dash[1])
    return {"colour": colour, "dash": text}


def profiles(panels: Sequence[Panel], look: Styles) -> dict[str, Any]:
    """The performance profile of every kind that ran on two tasks or more, if all may be counted together."""
    lines, whole = [], groups(panels).get("all", [])
    for label in dict.fromkeys(kind.label for panel in panels for kind in panel.kinds):
        there = [(panel, kind) for panel in whole if (kind := panel.kind(label))]
        if len(there) < 2:
            continue
        normal = statistics.matrix([scores.score(kind) / scores.scale_of(panel).value for panel, kind in there])
        found = statistics.profile_band(normal, LEVELS)
        parts = [[None if np.isnan(x) else round(x, 4) for x in part.tolist()] for part in found]
        names = dict(zip(("value", "low", "high"), parts, strict=True))
        lines.append({"label": label, **look_data(look[label]), **names})
    return {"levels": [round(x, 4) for x in LEVELS.tolist()], "lines": lines}


def run_data(run: Run, out: Path) -> dict[str, Any]:
    manifest = run.manifest
    return {
        "run": run.path.resolve().name,
        "task": run.config.task,
        "members": run.members.height,
        "steps": run.config.steps,
        "protocol": run.config.protocol,
        "hardware": " · ".join(dict.fromkeys(filter(None, (manifest.get("cpu"), manifest.get("device"))))),
        "start": manifest.get("start"),
        "end": manifest.get("end"),
        "files": [
            {"name": name.split(".")[0], "href": quote(Path(os.path.relpath(run.path / name, out)).as_posix())}
            for name in FILES
            if (run.path / name).exists()
        ],
    }


def versions(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Settings and versions, once for all runs that share them, with the commands that made these."""
    groups: dict[str, list[Run]] = {}
    for run in runs:
        kept = {key: run.manifest.get(key) for key in ("commit", "precision", "versions")}
        settings = {key: value for key, value in configs.to_json(run.config).items() if key != "task"}
        groups.setdefault(json.dumps(kept | {"settings": settings}, indent=1), []).append(run)
    return [
        {
            "runs": [run.path.resolve().name for run in same],
            "tasks": [run.config.task for run in same],
            "commands": "\n".join(dict.fromkeys(str(run.manifest.get("command", "–")) for run in same)),
            "text": text,
        }
        for text, same in groups.items()
    ]
