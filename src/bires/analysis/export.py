"""Curves for other viewers: TensorBoard event files, and Weights & Biases runs written offline.

The CSV files of a run folder stay the truth. An export is made from them as a whole and replaces the one before, found
by the member's id, which depends on the run and the member alone: nothing is doubled after a resume or a second export.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import math
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from bires.analysis.labels import labelled, number_of
from bires.analysis.names import file_name
from bires.errors import UserError, writing_to
from bires.machine.terminal import counted
from bires.runs.run import Run
from bires.settings import config as configs


@dataclass(frozen=True)
class ViewedMember:
    """One member as a viewer shows it."""

    id: str
    """The same after a resume, a second export or a move of the folder."""
    task: str
    group: str
    """Its algorithm, with η and all other numbers that vary between the exported runs."""
    name: str
    """Its seed."""
    start: float
    """When its run began, in seconds since 1970: steps have no times of their own."""
    about: dict[str, Any]
    """Its settings and its run's."""
    points: tuple[tuple[int, dict[str, float]], ...]
    """Step → name → value."""


LIBRARIES = {"tensorboard": "tensorboardX", "wandb": "wandb"}
PROJECT = "bires"


def export(runs: Sequence[Run], to: str, out: Path, project: str) -> str:
    """Writes the members of some runs; returns what to type to see them."""
    library = require(LIBRARIES[to], to, "--to")
    with writing_to(out):
        out.mkdir(parents=True, exist_ok=True)
    found = viewed_members(runs)
    if to == "tensorboard":
        to_tensorboard(library, found, out)
        return f"{counted(len(found), 'member')}; look with `tensorboard --logdir {out}`"
    to_wandb(library, found, out, project)
    return f"{counted(len(found), 'member')}, offline; upload with `wandb sync {out / 'wandb'}/offline-run-*`"


def require(library: str, extra: str, flag: str) -> Any:
    try:
        return importlib.import_module(library)
    except ImportError as error:
        raise UserError(f"{flag} {extra} needs {library} ({error}): `pip install 'bires[{extra}]'`.") from error


def viewed_members(runs: Sequence[Run]) -> list[ViewedMember]:
    """The members of all runs; those that would have the same name carry their id."""
    found: list[ViewedMember] = []
    for run, named in zip(runs, labelled(runs), strict=True):
        table = run.members
        seen = points(run, set(table))
        rows = zip(table.rows(), named, strict=True)
        found += [viewed_member(run, row, name["label"], seen.get(row["member"], {})) for row, name in rows]
    found = list({one.id: one for one in found}.values())  # a folder may be named twice
    taken = Counter((one.task, one.group, one.name) for one in found)
    return [
        replace(one, name=f"{one.name}-{one.id}") if taken[one.task, one.group, one.name] > 1 else one for one in found
    ]


def viewed_member(run: Run, row: dict[str, Any], label: str, seen: dict[int, dict[str, float]]) -> ViewedMember:
    lasting = {key: value for key, value in run.manifest["config"].items() if key not in ("steps", "log_every")}
    identity = json.dumps([run.manifest["start"], lasting, row["member"]], sort_keys=True)
    settings = {key: value for key, value in row.items() if value == value and value != ""}
    about = {**configs.to_json(run.config), **settings, "eta": number_of(row, "eta")}
    about |= {key: run.manifest.get(key) for key in ("command", "versions", "commit", "cpu", "device")}
    return ViewedMember(
        hashlib.sha256(identity.encode()).hexdigest()[:10],
        file_name(run.config.task),
        file_name(label),
        f"seed-{row['seed']}",
        datetime.fromisoformat(run.manifest["start"]).timestamp(),
        about,
        tuple(sorted(seen.items())),
    )


def points(run: Run, settings: set[str]) -> dict[int, dict[int, dict[str, float]]]:
    """Member → step → name → value; values that are not finite are skipped, as viewers cannot read them."""
    found: dict[int, dict[int, dict[str, float]]] = {}
    for kind, table in (("evaluation", run.evaluations), ("training", run.metrics)):
        names = [name for name in table if name not in settings and name != "step"]
        for row in table.rows():
            values = {f"{kind}/{name}": float(row[name]) for name in names if math.isfinite(row[name])}
            found.setdefault(row["member"], {}).setdefault(row["step"], {}).update(values)
    return found


# TensorBoard: out/TASK/ALGORITHM/seed-N/events.out.tfevents.START.ID


def to_tensorboard(library: Any, found: Sequence[ViewedMember], out: Path) -> None:
    for one in found:
        folder = out / one.task / one.group / one.name
        path = folder / f"events.out.tfevents.{one.start:.0f}.{one.id}"
        with tempfile.TemporaryDirectory(dir=out, prefix=".part-") as aside:
            writer = library.SummaryWriter(aside)
            add_about(writer, one)
            for step, values in one.points:
                add_step(writer, step, values, one.start)
            writer.close()
            (written,) = Path(aside).iterdir()
            for old in out.glob(f"*/*/*/events.out.tfevents.*.{one.id}"):
                remove(old, out)
            folder.mkdir(parents=True, exist_ok=True)
            written.replace(path)


def add_about(writer: Any, one: ViewedMember) -> None:
    """The settings of a member, as text."""
    writer.add_text("about", f"```json\n{json.dumps(one.about, indent=2)}\n```", 0, walltime=one.start)


def add_step(writer: Any, step: int, values: Mapping[str, float], when: float | None = None) -> None:
    """The values of a step, with a time; None: now."""
    for name, value in values.items():
        writer.add_scalar(name, value, step, walltime=when)


def remove(path: Path, upto: Path) -> None:
    """Removes a file, and the folders above it that are empty then."""
    path.unlink()
    for folder in path.parents:
        if folder == upto or any(folder.iterdir()):
            return
        folder.rmdir()


# Weights & Biases: out/wandb/offline-run-TIME-ID/


def to_wandb(library: Any, found: Sequence[ViewedMember], out: Path, project: str) -> None:
    for one in found:
        run = begin_wandb(library, one, out, project=project, mode="offline")
        for step, values in one.points:
            run.log(values, step=step)
        run.finish()


def begin_wandb(library: Any, one: ViewedMember, out: Path, **more: Any) -> Any:
    """A member's W&B run, in place of what was there; offline unless ``more`` or WANDB_MODE says otherwise."""
    os.environ.setdefault("WANDB_ERROR_REPORTING", "false")  # offline means offline
    mode = os.environ.get("WANDB_MODE", "offline")
    settings = library.Settings(silent=True, console="off", disable_git=True, save_code=False, x_disable_stats=True)
    for old in (out / "wandb").glob(f"offline-run-*-{one.id}"):
        shutil.rmtree(old)
    usual = {"project": os.environ.get("WANDB_PROJECT", PROJECT), "mode": mode, "settings": settings, "dir": str(out)}
    about = {"id": one.id, "name": one.name, "group": one.group, "job_type": one.task, "config": one.about}
    return library.init(**{**usual, **about, **more})
