"""When checkpoints are written: seldom, where they would take much of a run's time, and always where they must be."""

import shutil
from types import SimpleNamespace

import numpy as np
import pytest

import bires
from bires.runs.checkpoint import Store
from bires.settings.keywords import make_config
from bires.settings.options import Options, Stopped
from bires.training import loop
from bires.training.launch import begin_or_continue
from tests.environments import Slides
from tests.helpers import PROBE, assert_same_moment, configured, contents

BETWEEN_S, WRITING_S = 30.0, 2.0
"""From one evaluation to the next, and for a checkpoint: each second evaluation has one."""


@pytest.fixture
def written(monkeypatch):
    """The steps of checkpoints that were written, by a clock that only evaluations and checkpoints move."""
    clock, steps = SimpleNamespace(now=0.0), list[int]()
    evaluate, save = loop.TrainingLoop._evaluate, Store.save

    def evaluated(run, stop):
        clock.now += BETWEEN_S
        evaluate(run, stop)

    def saved(store, checkpoint):
        clock.now += WRITING_S
        steps.append(checkpoint.step)
        save(store, checkpoint)

    monkeypatch.setattr(loop, "CHECKPOINT_SHARE", 0.05)
    monkeypatch.setattr(loop, "time", SimpleNamespace(monotonic=lambda: clock.now))
    monkeypatch.setattr(loop.TrainingLoop, "_evaluate", evaluated)
    monkeypatch.setattr(Store, "save", saved)
    return steps


@pytest.fixture
def config(quick):
    return configured(quick, steps=70, eval_every=10, seeds=2)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [0, 20, 40, 60, 70]),
        ({"keep_every": 30}, [0, 20, 30, 50, 60, 70]),
        ({"checkpoint_minutes": 0.5}, [0, 10, 20, 30, 40, 50, 60, 70]),
        ({"callback": lambda evaluation: 1 if evaluation.step == 10 else None}, [0, 10, 30, 50, 70]),
    ],
    ids=["as-they-pay", "kept", "by-the-clock", "a-member-was-stopped"],
)
def test_checkpoints_at_evaluations_take_a_small_part_of_the_time(tmp_path, written, config, options, expected):
    begin_or_continue(config, tmp_path / "run", Options(workers=0, **options))
    assert written == expected


def test_a_run_killed_after_evaluations_without_a_checkpoint_ends_as_if_undisturbed(tmp_path, written, config):
    """Their rows are cut off and written again, and the callback is called again."""
    calm, killed, called = tmp_path / "calm", tmp_path / "killed", list[int]()
    begin_or_continue(config, calm, Options(workers=0))

    def kill(step: int) -> None:
        if step == 40:
            raise RuntimeError("killed")

    def note(evaluation: bires.Evaluation) -> None:
        called.append(evaluation.step)

    with pytest.raises(RuntimeError, match="killed"):
        begin_or_continue(config, killed, Options(workers=0, tick=kill, callback=note))
    assert Store(killed).steps() == [20, 0]
    assert "\n1,30," in (killed / "evaluations.csv").read_text()
    begin_or_continue(config, killed, Options(workers=0, callback=note))
    assert called == [0, 10, 20, 30, 30, 40, 50, 60, 70]
    assert contents(calm) == contents(killed)
    assert_same_moment(calm, killed, 50)


def test_a_task_that_changed_before_a_resume_is_noticed(tmp_path, quick, monkeypatch):
    quick.pop("quiet")
    config = make_config(PROBE + "Slides-v0", quick | {"steps": 70, "eval_every": 10, "seeds": 2})
    stopped, path, warned = tmp_path / "stopped", tmp_path / "run", list[str]()
    reached = [0]
    monkeypatch.setattr(loop, "STRIDE", 1)
    monkeypatch.setattr(loop, "ROUND_S", 0.0)
    with pytest.raises(Stopped):
        begin_or_continue(config, stopped, Options(workers=0, tick=reached.append), stop=lambda: reached[-1] > 42)
    shutil.copytree(stopped, path)
    assert Store(path).steps()[0] == reached[-1]
    begin_or_continue(config, path, Options(workers=0, warn=warned.append))
    assert bires.load(path).manifest["exact"]
    assert not any("changed since" in text for text in warned)
    shutil.rmtree(path)
    shutil.copytree(stopped, path)
    monkeypatch.setattr(Slides, "observe", lambda self, value: np.array([self.steps + 0.5], np.float32))
    begin_or_continue(config, path, Options(workers=0, warn=warned.append))
    assert any("seed and actions gave 2 of 2 members another observation" in text for text in warned)
    assert bires.load(path).manifest["exact"] is False
    assert bires.load(path).finished
