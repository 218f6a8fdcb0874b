"""Run folders from somebody else: they run no code of their choosing, reach nothing outside, and end no process."""

import json
import os
import shutil
import sys
from pathlib import Path

import pytest

import bires
from bires.runs.trust import resume_command
from tests.helpers import typed

READERS = ("evaluate", "play", "report", "export", "resume")


def with_manifest(run, change):
    """A run whose manifest somebody has edited."""
    path = run.path / "manifest.json"
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))
    return run.path


def read_by(command, path, tmp_path, *more):
    """What a command says to a run folder."""
    out = [] if command in ("evaluate", "play", "resume") else ["--out", str(tmp_path / "out")]
    return typed(command, str(path), *out, *more, cwd=tmp_path)


@pytest.fixture
def planted(tmp_path, monkeypatch):
    """A function that puts a module into the current folder; whether it was imported is seen by a file."""
    names = []
    monkeypatch.setattr(sys, "path", [*sys.path])

    def plant(name, code=""):
        names.append(name)
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'imported')!r}, 'w').close()\n{code}")
        return tmp_path / "imported"

    yield plant
    for name in names:
        sys.modules.pop(name, None)


@pytest.mark.parametrize("key", ["task", "algorithm", "rule", "planner"])
def test_a_run_imports_no_module_that_its_reader_has_not_named(copied, tmp_path, planted, key):
    imported = planted("planted_module")
    name = "planted_module:anything"
    path = with_manifest(copied(), lambda data: data["config"].update({key: name if key == "task" else [name]}))
    for command in READERS:
        done = read_by(command, path, tmp_path)
        assert done.returncode == 2, done.stderr
        assert "names the module 'planted_module'" in done.stderr
        assert "add --trust" in done.stderr
    with pytest.raises(bires.UserError, match="add trust=True"):
        bires.load(path)
    assert not imported.exists()
    assert read_by("evaluate", path, tmp_path, "--trust").returncode == 2  # it has no such thing, but was asked
    assert imported.exists()


OWN = """
import gymnasium
from tests.environments import Clock
if "planted/Clock-v0" not in gymnasium.registry:
    gymnasium.register("planted/Clock-v0", entry_point=Clock, max_episode_steps=5)
"""
QUICK = ("--steps", "20", "--warmup", "10", "--eval-every", "20", "--eval-episodes", "1", "--hidden", "8", "8")


def test_a_run_of_ones_own_goes_on_with_trust_or_named_again(tmp_path, planted):
    planted("my_planted_task", OWN)
    train = ("train", "my_planted_task:planted/Clock-v0", *QUICK, "--batch", "8", "--workers", "0", "--quiet")
    assert typed(*train, "--out", "run", cwd=tmp_path).returncode == 0
    run = tmp_path / "run"
    sys.modules.pop("my_planted_task")  # as in a new process
    assert "add --trust" in typed("resume", "run", "--steps", "30", cwd=tmp_path).stderr
    done = typed("resume", "run", "--steps", "30", "--workers", "0", "--quiet", "--trust", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert bires.load(run).config.steps == 30  # its module has been imported by now
    sys.modules.pop("my_planted_task")
    again = (*train, "--out", "run", "--steps", "30", "--eval-every", "20")
    assert typed(*again, cwd=tmp_path).returncode == 0
    sys.modules.pop("my_planted_task")
    other = typed("train", "pendulum-swingup", *QUICK, "--out", "run", cwd=tmp_path)
    assert "holds a run with another configuration" in other.stderr


@pytest.mark.parametrize(
    ("config", "command"),
    [
        ({"task": "Pendulum-v1", "env_kwargs": {"g": 9.8}}, "`bires resume 'my runs/a'`"),
        ({"task": "mine:Clock-v0"}, "`bires resume 'my runs/a' --trust`"),
        ({"task": "Pendulum-v1", "rule": ["td", "mine:rule"]}, "`bires resume 'my runs/a' --trust`"),
        ({"task": "Ant-v5", "env_kwargs": {"xml_file": "a.xml"}}, "`bires resume 'my runs/a' --trust`"),
    ],
)
def test_the_command_that_continues_a_run_can_be_typed_as_it_is(config, command):
    assert resume_command(Path("my runs/a"), config) == command


def outside(tmp_path):
    target = tmp_path / "precious.txt"
    target.write_text("precious")
    return target


@pytest.mark.parametrize("name", [".lock", "evaluations.csv", "summary.json", "checkpoints/step-x", "member-0.gif"])
def test_links_out_of_a_run_are_refused(copied, tmp_path, name):
    path, target = copied().path, outside(tmp_path)
    (path / name).unlink(missing_ok=True)
    (path / name).symlink_to(target)
    for command in READERS:
        done = read_by(command, path, tmp_path)
        assert done.returncode == 2
        assert "outside of the run folder" in done.stderr
    assert target.read_text() == "precious"


def test_links_to_a_run_and_inside_it_are_followed(copied, tmp_path):
    path = copied().path
    (path / "latest.csv").symlink_to("evaluations.csv")
    (tmp_path / "link").symlink_to(path)
    assert bires.load(tmp_path / "link").finished


def test_a_pipe_in_the_place_of_a_file_is_refused(copied, tmp_path):
    path = copied().path
    (path / "manifest.json").unlink()
    os.mkfifo(path / "manifest.json")
    assert "neither a file nor a folder" in read_by("report", path, tmp_path).stderr


def with_file(run):
    return with_manifest(run, lambda data: data["config"].update(env_kwargs={"g": "/etc/passwd"}))


def test_a_run_gives_its_environment_no_text_that_its_reader_has_not_named(copied, tmp_path):
    """Numbers reach nothing; text may name a file or a program."""
    path = with_file(copied())
    for command in READERS:
        done = read_by(command, path, tmp_path)
        assert done.returncode == 2, done.stderr
        assert "gives its environment the argument g='/etc/passwd'" in done.stderr
        assert "add --trust" in done.stderr
    with_manifest(bires.load(path, trust=True), lambda data: data["config"].update(env_kwargs={"g": 9.8, "a": [1]}))
    assert bires.load(path).config.env_kwargs == {"g": 9.8, "a": [1]}


def test_arguments_of_ones_own_are_trusted_when_they_are_named_again(copied, monkeypatch):
    monkeypatch.setattr("bires.runs.trust._named", set())
    path = with_file(copied())
    train = ("train", "Pendulum-v1", "--out", str(path), "--quiet", "--env-kwargs")
    other = typed(*train, '{"g": "/etc/shadow"}')
    assert other.returncode == 2
    assert "--env-kwargs: {'g': '/etc/passwd'} there, {'g': '/etc/shadow'} now" in other.stderr
    same = typed(*train, '{"g": "/etc/passwd"}')
    assert "--steps: 60 there" in same.stderr  # it was read: only other settings differ
    assert bires.load(path).finished, "what was named once is known in this process"


@pytest.mark.parametrize("kept", [0, 10])
def test_a_run_whose_members_file_is_cut_is_not_made_longer(copied, tmp_path, kept):
    run = copied()
    (run.path / "members.csv").write_text((run.path / "members.csv").read_text()[:kept])
    assert "members.csv" in read_by("resume", run.path, tmp_path, "--steps", "90").stderr


def test_a_file_too_large_for_the_memory_is_not_read(copied, tmp_path):
    path = copied().path
    with (path / "evaluations.csv").open("r+b") as file:
        file.truncate(1 << 42)  # a hole: it takes no room on the disk
    assert "more than fit into memory" in read_by("report", path, tmp_path).stderr
    newest = max((path / "checkpoints").glob("step-*"))
    for folder in (path / "checkpoints").glob("step-*"):
        if folder != newest:
            shutil.rmtree(folder)
    with (newest / "arrays.safetensors").open("r+b") as file:
        file.truncate(1 << 42)
    assert "more than can be read here" in read_by("evaluate", path, tmp_path).stderr


@pytest.mark.parametrize(
    "code", ["raise RuntimeError('on fire')", "raise SystemExit(7)", "1 / 0", "import nothing_there"]
)
def test_a_module_that_raises_is_a_clear_error(tmp_path, planted, code):
    planted("burning_module", code)
    done = typed("train", "burning_module:x", cwd=tmp_path)
    assert done.returncode == 2
    assert "names the module 'burning_module', which cannot be imported" in done.stderr
