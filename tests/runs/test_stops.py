"""A run that is asked to stop: also in the middle of an evaluation, at once and without a trace."""

import signal
import subprocess
import sys
import time

import pytest

from bires.runs.checkpoint import Store
from bires.settings.keywords import make_config
from bires.settings.options import Options, Stopped
from bires.training.launch import begin_or_continue
from tests.helpers import PROBE, assert_same_state, contents

LIMIT = {"steps": 60, "warmup": 20, "eval_every": 30, "batch": 8, "replay": 50, "hidden": (16, 16), "log_every": 10}


def in_evaluation(out, step):
    """For `stop=`: yes in the evaluation of that step, until its checkpoint is there."""

    def stop():
        rows = (out / "metrics.csv").read_text().splitlines() if (out / "metrics.csv").exists() else []
        here = int(rows[-1].split(",")[1]) if len(rows) > 1 else 0
        return here == step and step not in Store(out).steps()

    return stop


@pytest.mark.parametrize(
    ("task", "cohorts", "more", "stops"),
    [
        ("pendulum-swingup", "threads", {"seeds": 2, "eval_episodes": 2}, (0, 30, 60)),
        # the first three raise, one in each
        (f"{PROBE}Raises-v0", "threads", {"seed": (5, 10, 7, 46), "eval_episodes": 1}, (0, 30, 60)),
        pytest.param(
            "pendulum-swingup",
            "processes",
            {"seeds": 2, "eval_episodes": 40},  # long enough for a message
            (30,),
            marks=pytest.mark.slow,
        ),
    ],
    ids=["threads", "raising", "processes"],
)
def test_a_run_stopped_in_an_evaluation_ends_as_an_undisturbed_one(
    tmp_path, split, monkeypatch, task, cohorts, more, stops
):
    """Also in the first and in the last one, and where environments raise in evaluations."""
    monkeypatch.setattr("bires.training.evaluation.LOOK_S", 0.0)
    config, out = make_config(task, LIMIT | more), tmp_path / "stopped"
    begin_or_continue(config, tmp_path / "calm", Options(workers=0, cohorts=cohorts))
    for step in stops:
        with pytest.raises(Stopped) as error:
            begin_or_continue(config, out, Options(workers=0, cohorts=cohorts), in_evaluation(out, step))
        assert error.value.step == Store(out).steps()[0] == step
        evaluated = (out / "evaluations.csv").read_text().splitlines()[1:]
        assert not [row for row in evaluated if int(row.split(",")[1]) == step]
    begin_or_continue(config, out, Options(workers=0, cohorts=cohorts))
    assert contents(out) == contents(tmp_path / "calm")
    assert_same_state(out, tmp_path / "calm")


@pytest.mark.parametrize("more", [["--workers", "0"], ["--cohorts", "processes", "--seeds", "2"]], ids=str)
def test_sigterm_in_a_long_evaluation_is_noticed_within_two_seconds(tmp_path, more):
    words = ["train", f"{PROBE}Endless-v0", "--out", str(tmp_path / "run"), "--eval-episodes", "2", "--steps", "40"]
    words += ["--warmup", "20", "--batch", "8", "--hidden", "8", "8", *more]
    line = [sys.executable, "-m", "bires", *words]
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            while not (tmp_path / "run" / "evaluations.csv").exists():
                assert process.poll() is None, process.communicate()
                time.sleep(0.05)
            time.sleep(3.0)  # by then it evaluates
            process.send_signal(signal.SIGTERM)
            asked = time.monotonic()
            _, said = process.communicate(timeout=20)
        finally:
            process.kill()
    assert process.returncode == 3, said
    assert time.monotonic() - asked < 3.0  # two, and the checkpoint
    assert "stopped at step 0" in said
    assert Store(tmp_path / "run").steps() == [0]
