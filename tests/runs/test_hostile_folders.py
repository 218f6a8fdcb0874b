"""Forty run folders that somebody has edited: each is refused in words, or does no harm, whatever reads it."""

import json
import shutil
import sys
from functools import partial
from pathlib import Path

import pytest

import bires

MANIFEST = ("load", "report", "evaluate", "play", "export", "resume")
TABLES = ("load", "report", "export", "resume")
CHECKPOINTS = ("evaluate", "resume")
READERS = {
    "load": lambda path, out: look(bires.load(path)),
    "report": lambda path, out: bires.report(path, out=out / "report"),
    "evaluate": lambda path, out: bires.evaluate(path, episodes=1, workers=0),
    "play": lambda path, out: bires.play(path, video=out / "film.gif"),
    "export": lambda path, out: bires.export(path, out=out / "board"),
    "resume": lambda path, out: bires.resume(path, workers=0, cohorts="threads", quiet=True),
}


def look(run):
    """Everything that a loaded run shows."""
    return repr(run), run.members.show(), run.evaluations.show(), run.metrics.show(), run.summary().show()


def manifest(**changes):
    """A manifest with other settings, of a run that is not finished."""

    def edit(path: Path) -> None:
        data = json.loads((path / "manifest.json").read_text())
        data["config"].update(changes)
        data["end"] = None
        (path / "manifest.json").write_text(json.dumps(data))

    return edit


def around(**changes):
    """A manifest with other things around its settings."""

    def edit(path: Path) -> None:
        data = json.loads((path / "manifest.json").read_text()) | changes
        (path / "manifest.json").write_text(json.dumps(data))

    return edit


def text(name, change):
    """A file with another text."""

    def edit(path: Path) -> None:
        (path / name).write_text(change((path / name).read_text()))

    return edit


def every_cell(value, name, path):
    """A table in whose every cell, but for the members' numbers, is something else."""
    head, *rows = (path / name).read_text().splitlines()
    rows = [",".join([row.split(",")[0], *[value] * head.count(",")]) for row in rows]
    (path / name).write_text("\n".join([head, *rows]) + "\n")


def outward(name, path):
    """A link to a place outside."""
    target = path.parent / "precious.txt"
    target.write_text("precious")
    (path / name).unlink(missing_ok=True)
    (path / name).symlink_to(target)


def in_newest(name, data, path):
    """Another file in all checkpoints."""
    for folder in (path / "checkpoints").glob("step-*"):
        (folder / name).write_bytes(data)


REFUSED = {
    "10**4000 steps": (manifest(steps=10**4000), MANIFEST),
    "10**300 steps": (manifest(steps=1e300), MANIFEST),
    "10**9 transitions in a batch": (manifest(batch=10**9), ("evaluate", "play", "resume")),
    "10**9 units in a layer": (manifest(hidden=[10**9, 10**9]), ("evaluate", "play", "resume")),
    "10**9 models": (
        manifest(ensemble=10**9, model="learned", planner=["dyna"], algorithm=["ddpg"]),
        ("evaluate", "play", "resume"),
    ),
    "10**9 episodes": (manifest(eval_episodes=10**9), MANIFEST),
    "a replay of 10**9": (manifest(replay=10**9, steps=2 * 10**9), ("resume",)),
    "10**9 members": (
        manifest(seed=[*range(1000)], eta=[i / 1000 for i in range(1000)], gamma=[i / 1000 for i in range(1000)]),
        ("evaluate", "play", "resume"),
    ),
    "a task of dots": (manifest(task=".:x"), MANIFEST),
    "a task that is a list": (manifest(task=["a"]), MANIFEST),
    "a task that is not there": (manifest(task="nowhere-v0"), ("evaluate", "play", "resume")),
    "a task in a module": (manifest(task="hostile_module:x"), MANIFEST),
    "a rule in a module": (manifest(rule=["hostile_module:x"]), MANIFEST),
    "a planner in a package of a module": (manifest(planner=["hostile_module.inner:x"]), MANIFEST),
    "an algorithm in a module": (manifest(algorithm=["hostile_module:x"]), MANIFEST),
    "an argument that is a file": (manifest(task="Hopper-v5", env_kwargs={"xml_file": "/etc/passwd"}), MANIFEST),
    "an argument with text inside": (manifest(env_kwargs={"options": [{"load": ["x.so"]}]}), MANIFEST),
    "arguments that are a list": (manifest(env_kwargs=[1]), MANIFEST),
    "an argument that is not one": (manifest(env_kwargs={"no_such": 1}), ("evaluate", "play", "resume")),
    "render_mode as argument": (manifest(env_kwargs={"render_mode": 1}), MANIFEST),
    "a learning rate that is not a number": (manifest(critic_lr=["fast"]), MANIFEST),
    "a manifest that is a list": (lambda path: (path / "manifest.json").write_text("[1]"), MANIFEST),
    "a manifest that is binary": (lambda path: (path / "manifest.json").write_bytes(b"\xff\x00\xfe"), MANIFEST),
    "an empty manifest": (lambda path: (path / "manifest.json").write_text(""), MANIFEST),
    "a deeply nested manifest": (
        lambda path: (path / "manifest.json").write_text('{"config": ' + "[" * 200_000 + "]" * 200_000 + "}"),
        MANIFEST,
    ),
    "a nested argument": (manifest(env_kwargs={"a": json.loads("[" * 900 + "]" * 900)}), MANIFEST),
    "a start that is no time": (around(start="yesterday"), MANIFEST),
    "a command that is a number": (around(command=7), MANIFEST),
    "a format of another world": (lambda path: (around(format=99)(path), manifest()(path)), ("resume",)),
    "members without rows": (text("members.csv", lambda all: all.splitlines()[0] + "\n"), TABLES[:3]),
    "an empty table of members": (text("members.csv", lambda all: ""), TABLES[:3]),
    "members cut in a row": (text("members.csv", lambda all: all[: len(all) // 2]), TABLES[:3]),
    "a member beyond all": (
        text("members.csv", lambda all: all.replace("\n0,", "\n99999999999999999999,")),
        TABLES[:3],
    ),
    "text for numbers": (partial(every_cell, "x", "evaluations.csv"), TABLES[:3]),
    "a column missing": (text("evaluations.csv", lambda all: all.replace("return_mean", "other")), TABLES[:3]),
    "a column twice": (text("evaluations.csv", lambda all: all.replace("return_std", "return_mean")), TABLES[:3]),
    "a table that is a link outside": (partial(outward, "metrics.csv"), MANIFEST),
    "a lock that is a link outside": (partial(outward, ".lock"), MANIFEST),
    "a pickle for a checkpoint": (
        partial(in_newest, "arrays.safetensors", b"\x80\x04cposix\nsystem\n."),
        ("evaluate",),
    ),
    "a checkpoint without end": (partial(in_newest, "meta.json", b"x\n" + b"[" * 100_000), ("evaluate",)),
}
"""Name → the edit, and who must refuse it."""
HARMLESS = {
    "nan in every column": (partial(every_cell, "nan", "evaluations.csv"), TABLES),
    "infinity in every column": (partial(every_cell, "inf", "evaluations.csv"), TABLES),
    "nothing in any column": (partial(every_cell, "", "metrics.csv"), TABLES),
    "no row at all": (text("evaluations.csv", lambda all: all.splitlines()[0] + "\n"), TABLES),
    "control sequences and marks in names": (
        text("members.csv", lambda all: all.replace("bi-res-ddpg", "$x^2$ \x1b[31m[bold]<script>../..")),
        TABLES,
    ),
    "a thousand characters in a name": (
        text("members.csv", lambda all: all.replace("bi-res-ddpg", "n" * 1000)),
        TABLES,
    ),
    "a device that is not text to a terminal": (around(device="\x1b]0;owned\x07", commit="\x1b[2J"), TABLES),
}
"""Name → the edit, and who may read it: with a result, or with a refusal."""


@pytest.fixture
def hostile_module(tmp_path, monkeypatch):
    """A module in the current folder, of which one sees whether it was imported."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "hostile_module").mkdir()
    code = f"open({str(tmp_path / 'imported')!r}, 'w').close()"
    for name in ("__init__", "inner"):
        (tmp_path / "hostile_module" / f"{name}.py").write_text(code)
    yield tmp_path / "imported"
    assert not [name for name in sys.modules if name.startswith("hostile_module")]


@pytest.mark.parametrize("edit", [*REFUSED, *HARMLESS])
def test_an_edited_folder_is_refused_in_words_or_harmless(undisturbed, tmp_path, hostile_module, edit):
    path = tmp_path / "run"
    shutil.copytree(undisturbed(), path)
    change, readers = (REFUSED | HARMLESS)[edit]
    change(path)
    for name in readers:
        said = ""
        try:
            READERS[name](path, tmp_path)
        except bires.UserError as error:
            said = str(error)
        assert said or edit in HARMLESS, f"{name} took {edit!r}"
        assert len(said) < 2000
        assert "Traceback" not in said or edit == "an argument that is not one"
    assert not hostile_module.exists()
    assert not (tmp_path / "precious.txt").exists() or (tmp_path / "precious.txt").read_text() == "precious"
