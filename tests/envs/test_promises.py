"""What a run promises of a task is looked at first: that its episodes repeat for a seed, and that they end."""

import json

import numpy as np
import pytest

from bires.envs.limits import LIMIT
from bires.envs.recipe import recipe
from bires.envs.repeating import repeats
from tests.helpers import PROBE, typed

SMALL = ("--steps", "20", "--warmup", "10", "--eval-every", "20", "--eval-episodes", "1", "--hidden", "8", "8")


@pytest.mark.parametrize(
    ("task", "expected"),
    [
        ("dm_control/lqr-lqr_2_1-v0", False),
        (f"{PROBE}Forgetful-v0", False),
        (f"{PROBE}Moody-v0", False),
        (f"{PROBE}Raises-v0", True),
        (f"{PROBE}Hopeless-v0", True),
        ("Pendulum-v1", True),
    ],
)
def test_a_task_that_does_not_repeat_is_noticed(task, expected):
    made = recipe(task, "modern")
    assert repeats(made, made.build()) is expected


def test_a_run_that_will_not_be_exact_says_so(tmp_path):
    done = typed(
        "train", f"{PROBE}Forgetful-v0", *SMALL, "--batch", "8", "--workers", "0", "--out", str(tmp_path / "run")
    )
    assert done.returncode == 0, done.stderr
    assert "Forgetful-v0 does not repeat for a seed" in done.stderr
    assert "will not be exact" in done.stderr
    assert json.loads((tmp_path / "run" / "manifest.json").read_text())["exact"] is False


@pytest.mark.parametrize(
    ("task", "limited"),
    [
        (f"{PROBE}Clock-v0", True),
        ("dm_control/lqr-lqr_2_1-v0", True),
        ("pendulum-swingup", False),
        ("Pendulum-v1", False),
        ("CartPole-v1", False),
    ],
)
def test_only_a_task_without_a_time_limit_gets_one(task, limited):
    assert recipe(task, "modern").build().limited is limited


def test_an_episode_without_an_end_is_cut(monkeypatch):
    monkeypatch.setattr("bires.envs.limits.LIMIT", 3)
    environment = recipe(f"{PROBE}Endless-v0", "modern").build()
    environment.reset(0)
    action = np.zeros(1, np.float32)
    assert [environment.step(action).truncated for _ in range(3)] == [False, False, True]


def test_an_endless_task_is_evaluated_and_its_limit_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr("bires.envs.limits.LIMIT", 7)
    done = typed(
        "train", f"{PROBE}Endless-v0", *SMALL, "--batch", "8", "--workers", "0", "--out", str(tmp_path / "run")
    )
    assert done.returncode == 0, done.stderr
    assert f"is cut after {LIMIT} steps. Register it with max_episode_steps=…" in done.stderr
    rows = (tmp_path / "run" / "evaluations.csv").read_text().splitlines()
    assert [row.split(",")[6] for row in rows[1:]] == ["0", "0"]
    assert [row.split(",")[7] for row in rows[1:]] == ["7", "7"]
