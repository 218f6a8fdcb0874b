"""Studies as a user runs them: killed, continued, planned, and refused where another run is."""

import io
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from rich.console import Console

import bires
from bires.cli.reproducing import costs_table
from bires.errors import UserError
from bires.runs.run import Run
from bires.settings.config import Config
from bires.settings.keywords import make_config
from bires.settings.options import Options
from bires.studies import estimate, plan
from bires.studies.records import STUDIES
from bires.studies.reporting import study_of
from bires.studies.reproducing import Request, as_command
from bires.studies.run import unfinished
from bires.training.plan import make_plan
from tests.helpers import TASK, command, typed
from tests.synthetic import make_run


def words(out: Path) -> list[str]:
    """One task after the other."""
    study = ["reproduce", "mujoco", "--scale", "smoke", "--task", "Hopper", "Swimmer", "--seeds", "1", "--at-once", "1"]
    return [*study, "--out", str(out)]


@pytest.mark.slow
def test_a_killed_study_does_only_what_is_missing(tmp_path):
    out = tmp_path / "study"
    process = subprocess.Popen([sys.executable, "-m", "bires", *words(out)], stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 240
    while not (out / "Swimmer" / "manifest.json").exists():  # Hopper is finished, Swimmer has just begun
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert Run(out / "Hopper").finished
    assert not Run(out / "Swimmer").finished
    untouched = {path: path.stat().st_mtime_ns for path in (out / "Hopper").rglob("*") if path.is_file()}

    again = command(*words(out))
    assert again.returncode == 0, again.stderr
    assert "Swimmer: done" in again.stdout
    assert "Hopper: done" not in again.stdout
    assert Run(out / "Swimmer").finished
    assert {path: path.stat().st_mtime_ns for path in untouched} == untouched
    made = {path.name for path in (out / "report-mujoco").iterdir()}
    assert {"report.html", "curves.png", "curves.svg", "curves.pdf", "summary.csv", "auc.png"} <= made

    first = (out / "report-mujoco" / "summary.csv").read_bytes()
    third = command(*words(out))
    assert third.returncode == 0
    assert ": done" not in third.stdout
    assert (out / "report-mujoco" / "summary.csv").read_bytes() == first


@pytest.mark.slow
@pytest.mark.parametrize("study", ["auc", "variants"])
def test_smoke_makes_every_output(study, tmp_path):
    done = command("reproduce", study, "--scale", "smoke", "--quiet", "--out", str(tmp_path / "out"), timeout=600)
    assert done.returncode == 0, done.stderr
    made = {path.name for path in (tmp_path / "out" / "report").iterdir()}
    figures = {"curves.png", "auc.pdf"} if study == "auc" else {"variants.png", "variants.pdf"}
    assert {"report.html", "summary.csv", "claims.csv"} | figures <= made


@pytest.mark.slow
def test_a_dry_run_measures_and_runs_nothing(tmp_path):
    done = command(*words(tmp_path / "out"), "--dry-run", env=os.environ | {"COLUMNS": "140"})
    assert done.returncode == 0, done.stderr
    assert "0 of 2 populations are finished" in done.stdout
    assert "Swimmer" in done.stdout
    assert "all" in done.stdout
    assert not (tmp_path / "out").exists()


def test_a_dry_run_shows_whole_names_on_a_terminal_of_80_columns():
    jobs = Request("successors", scale="laptop").jobs()
    rows = [estimate.Cost(job, 10, 500_000, 440_000, 120_000_000, 760.0) for job in jobs]
    text = io.StringIO()
    Console(file=text, width=80).print(costs_table("left", rows, 80))
    shown = text.getvalue()
    assert "finger-spin-sac-" in shown
    assert "walker-run-sa │" not in shown
    assert shown.count("0:12:40") == len(rows)
    assert "3:22:40" in shown


def test_a_population_with_learned_models_can_be_timed(monkeypatch):
    monkeypatch.setattr(estimate, "SECONDS", 0.01)
    given = {"algorithm": "mve-ddpg", "model": "learned", "model_scale": "small", "ensemble": 1, "horizon": 12}
    config = make_config(TASK, given | {"batch": 8, "hidden": (16, 16)})
    assert estimate.population_step_seconds(make_plan(config, Options())) > 0.0


@pytest.mark.parametrize(
    ("given", "answer"),
    [
        (["reproduce", "auk"], "Did you mean 'auc'"),
        (["reproduce", "mujoco", "--task", "Hoper"], "Did you mean 'Hopper'"),
        (["reproduce", "auc", "--scale", "large"], "smoke"),
        (["reproduce", "auc", "--steps", "0"], "--steps was given 0; accepted: whole numbers from 1"),
        (["reproduce", "auc", "--steps", "500"], "--warmup 10000 leaves nothing to learn"),
        (["report"], "RUN"),
        (["report", "nowhere"], "is not a run folder"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_input_is_refused(given, answer, tmp_path):
    done = typed(*given, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert answer in done.stderr + done.stdout


def test_a_folder_with_other_settings_is_refused_before_anything_runs(tmp_path):
    jobs = plan.jobs("mujoco", "smoke", tmp_path, {})
    make_run(tmp_path / "Hopper", Config("Hopper", steps=400, warmup=10, eval_every=100))
    with pytest.raises(UserError, match=r"another configuration(.|\n)*--steps: 400 there, 200 now"):
        unfinished(jobs)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["Hopper"]


def test_python_reproduces_a_study_as_the_command_does(tmp_path):
    """Its population is there already, so that only the report is made."""
    out = tmp_path / "my runs"
    request = Request("mujoco", "smoke", ("Hopper",), {"seeds": 2}, out)
    [job] = request.jobs()
    before = list(sys.argv)
    with as_command(request):
        made = make_run(job.path, job.config)
    assert sys.argv == before
    assert shlex.split(made.manifest["command"])[-2:] == ["--out", str(out)], "it can be typed again"
    assert study_of(made) == "mujoco", "a later report knows what the run was made for"
    found = bires.reproduce("mujoco", scale="smoke", task="Hopper", seeds=2, out=out, quiet=True)
    assert [run.path for run in found.runs] == [job.path]
    assert isinstance(found.runs[0], bires.Run)
    assert found.path == out / "report-mujoco" / "report.html"
    assert found.path.is_file()
    assert len(found.claims) == len(STUDIES["mujoco"].claims)
    assert set(found.claims["answer"]) <= {"yes", "no", "open", "not measured", "–"}
    assert request.command() in found.path.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"study": "linear", "steps": 10}, "^steps was given; the study linear takes scale and out alone"),
        ({"study": "auk"}, "Did you mean 'auc'"),
        ({"study": "auc", "scale": "tiny"}, "^scale was given 'tiny'; accepted: smoke, laptop, small, paper"),
        ({"study": "auc", "task": "Pendulum-v1"}, "Unknown task of this study"),
        ({"study": "auc", "ray": "local", "minutes": 3}, "^Both ray and minutes=3 were given"),
        ({"study": "auc", "seeds": 0}, "seeds=0|seeds was given 0"),
    ],
)
def test_python_refuses_what_the_command_refuses(arguments, message, tmp_path):
    with pytest.raises(UserError, match=message):
        bires.reproduce(out=tmp_path / "out", **arguments)
    assert not (tmp_path / "out").exists()
