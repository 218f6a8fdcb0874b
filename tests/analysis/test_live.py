"""Curves for viewers while a run is under way: what an export writes, and no step twice."""

import subprocess
import sys
from functools import partial

import pytest

import bires
from bires.analysis.live import Live, logging
from bires.cli import main
from bires.errors import UserError
from bires.settings.config import Config
from bires.settings.options import Options, Stopped
from bires.training.launch import begin_or_continue
from tests.analysis.test_export import events, read_events
from tests.helpers import TASK, asked, configured, typed
from tests.synthetic import make_run


def test_a_run_that_was_stopped_has_the_curves_of_its_export(quick, tmp_path, stepwise):
    config = configured(quick)
    seen: list[int] = []

    def train(stop=lambda: False):
        """As each of two processes does."""
        with logging("tensorboard") as live:
            options = Options(workers=0, cohorts="threads", log=live, callback=lambda one: seen.append(one.step))
            begin_or_continue(config, tmp_path / "run", options, stop)

    with pytest.raises(Stopped):
        train(partial(asked, iter(range(99)), 44))
    (half,) = events(tmp_path / "run" / "tensorboard").values()
    assert max(step for step, _, _ in read_events(half)) == 40, "also what came after the last evaluation"
    train()
    assert seen == [0, 30, 60], "the user's callback is called beside it"
    assert main(["export", str(tmp_path / "run"), "--out", str(tmp_path / "tb")]) == 0
    exported, logged = events(tmp_path / "tb"), events(tmp_path / "run" / "tensorboard")
    assert list(exported) == list(logged) == [f"{TASK}/bi-res-ddpg(0.05)/seed-0"]
    for name in exported:
        scalars = read_events(logged[name])
        assert len(scalars) == len({(step, tag) for step, tag, _ in scalars}), "no step twice"
        assert sorted(scalars) == sorted(read_events(exported[name]))


def test_wandb_gets_what_an_export_writes(tmp_path):
    config = Config("walker-stand", algorithm=("bi-res-ddpg",), seed=(3, 7), steps=400, warmup=10, eval_every=100)
    make_run(tmp_path / "run", config)
    code = """
from types import SimpleNamespace
from bires.analysis.live import logging
from bires.cli import main
from bires.runs.run import Run
for process in range(2):
    with logging("wandb") as live:
        for evaluation in range(2):
            live(SimpleNamespace(run=Run("run")))
assert main(["export", "run", "--to", "wandb", "--out", "exported"]) == 0
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    logged, exported = (
        {path.name: path.read_bytes().count(b"evaluation/bellman_error") for path in folder.rglob("*.wandb")}
        for folder in (tmp_path / "wandb", tmp_path / "exported")
    )
    assert len(logged) == 2
    assert logged == exported


@pytest.mark.parametrize("words", [["train", "Pendulum-v1"], ["resume", "RUN"]], ids=str)
def test_a_missing_library_is_named_before_anything_is_trained(words, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    run = make_run(tmp_path / "run", Config("walker-stand", steps=400, warmup=10, eval_every=100), upto=100)
    said = typed(*(str(run.path) if word == "RUN" else word for word in words), "--log", "wandb", cwd=tmp_path)
    assert said.returncode == 2
    assert "--log wandb needs wandb" in said.stderr
    assert "pip install 'bires[wandb]'" in said.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_python_says_it_in_its_own_words(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    with pytest.raises(UserError, match=r"^log='tensorboard' needs tensorboardX"):
        bires.train("Pendulum-v1", log="tensorboard", out=tmp_path / "run")
    with pytest.raises(UserError, match="log was given 'mlflow'; accepted: tensorboard, wandb"):
        bires.train("Pendulum-v1", log="mlflow", out=tmp_path / "run")  # type: ignore[arg-type]
    assert not (tmp_path / "run").exists()


def test_nothing_is_opened_for_a_finished_run():
    with logging(None) as nothing:
        assert nothing is None
    with logging("tensorboard") as live:
        assert isinstance(live, Live)
        assert not live.sinks
