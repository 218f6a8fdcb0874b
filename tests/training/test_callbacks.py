"""Callbacks: what they are told, what they may do, and that a killed run ends as an undisturbed one."""

from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import bires
from bires.analysis.curves import collect
from bires.errors import UserError
from bires.settings.options import Options, Stopped
from bires.training import loop
from bires.training.callbacks import to_stop
from bires.training.launch import begin_or_continue
from tests.helpers import asked, assert_same_moment, configured, contents, typed

TASK = "pendulum-swingup"
GRID = {"seed": [0, 1, 2], "eval_every": 10, "steps": 60, "warmup": 20}


def second_at_20(evaluation):
    return [1] if evaluation.step == 20 else None


def all_at_40(evaluation):
    return evaluation.step < 40


def broken(evaluation):
    raise ZeroDivisionError("mine")


def test_a_callback_sees_each_evaluation(quick, tmp_path):
    seen: list[bires.Evaluation] = []
    run = bires.train(TASK, out=tmp_path / "run", **quick | {"seed": [4, 5], "callback": seen.append})
    assert [one.step for one in seen] == [0, 30, 60]
    assert {one.steps for one in seen} == {60}
    last, table = seen[-1], run.evaluations
    assert [member.seed for member in last.members.values()] == [4, 5]
    assert list(last.returns.values()) == pytest.approx(table["return_mean"][table["step"] == 60], rel=1e-8)
    assert last.metrics[1]["q_mean"] == pytest.approx(table["q_mean"][-1], rel=1e-8)
    assert last.run.path == tmp_path / "run"
    assert run.manifest["callback"].endswith("append")


def test_a_stopped_member_is_frozen_and_the_others_do_not_notice(quick, tmp_path, undisturbed):
    calm = bires.load(undisturbed(TASK, **GRID))
    run = bires.train(TASK, out=tmp_path / "run", **quick | GRID | {"callback": second_at_20, "workers": 0})
    assert run.finished
    assert run.members["status"].tolist() == ["finished", "stopped", "finished"]
    assert run.members["stopped_at"].tolist()[1] == 20
    rows, all_rows = run.evaluations, calm.evaluations
    assert rows["step"][rows["member"] == 1].tolist() == [0, 10, 20]
    for member in (0, 2):
        mine, theirs = rows["return_mean"][rows["member"] == member], all_rows["member"] == member
        assert mine.tolist() == all_rows["return_mean"][theirs].tolist()
    assert run.metrics["step"][run.metrics["member"] == 1].max() == 20
    assert [run.policy(member).about["step"] for member in range(3)] == ["60", "20", "60"]
    assert run.evaluate(episodes=1, workers=0)["step"].tolist() == [60, 20, 60]
    [kind] = collect([run])[0].kinds
    assert kind.steps[-1] == 60
    assert kind.returns[1, -1] == rows["return_mean"][rows["member"] == 1][-1]
    assert (kind.diverged, kind.stopped) == (0, 1)
    assert run.summary()["stopped"].tolist() == [1]
    assert run.evaluate(episodes=1, member=1)["return_mean"].shape == (1,)


@pytest.mark.parametrize("callback", [second_at_20, all_at_40])
def test_a_run_that_was_stopped_anywhere_ends_as_an_undisturbed_one(quick, tmp_path, callback, monkeypatch):
    monkeypatch.setattr(loop, "STRIDE", 1)  # a look at `stop` before every step
    monkeypatch.setattr(loop, "ROUND_S", 0.0)
    config = configured(quick, TASK, **GRID)
    calls: list[int] = []

    def counted(evaluation):
        calls.append(evaluation.step)
        return callback(evaluation)

    options = Options(workers=0, cohorts="threads", callback=counted)
    begin_or_continue(config, tmp_path / "straight", options)
    undisturbed = list(calls)
    calls.clear()
    for looks in (13, 19):  # to step 14, and on to step 34
        with pytest.raises(Stopped):
            begin_or_continue(config, tmp_path / "stopped", options, stop=partial(asked, iter(range(99)), looks))
    begin_or_continue(config, tmp_path / "stopped", options)
    assert calls == undisturbed, "each evaluation is told once"
    assert contents(tmp_path / "straight") == contents(tmp_path / "stopped")
    assert_same_moment(tmp_path / "straight", tmp_path / "stopped", 50)


def test_false_ends_the_run(quick, tmp_path):
    settings = quick | GRID | {"callback": all_at_40, "workers": 0}
    run = bires.train(TASK, out=tmp_path / "run", **settings)
    assert run.finished
    assert set(run.members["status"]) == {"stopped"}
    assert run.evaluations["step"].max() == 40
    again = bires.train(TASK, out=tmp_path / "run", **settings)
    assert again.evaluations["step"].max() == 40
    with pytest.raises(UserError, match="no member that can go on"):
        bires.resume(run, steps=90)


def test_numpys_answers_are_answers():
    """As of `np.mean(…) < 0`, the usual way to write it."""
    seen: Any = SimpleNamespace(members={0: None, 2: None})
    assert to_stop(lambda evaluation: np.bool_(True), seen, 3) == []
    assert to_stop(lambda evaluation: np.bool_(False), seen, 3) == [0, 2]
    assert to_stop(lambda evaluation: np.array([2]), seen, 3) == [2]


def test_stopped_members_stay_so_in_a_longer_run(quick, tmp_path):
    bires.train(TASK, out=tmp_path / "run", **quick | GRID | {"callback": second_at_20, "workers": 0})
    longer = bires.resume(tmp_path / "run", steps=80, workers=0, quiet=True)
    assert longer.members["status"].tolist() == ["finished", "stopped", "finished"]
    assert longer.evaluations["step"].max() == 80


def test_members_in_other_processes_are_stopped_too(quick, tmp_path, split):
    """The function is of this test, so that no other process could have imported it."""
    settings = quick | GRID | {"cohorts": "processes"}
    run = bires.train(TASK, out=tmp_path / "run", callback=lambda one: [0, 2] if one.step == 30 else (), **settings)
    assert run.members["status"].tolist() == ["stopped", "finished", "stopped"]


def saying(answer):
    return lambda evaluation: answer if evaluation.step else None


def test_an_answer_that_means_nothing_is_refused(quick, tmp_path):
    wrong = {"accepted: None": ("all", 0.5, [True]), "member 0 alone": (7,)}
    for message, answer in ((message, answer) for message, answers in wrong.items() for answer in answers):
        with pytest.raises(UserError, match=message):
            bires.train(TASK, out=tmp_path / "run", callback=saying(answer), **quick)
    assert bires.resume(tmp_path / "run", workers=0, quiet=True).finished, "nothing was lost"


def test_what_a_callback_raises_reaches_the_caller(quick, tmp_path):
    with pytest.raises(ZeroDivisionError, match="mine"):
        bires.train(TASK, out=tmp_path / "run", callback=broken, **quick)
    with pytest.raises(UserError, match="callback was given 3"):
        bires.train(TASK, out=tmp_path / "run", callback=3, **quick)  # type: ignore[arg-type]


def test_the_command_line_finds_a_callback_by_its_name(tmp_path):
    words = [TASK, "--steps", "60", "--warmup", "20", "--eval-every", "20", "--eval-episodes", "1"]
    words += ["--hidden", "16", "16", "--batch", "8", "--workers", "0", "--out", str(tmp_path / "run")]
    said = typed("train", *words, "--seeds", "2", "--callback", "tests.training.test_callbacks:second_at_20")
    assert said.returncode == 0, said.stderr
    assert "2 (1 stopped)" in said.stdout
    run = bires.load(tmp_path / "run")
    assert run.members["status"].tolist() == ["finished", "stopped"]
    assert run.manifest["callback"] == "tests.training.test_callbacks:second_at_20"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("follow", "MODULE:FUNCTION"),
        ("tests.training.test_callbacks:second_at_2", "tests.training.test_callbacks:second_at_20"),
        ("no_such_module:f", "cannot be imported"),
        ("tests.training.test_callbacks:broken", "ZeroDivisionError: mine"),
    ],
)
def test_a_callback_that_cannot_be_used_is_the_users_error(tmp_path, name, message):
    said = typed(
        *("train", TASK, "--steps", "60", "--warmup", "20", "--hidden", "16", "16", "--eval-episodes", "1"),
        *("--workers", "0", "--quiet", "--out", str(tmp_path / "run"), "--callback", name),
    )
    assert said.returncode == 2
    assert message in said.stderr
