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


def asked_in_evaluations(out, steps):
    """For `stop=`: says yes once in the evaluation of each of these steps, before its checkpoint is there."""
    left = list(steps)

    def stop():
        begun = (out / "metrics.csv").exists() and (out / "metrics.csv").read_text().splitlines()[-1]
        here = 0 if not begun or begun.startswith("member,") else int(begun.split(",")[1])
        if left and here == left[0] and here not in Store(out).steps():
            left.pop(0)
            return True
        return False

    return stop


@pytest.mark.parametrize(
    ("task", "cohorts"),
    [("pendulum-swingup", "threads"), ("pendulum-swingup", "processes"), (f"{PROBE}Raises-v0", "threads")],
)
def test_a_run_stopped_in_an_evaluation_ends_as_an_undisturbed_one(tmp_path, split, monkeypatch, task, cohorts):
    """Also in the first and in the last one, and where environments raise in evaluations."""
    monkeypatch.setattr("bires.training.evaluation.LOOK_S", 0.0)
    config = make_config(task, {**LIMIT, "eval_episodes": 2, "seeds": 2 if task == "pendulum-swingup" else 8})
    begin_or_continue(config, tmp_path / "calm", Options(workers=0, cohorts=cohorts))
    out = tmp_path / "stopped"
    stop = asked_in_evaluations(out, (0, 30, 60))
    stopped = []
    for _ in range(3):
        with pytest.raises(Stopped) as error:
            begin_or_continue(config, out, Options(workers=0, cohorts=cohorts), stop)
        stopped.append(error.value.step)
        assert Store(out).steps()[0] == stopped[-1]
    assert stopped == [0, 30, 60]
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
