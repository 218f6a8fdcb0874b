"""Run folders from somebody else: they run no code of their choosing, reach nothing outside, and end no process."""

import json
import os
import shutil
import sys

import pytest

import bires
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


def configured(**changes):
    return lambda data: data["config"].update(changes)


EDITS = {
    "10**4000 steps": configured(steps=10**4000),
    "10**300 steps": configured(steps=10**300),
    "a batch of 10**9": configured(batch=10**9),
    "a layer of 10**9": configured(hidden=[10**9, 10**9]),
    "an ensemble of 10**9": configured(ensemble=10**9, model="learned", planner=["dyna"], algorithm=["ddpg"]),
    "10**9 episodes": configured(eval_episodes=10**9),
    "a grid of 10**9": configured(
        seed=[*range(1000)], eta=[i / 1000 for i in range(1000)], gamma=[i / 1000 for i in range(1000)]
    ),
    "a task of dots": configured(task=".:x"),
    "a task that is a list": configured(task=["a"]),
    "no such task": configured(task="nowhere-v0"),
    "a config that is a list": lambda data: data.update(config=[1]),
    "a start that is no time": lambda data: data.update(start="yesterday"),
    "a command that is a number": lambda data: data.update(command=7),
}


@pytest.mark.parametrize("edit", EDITS)
def test_an_edited_manifest_is_refused(copied, tmp_path, edit):
    run = copied()
    path = with_manifest(run, lambda data: (EDITS[edit](data), data.update(end=None)))
    for command in ("evaluate", "play", "resume"):
        more = ("--trust",) if edit == "a task of dots" else ()
        done = read_by(command, path, tmp_path, *more)
        assert done.returncode == 2, (command, done)
        assert done.stderr.startswith("bires: ")
        assert len(done.stderr) < 2000
    for command in ("report", "export"):  # these may have no use for what was edited
        assert read_by(command, path, tmp_path).returncode in (0, 2)


def test_deeply_nested_json_is_refused(copied, tmp_path):
    path = copied().path
    (path / "manifest.json").write_text('{"config": ' + "[" * 200_000 + "]" * 200_000 + "}")
    for command in READERS:
        assert "is not a run folder" in read_by(command, path, tmp_path).stderr


@pytest.mark.parametrize("kept", [0, 10, 200, 10**6])
def test_a_members_file_that_is_cut_or_wrong_is_refused(copied, tmp_path, kept):
    run = copied(seeds=2)
    text = (run.path / "members.csv").read_text()
    whole = text if kept < 10**6 else text.replace("\n1,", "\n7,")
    (run.path / "members.csv").write_text(whole[:kept])
    for command in ("report", "export"):
        done = read_by(command, run.path, tmp_path)
        assert done.returncode == 2, done
        assert "members.csv" in done.stderr
    if kept < 200:
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
