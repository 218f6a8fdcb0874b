"""Several populations at once: each as if alone, none stopped by another, all stopped in order."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import psutil
import pytest

from bires.errors import UserError
from bires.runs import lock
from bires.runs.checkpoint import Store
from bires.runs.run import Run
from bires.settings.keywords import changed
from bires.settings.options import Options
from bires.studies import capacity, estimate, plan, together
from bires.studies.capacity import Machine
from bires.studies.plan import Job
from bires.studies.progress import ProgressBoard, last_step
from bires.studies.reproducing import Request
from bires.studies.run import StudyStopped, fill
from bires.studies.together import at_once
from bires.training.display import Display
from tests.helpers import contents
from tests.synthetic import PAIR, make_run

TASKS = ("Hopper", "Swimmer")


def study(out: Path, tasks=TASKS, **more) -> list[plan.Job]:
    return [job for job in plan.jobs("mujoco", "smoke", out, {"seeds": 1, **more}) if job.config.task in tasks]


def test_two_populations_at_once_equal_each_alone_and_a_failing_one_stops_no_other(tmp_path, capsys, monkeypatch):
    broken = study(tmp_path / "both", ("Walker2d",))[0]
    broken.path.parent.mkdir(parents=True)
    broken.path.write_text("no folder")  # a file where its run folder should be
    outcome = fill([broken, *study(tmp_path / "both")], Options(), Display(), at_once(2, None))
    said = capsys.readouterr().out
    assert list(outcome.failures) == [broken.path]
    assert "Walker2d: cannot run; the others go on" in said
    assert "3 populations, 2 at a time" in said
    assert [run.config.task for run in outcome.runs] == list(TASKS)
    assert all(run.finished for run in outcome.runs)
    assert not list((tmp_path / "both").glob("*.log"))
    (alone,) = study(tmp_path / "alone", ("Hopper",))
    monkeypatch.setenv("BIRES_CORES", "1")
    fill([alone], Options(), Display(), at_once(1, None))
    assert "1 population, 1 at a time with 1 of 1 cores each" in capsys.readouterr().out
    assert contents(alone.path) == contents(tmp_path / "both" / "Hopper")


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_a_stopped_or_killed_study_leaves_checkpoints_and_no_process(tmp_path, how):
    out = tmp_path / "study"
    words = ["reproduce", "mujoco", "--scale", "smoke", "--seeds", "1", "--steps", "100000", "--task", *TASKS]
    words += ["--at-once", "2", "--out", str(out)]
    process = subprocess.Popen([sys.executable, "-m", "bires", *words], stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 240
    while min(last_step(out / task / "metrics.csv") for task in TASKS) <= 0:
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.1)
    family = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(how)
    _, errors = process.communicate(timeout=120)
    if how == signal.SIGTERM:
        assert process.returncode == 3, errors
        assert "stopped with 0 of 2 populations done" in errors
        assert "`bires reproduce mujoco --scale smoke --task Hopper Swimmer --seeds 1 --steps 100000 --out" in errors
    gone, alive = psutil.wait_procs(family, timeout=60)
    assert gone
    assert not alive
    for task in TASKS:
        assert Store(out / task).steps()[0] > 0, "it wrote a checkpoint before it ended"
        assert not lock.owner(out / task)
        assert not Run(out / task).finished


@pytest.mark.slow
def test_a_lost_process_goes_on_from_its_checkpoint(tmp_path, monkeypatch):
    (job,) = study(tmp_path, ("Swimmer",), steps=900, eval_every=300)
    monkeypatch.setattr(together, "LOOK_S", 0.05)
    scheduler: list[together.Running] = []
    launch = together.PopulationScheduler._launch

    def watched(self, job):
        one = launch(self, job)
        scheduler.append(one)
        return one

    follow = ProgressBoard.follow

    def killing(self, job):
        follow(self, job)
        if len(scheduler) == 1 and max(Store(job.path).steps(), default=0) > 0:
            scheduler[0].process.kill()

    monkeypatch.setattr(together.PopulationScheduler, "_launch", watched)
    monkeypatch.setattr(ProgressBoard, "follow", killing)
    outcome = fill([job], Options(), Display(quiet=True), at_once(1, None))
    assert not outcome.failures
    assert outcome.runs[0].finished
    assert len(scheduler) == 2


def test_a_population_that_would_not_end_within_the_minutes_is_not_begun(tmp_path, monkeypatch):
    """One population is under way at a known pace; a long one is not begun beside it."""
    short, long = study(tmp_path, ("Swimmer",))[0], study(tmp_path, ("Hopper",), steps=50_000_000)[0]
    monkeypatch.setattr(together.PopulationScheduler, "_pace", lambda self, one: 100.0)
    monkeypatch.setattr(together, "look_at_machine", lambda: Machine("cpu", 1, 8 * 10**9))
    with pytest.raises(StudyStopped, match="1 of 2 populations done"):
        fill([short, long], Options(), Display(quiet=True), at_once(1, 3.0))
    assert Run(short.path).finished
    assert not long.started


@pytest.mark.parametrize(("seconds", "late"), [(500, True), (700, False)])
def test_a_population_that_has_more_of_the_machine_soon_is_begun(monkeypatch, seconds, late):
    """Seven others make 35 000 agent-steps/s and have 1.4 of 5 million left each: the eighth has 5 at up to 8000/s."""

    def job(step):
        return SimpleNamespace(config=SimpleNamespace(steps=500_000), members=10, step=step, finished=False)

    others: Any = [SimpleNamespace(job=job(360_000)) for _ in range(7)]
    quiet = Display(quiet=True)
    scheduler = together.PopulationScheduler(
        Machine("gpu", 16, 1), 8, Options(), quiet, deadline=time.monotonic() + seconds
    )
    scheduler.running, scheduler.paces = others, [8_000.0]
    monkeypatch.setattr(together.PopulationScheduler, "_pace", lambda self, one: 5_000.0)
    monkeypatch.setattr(together.PopulationScheduler, "_step", lambda self, one: one.job.step)
    asked: Any = job(0)
    assert scheduler._too_late(asked) == late


def test_a_population_that_had_only_its_end_left_says_nothing_of_the_pace(tmp_path):
    """It had taken all of its steps before: here it was evaluated for the last time."""
    made = make_run(tmp_path / "run", PAIR)
    done, job = Job(PAIR, made.path), Job(changed(PAIR, task="walker-run"), tmp_path / "other")
    scheduler = together.PopulationScheduler(
        Machine("cpu", 2, 1), 1, Options(), Display(quiet=True), deadline=time.monotonic() + 60
    )
    scheduler.board = ProgressBoard(scheduler.display, [done, job])
    lifeline, (replies, answer), process = os.open(os.devnull, os.O_RDONLY), os.pipe(), cast(Any, None)
    os.write(answer, b"{}")
    os.close(answer)
    one = together.Running(done, process, lifeline, replies, time.monotonic() - 5.0, PAIR.steps)
    scheduler.running = [one]
    scheduler._end(one, [])
    assert not scheduler._too_late(job)


def test_tasks_are_run_in_the_order_in_which_they_are_named(tmp_path):
    named = ("walker-walk", "Hopper", "acrobot-swingup")
    assert [job.config.task for job in Request("auc", tasks=named, out=tmp_path).jobs()] == list(named)


def test_what_does_not_fit_beside_others_waits(tmp_path, monkeypatch):
    jobs = study(tmp_path)
    monkeypatch.setattr(estimate, "memory", lambda job: 6 * 10**9)
    monkeypatch.setattr(together.PopulationScheduler, "_launch", lambda self, job: SimpleNamespace(job=job))
    for memory, begun in ((10 * 10**9, 1), (20 * 10**9, 2)):
        scheduler = together.PopulationScheduler(Machine("cpu", 2, memory), 2, Options(), Display(quiet=True), None)
        waiting = list(jobs)
        scheduler._begin(waiting, [])
        assert [one.job for one in scheduler.running] == jobs[:begun]
        assert waiting == jobs[begun:]


@pytest.mark.parametrize(("count", "minutes", "match"), [(0, None, "--at-once was given 0"), (1, -1.0, "--minutes")])
def test_impossible_numbers_are_refused(count, minutes, match):
    with pytest.raises(UserError, match=match):
        at_once(count, minutes)


def test_the_default_number_at_once_follows_cores_and_gpus():
    variables = {"CUDA_MPS_PIPE_DIRECTORY": "there"}
    assert [capacity.default_count(Machine("cpu", cores, 1), 10) for cores in (2, 10, 16, 64)] == [1, 1, 2, 7]
    assert capacity.default_count(Machine("cpu", 16, 1), 1) == 16
    assert capacity.default_count(Machine("gpu", 16, 1, variables), 10) == 8
    assert capacity.default_count(Machine("gpu", 16, 1), 10) == 1, "without MPS programs only take turns"
    assert capacity.cores_each(Machine("gpu", 16, 1, variables), 6) == 3


def test_a_run_whose_table_is_empty_is_at_its_beginning(tmp_path):
    """As a full disk may leave it."""
    (job, *_) = plan.jobs("mujoco", "smoke", tmp_path, {})
    job.path.mkdir(parents=True)
    (job.path / "evaluations.csv").write_text("")
    assert job.step == 0
