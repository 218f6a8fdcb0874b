"""One command on several tasks: a run for each."""

import json
import shutil
import signal
import subprocess
import sys
import time
from typing import Any

import numpy as np
import pytest

import bires
from bires.cli.flags import one_task_each
from bires.settings.values import flag
from tests.helpers import contents, typed

TASKS = ("Pendulum-v1", "InvertedPendulum-v5")
SETTINGS: dict[str, Any] = {"steps": 60, "warmup": 20, "eval_every": 30, "eval_episodes": 1, "batch": 8}
SETTINGS |= {"hidden": (16, 16), "log_every": 10}
FLAGS = [word for name, value in SETTINGS.items() for word in (flag(name), *map(str, np.atleast_1d(value)))]


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    """A comparison on two tasks, and what was said."""
    out = tmp_path_factory.mktemp("several") / "runs"
    return out, typed("compare", *TASKS, *FLAGS, "--seeds", "2", "--at-once", "2", "--out", str(out))


def test_every_task_has_a_run_and_all_of_them_are_summed_up(compared):
    out, said = compared
    assert said.returncode == 0, said.stderr
    for task in TASKS:
        run = bires.load(out / task)
        assert (run.config.task, run.finished, run.members.height) == (task, True, 4)
        assert (out / task / "curves.png").exists()
        assert f"{task}, 60 steps" in said.stdout
    assert "all (2)" in said.stdout
    assert f"bires report {out}" in said.stdout.replace("\n", "")


def test_the_same_command_again_trains_nothing_and_shows_the_same(compared):
    out, _ = compared
    before = [contents(out / task) for task in TASKS]
    again = typed("compare", *TASKS, *FLAGS, "--seeds", "2", "--out", str(out), "--json")
    assert again.returncode == 0
    done = [json.loads(line) for line in again.stdout.splitlines() if '"done"' in line]
    assert [one["run"] for one in done] == [str(out / task) for task in TASKS]
    assert [contents(out / task) for task in TASKS] == before


def test_the_folder_of_several_runs_is_not_one_of_them(compared):
    out, _ = compared
    said = typed("resume", str(out))
    assert said.returncode == 2
    assert "It holds runs (InvertedPendulum-v5, Pendulum-v1): give one of them" in said.stderr


def test_python_makes_the_same_runs(compared, tmp_path):
    out, _ = compared
    algorithms = ["ddpg", "bi-res-ddpg"]
    runs = bires.train_each(TASKS, algorithm=algorithms, seeds=2, out=tmp_path / "x", quiet=True, **SETTINGS)
    assert [contents(run.path) for run in runs] == [contents(out / task) for task in TASKS]
    assert bires.report(runs, out=tmp_path / "report").totals.height > 0


def test_one_that_cannot_run_stops_no_other_and_is_said_at_the_end(compared, tmp_path):
    out, _ = compared
    shutil.copytree(out / TASKS[0], tmp_path / "x" / TASKS[0])
    (tmp_path / "x" / TASKS[1]).write_text("a file where its run folder should be")
    said = typed("compare", *TASKS, *FLAGS, "--seeds", "2", "--out", str(tmp_path / "x"))
    assert said.returncode == 2
    assert "1 of the runs could not be made" in said.stderr
    assert f"{TASKS[0]}, 60 steps" in said.stdout


def test_a_stop_lets_all_of_them_go_on(tmp_path):
    long = [*FLAGS, "--steps", "200000", "--out", str(tmp_path / "x"), "--at-once", "2"]
    with subprocess.Popen([sys.executable, "-m", "bires", "train", *TASKS, *long], stderr=subprocess.PIPE) as running:
        while not all((tmp_path / "x" / task / "checkpoints").exists() for task in TASKS):
            assert running.poll() is None
            time.sleep(0.1)
        running.send_signal(signal.SIGTERM)
        said = running.communicate(timeout=120)[1].decode()
    assert running.returncode == 3
    assert "0 of 2 populations done; the same command goes on" in said
    assert all(bires.load(tmp_path / "x" / task).evaluations.height for task in TASKS)


@pytest.mark.parametrize(
    ("words", "match"),
    [
        (("train", "Hopper", "Hopper"), "Hopper was named twice"),
        (("train", "Hopper", "Hoper"), "Hopper"),
        (("train", "Pendulum-v1", "CartPole-v1", "--algorithm", "ddpg"), "CartPole-v1' has 2 discrete actions"),
        (("tune", "Hopper", "Swimmer"), "bires tune Hopper"),
        (("train", "Hopper", "--at-once", "2"), "--at-once was given with one task"),
        (("train", "Hopper", "--minutes", "2"), "--minutes was given with one task"),
        (("train", "Hopper", "Swimmer", "--at-once", "0"), "--at-once was given 0"),
        (("train", "Hopper", "Swimmer", "--callback", "nowhere:follow"), "nowhere"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_begun(tmp_path, words, match):
    said = typed(*words, "--out", str(tmp_path / "x"))
    assert said.returncode == 2
    assert match in said.stderr
    assert not (tmp_path / "x").exists()


def test_a_run_of_one_task_is_no_place_for_several(copied):
    run = copied()
    said = typed("train", *TASKS, *FLAGS, "--out", str(run.path))
    assert said.returncode == 2
    assert "is a run of one task" in said.stderr


@pytest.mark.parametrize(
    ("tasks", "more", "match"),
    [
        ("Hopper", {}, "tasks was given 'Hopper'"),
        ([], {}, "tasks was given no name"),
        (["Hopper"], {"callback": print}, "callback was given"),
        (["Hopper"], {"stepz": 3}, "stepz"),
    ],
)
def test_python_refuses_in_its_own_words(tmp_path, tasks, more, match):
    with pytest.raises(bires.UserError, match=match):
        bires.train_each(tasks, out=tmp_path / "x", **more)


def test_text_among_the_arguments_of_environments_is_trusted_as_it_was_typed(tmp_path, elsewhere):
    """The process that follows the runs reads their folders, too."""
    made = "def one(name):\n    assert name == 'flat'\n    return gymnasium.make('Pendulum-v1')\n"
    (elsewhere / "named_worlds.py").write_text(f"import gymnasium\n\n\n{made}\n\ntwo = one\n")
    tasks = (f"named_worlds:{name}" for name in ("one", "two"))
    runs = bires.train_each(tasks, env_kwargs={"name": "flat"}, out=tmp_path / "x", quiet=True, **SETTINGS)
    assert [run.finished for run in runs] == [True, True]


def test_only_words_before_the_flags_are_tasks():
    assert one_task_each(["train", "a", "b", "--hidden", "8", "8"]) == [
        ["train", "a", "--hidden", "8", "8"],
        ["train", "b", "--hidden", "8", "8"],
    ]
    for words in (["train", "a", "--algorithm", "td3", "sac"], ["train", "--help"], ["report", "a", "b"], []):
        assert one_task_each(words) == [words]
