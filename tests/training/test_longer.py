"""A run that is made longer ends as if it had been asked for from the start."""

import json
import shutil
from typing import Any

import pytest

import bires
from bires.machine import memory
from tests.helpers import TASK, assert_same_state, contents, typed

GRID = {"algorithm": ["ddpg", "bi-res-ddpg"], "critic_lr": [1e-3, 1e30], "seed": [0]}


@pytest.mark.parametrize("replay", [50, 1000])
def test_a_lengthened_run_equals_a_long_one(replay, tmp_path, quick):
    """With a replay that wraps, and with one that grows; one learning rate diverges before the first end."""
    quick |= GRID | {"eval_every": 20, "replay": replay}
    bires.train(TASK, out=tmp_path / "straight", **quick | {"steps": 100})
    bires.train(TASK, out=tmp_path / "longer", **quick | {"steps": 60})
    before = bires.load(tmp_path / "longer")
    run = bires.resume(before, steps=100, quiet=True)
    assert before.config == run.config
    assert contents(tmp_path / "straight") == contents(tmp_path / "longer")
    assert_same_state(tmp_path / "straight", tmp_path / "longer")
    assert run.finished
    assert run.config.steps == 100
    assert [told["steps"] for told in run.manifest["lengthened"]] == [60]
    assert {row["status"] for row in run.members.rows()} == {"finished", "diverged"}


def test_a_run_cannot_be_made_shorter_or_go_on_from_nothing(copied):
    run = copied()
    before = (run.path / "manifest.json").read_bytes()
    done = typed("resume", str(run.path), "--steps", "30")
    assert done.returncode == 2
    assert "--steps was given 30" in done.stderr
    assert "60 steps" in done.stderr
    same = typed("resume", str(run.path), "--steps", "60")
    assert same.returncode == 0
    assert "is finished" in same.stdout
    shutil.rmtree(run.path / "checkpoints")
    gone = typed("resume", str(run.path), "--steps", "90")
    assert gone.returncode == 2
    assert "no checkpoint" in gone.stderr
    assert (run.path / "manifest.json").read_bytes() == before
    assert json.loads(before)["end"]


def test_a_run_that_cannot_go_on_is_not_made_longer(copied):
    run = copied()
    for path in run.path.glob("checkpoints/*/arrays.safetensors"):
        path.write_bytes(b"damaged")
    before = {path: path.read_bytes() for path in run.path.rglob("*") if path.is_file()}
    with pytest.raises(bires.UserError, match="nothing was changed"):
        bires.resume(run.path, steps=100, quiet=True)
    assert {path: path.read_bytes() for path in run.path.rglob("*") if path.is_file()} == before
    assert bires.load(run.path).finished


def test_a_run_that_would_not_fit_any_more_is_not_made_longer(copied, monkeypatch):
    run = copied()
    before = {path: path.read_bytes() for path in run.path.rglob("*") if path.is_file()}
    monkeypatch.setattr(memory, "free_memory", lambda: 10_000)
    with pytest.raises(bires.UserError, match="This population needs"):
        bires.resume(run.path, steps=100, quiet=True)
    assert {path: path.read_bytes() for path in run.path.rglob("*") if path.is_file()} == before
    assert bires.load(run.path).finished


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--keep-every", "0"), "--keep-every was given 0"),
        (("--checkpoint-minutes", "0"), "--checkpoint-minutes was given 0"),
        (("--callback", "nowhere:stop"), "nowhere"),
        (("--workers", "-1"), "--workers was given -1"),
    ],
)
def test_a_refused_command_makes_no_run_longer(copied, words, message):
    run = copied()
    before = (run.path / "manifest.json").read_bytes()
    said = typed("resume", str(run.path), "--steps", "90", *words)
    assert said.returncode == 2
    assert message in said.stderr
    assert (run.path / "manifest.json").read_bytes() == before


def test_a_lengthened_run_of_pixels_equals_a_long_one(tmp_path):
    """Stacks of frames reach back before the oldest step that is drawn; the replay has room for them from the start."""
    settings: dict[str, Any] = {"steps": 60, "warmup": 10, "eval_every": 60, "eval_episodes": 1, "replay": 500}
    settings |= {"algorithm": "dqn", "batch": 8, "hidden": 16, "update_every": 1, "log_every": 20, "quiet": True}
    task = "tests.own_family:mine/Lamp-v0"
    bires.train(task, out=tmp_path / "straight", workers=0, **settings | {"steps": 120})
    bires.train(task, out=tmp_path / "longer", workers=0, **settings)
    bires.resume(tmp_path / "longer", steps=120, quiet=True)
    assert contents(tmp_path / "straight") == contents(tmp_path / "longer")
    assert_same_state(tmp_path / "straight", tmp_path / "longer")
