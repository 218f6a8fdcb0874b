"""Cohorts in processes of their own: the same members, elsewhere."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import gymnasium
import psutil
import pytest

import bires
from bires.machine import hardware
from bires.rules import RULES
from bires.runs.checkpoint import Store
from bires.runs.folder import Folder
from bires.settings import grid
from bires.settings.keywords import make_config
from bires.settings.options import Options, Stopped
from bires.training.cohort import Cohort
from bires.training.launch import begin_or_continue
from bires.training.plan import make_plan
from bires.training.runners import Lost, ProcessRunner, make_runner
from tests import environments
from tests.helpers import TASK, assert_same_state, configured, contents

pytestmark = pytest.mark.usefixtures("split")
RUNS: dict[str, Any] = {
    "ddpg": (TASK, {"algorithm": ["ddpg", "bi-res-ddpg"], "seed": [0, 1]}),
    "dqn": ("CartPole-v1", {"algorithm": ["dqn", "bi-res-dqn"], "seed": [0, 1], "hidden": (16,), "update_every": 3}),
    "rules": (TASK, {"algorithm": "ddpg", "rule": ["bi", "ortho"], "eta": 0.2, "seed": [0, 1]}),
    "oracle": ("reacher-easy", {"algorithm": ["ddpg", "dyna-ddpg", "res-dyna-ddpg", "mve-ddpg"]}),
    "learned": ("pendulum-swingup", {"algorithm": ["ddpg", "dyna-ddpg"], "model": "learned", "model_scale": "small"}),
}


@pytest.mark.parametrize(
    "name", ["ddpg", *(pytest.param(name, marks=pytest.mark.slow) for name in RUNS if name != "ddpg")]
)
def test_processes_make_what_threads_make_and_continue_each_other(name, tmp_path, quick):
    task, grid = RUNS[name]
    quick |= {"steps": 40, "eval_every": 20} | grid
    bires.train(task, out=tmp_path / "threads", cohorts="threads", workers=0, **quick)
    bires.train(task, out=tmp_path / "processes", cohorts="processes", **quick)
    assert contents(tmp_path / "threads") == contents(tmp_path / "processes")
    assert_same_state(tmp_path / "threads", tmp_path / "processes")

    config, store = configured(quick, task), Store(tmp_path / "both")
    with pytest.raises(Stopped, match="stopped at step 20"):
        begin_or_continue(config, tmp_path / "both", Options(cohorts="processes"), lambda: store.steps()[:1] == [20])
    begin_or_continue(config, tmp_path / "both", Options(cohorts="threads", workers=0))
    assert contents(tmp_path / "threads") == contents(tmp_path / "both")
    assert_same_state(tmp_path / "threads", tmp_path / "both")


def test_processes_know_the_rules_and_planners_of_a_user(tmp_path, quick, monkeypatch):
    """A rule that this script added, which no module has, and a planner of a module."""
    monkeypatch.setitem(RULES, "bo", replace(RULES["bi"], forward=RULES["res"].forward))
    own = {"algorithm": "ddpg", "rule": "bo", "planner": ["none", "tests.own_planner:walk"], "steps": 30}
    run = bires.train("pendulum-swingup", out=tmp_path / "run", cohorts="processes", **quick | own)
    assert run.manifest["processes"]
    assert list(run.members["algorithm"]) == ["bo-ddpg", "walk-bo-ddpg"]
    assert list(run.members["status"]) == ["finished"] * 2


def test_a_process_that_is_killed_costs_the_steps_since_the_last_checkpoint(tmp_path, quick, monkeypatch):
    task, grid = RUNS["ddpg"]
    bires.train(task, out=tmp_path / "calm", cohorts="threads", workers=0, **quick | grid)
    killed: list[int] = []
    said: list[str] = []

    def watched(plan, evaluation_envs):
        runner: Any = make_runner(plan, evaluation_envs)
        if not killed:
            spread = runner.spread

            def fatal(work, arguments):
                if work is Cohort.run and arguments[0][0] == 40:
                    killed.append(runner.pids[1])
                    os.kill(runner.pids[1], signal.SIGKILL)
                return spread(work, arguments)

            runner.spread = fatal
        return runner

    monkeypatch.setattr("bires.training.loop.make_runner", watched)
    options = Options(cohorts="processes", say=said.append)
    begin_or_continue(configured(quick, task, **grid), tmp_path / "killed", options)
    assert len(killed) == 1
    assert any("has ended (killed by SIGKILL) at step 40; the run goes on" in text for text in said)
    assert any("at step 30" in text for text in said)
    assert contents(tmp_path / "calm") == contents(tmp_path / "killed")
    assert_same_state(tmp_path / "calm", tmp_path / "killed")


def test_a_run_whose_processes_keep_dying_stops_and_says_so(tmp_path, quick, monkeypatch):
    spread, deaths = ProcessRunner.spread, []

    def fatal(runner, work, arguments):
        if work is Cohort.run:
            deaths.append(runner.pids[0])
            os.kill(runner.pids[0], signal.SIGKILL)
        return spread(runner, work, arguments)

    monkeypatch.setattr(ProcessRunner, "spread", fatal)
    config = configured(quick, seed=(0, 1))
    with pytest.raises(Stopped, match=r"killed by SIGKILL\); the last whole checkpoint is that of step 0") as stopped:
        begin_or_continue(config, tmp_path / "run", Options(cohorts="processes"))
    assert len(deaths) == 3
    assert isinstance(stopped.value.__cause__, Lost)
    monkeypatch.undo()
    begin_or_continue(config, tmp_path / "run", Options(cohorts="threads", workers=0))
    begin_or_continue(config, tmp_path / "calm", Options(cohorts="threads", workers=0))
    assert contents(tmp_path / "calm") == contents(tmp_path / "run")


def test_an_error_in_a_cohorts_process_is_raised_in_the_main_process(tmp_path, quick):
    broken = {"seed": (0, 1), "cohorts": "processes"}
    with pytest.raises(bires.UserError, match=r"(?s)cannot start.*Traceback"):
        bires.train("tests.environments:bires-test/Hopeless-v0", out=tmp_path / "run", **quick | broken)


def test_the_processes_of_cohorts_end_when_their_parent_is_killed(tmp_path):
    flags = ["--steps", "100000", "--eval-every", "100000", "--eval-episodes", "1", "--quiet"]
    command = [sys.executable, "-m", "bires", "train", TASK, "--seed", "0", "1", *flags]
    run = subprocess.Popen([*command, "--cohorts", "processes", "--out", str(tmp_path / "run")])
    children: list[psutil.Process] = []
    deadline = time.monotonic() + 120
    while len(children) < 2 and time.monotonic() < deadline:
        time.sleep(0.2)
        assert run.poll() is None
        children = psutil.Process(run.pid).children()
    run.kill()
    run.wait()
    assert len(children) == 2
    assert psutil.wait_procs(children, timeout=60)[1] == []


@pytest.mark.parametrize(
    ("settings", "options", "expected"),
    [
        ({"seed": (0, 1), "steps": 500_000}, {}, True),
        ({"seed": (0, 1), "steps": 500}, {}, False),
        ({"seed": (0,), "steps": 500_000, "batch": 256}, {}, False),
        ({"seed": (0, 1), "steps": 500_000}, {"workers": 2}, False),
        ({"seed": (0, 1), "steps": 500_000}, {"workers": 0}, True),
        ({"seed": (0, 1), "steps": 500_000}, {"cohorts": "threads"}, False),
        ({"seed": (0, 1), "steps": 500}, {"cohorts": "processes"}, True),
        ({"seed": (0, 1), "steps": 500_000, "hidden": (8, 8), "batch": 8}, {}, True),
        ({"seed": (0,), "steps": 500_000, "hidden": (8, 8), "batch": 8}, {}, True),
    ],
)
def test_long_runs_of_several_members_have_processes(settings, options, expected, monkeypatch):
    monkeypatch.delenv("JAX_NUM_CPU_DEVICES", raising=False)
    monkeypatch.setattr(hardware, "FLOPS_FOR_SEVERAL_COHORTS", 1e8)
    monkeypatch.setattr("bires.training.plan.step_seconds", lambda environment: 2e-5)  # a slower one has a worker
    config = make_config("pendulum-swingup", settings | {"replay": 1000, "warmup": 100})
    plan = make_plan(config, Options(**options))
    assert plan.processes == expected
    assert ("each a process" in plan.describe()) == expected
    if expected:
        assert plan.workers == 0
        assert len(plan.placement.cohorts) == len(settings["seed"])


@pytest.mark.skipif(hardware.cores() < 2, reason="there is one core")
def test_a_single_member_leaves_a_core_to_its_environment(tmp_path, quick, monkeypatch):
    """In a process with a worker as in a thread beside a thread: while one updates, the other steps."""
    monkeypatch.setattr(hardware, "SECONDS_FOR_OVERLAP", 0.0)
    settings = quick | {"algorithm": "ddpg", "seed": [0], "replay": 200}
    bires.train(TASK, out=tmp_path / "threads", cohorts="threads", **settings)
    bires.train(TASK, out=tmp_path / "processes", cohorts="processes", **settings)
    assert contents(tmp_path / "threads") == contents(tmp_path / "processes")
    assert_same_state(tmp_path / "threads", tmp_path / "processes")
    settings.pop("quiet")
    config = make_config(TASK, settings)
    plans = [make_plan(config, Options(cohorts=cohorts)) for cohorts in ("threads", "processes")]
    assert [(plan.ahead, plan.workers) for plan in plans] == [(True, 0), (True, 1)]
    monkeypatch.setattr(hardware, "SECONDS_FOR_OVERLAP", 1.0)
    quickly = make_plan(config, Options(cohorts="processes"))
    assert (quickly.ahead, quickly.workers) == (False, 0)


def test_processes_are_refused_for_an_environment_of_this_process_only(tmp_path, quick):
    class Here(environments.Clock):
        pass

    gymnasium.register("OnlyHere-v0", entry_point=lambda **_: Here())
    with pytest.raises(bires.UserError, match=r"exists in this process only. Use cohorts='threads'"):
        bires.train("OnlyHere-v0", out=tmp_path / "run", cohorts="processes", **quick)
    wrong: Any = "process"
    with pytest.raises(bires.UserError, match=r"cohorts was given 'process'; accepted: by-size, threads, processes"):
        bires.train("pendulum-swingup", out=tmp_path / "run", cohorts=wrong, **quick)
    assert not (tmp_path / "run" / "manifest.json").exists()


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system does not say which cores are ours")
def test_a_confined_process_sees_its_share_of_the_cores():
    bound, seen = os.sched_getaffinity(0), []
    for number in range(len(bound)):
        with hardware.confined(number, 1):
            seen.append(os.sched_getaffinity(0))
    assert [len(share) for share in seen] == [1] * len(bound)
    assert set().union(*seen) == bound == os.sched_getaffinity(0)
    with hardware.confined(0, len(bound)):
        assert os.sched_getaffinity(0) == bound


@pytest.mark.parametrize(
    ("members", "work", "cohorts", "threads"),
    [(8, 1e8, 4, 1), (2, 1e9, 2, 2), (1, 1e9, 1, 4), (1, 1e8, 1, 1), (1, 1e5, 1, 1), (2, 1e5, 2, 1)],
)
def test_processes_have_the_threads_that_they_can_use(members, work, cohorts, threads, monkeypatch):
    monkeypatch.delenv("JAX_NUM_CPU_DEVICES", raising=False)
    monkeypatch.setattr(hardware, "FLOPS_FOR_SEVERAL_COHORTS", 1e8)
    monkeypatch.setattr(hardware, "cores", lambda: 4)
    monkeypatch.setattr("jax.devices", lambda: [SimpleNamespace(platform="cpu")] * 4)
    placement = hardware.place(members, work, processes=True)
    assert (len(placement.cohorts), placement.threads) == (cohorts, threads)


def test_programs_compiled_beforehand_are_not_compiled_again(tmp_path):
    code = (
        "from jax import monitoring\n"
        "from bires.settings.keywords import make_config\n"
        "from bires.settings.options import Options\n"
        "from bires.training.plan import make_plan\n"
        "from bires.training.runners import make_runner\n"
        "events = []\n"
        "monitoring.register_event_listener(lambda name, **_: events.append(name))\n"
        "settings = {'algorithm': 'ddpg', 'hidden': (8, 8), 'warmup': 101, 'replay': 1000}\n"
        "plan = make_plan(make_config('pendulum-swingup', settings), Options(cohorts='threads', workers=0))\n"
        "cohort = make_runner(plan, 2).cohorts[0]\n"
        "cohort.begin()\n"
        "for work in (cohort.compile, lambda: cohort.run(100, 102), lambda: cohort.evaluate(102, {})):\n"
        "    events.clear()\n"
        "    work()\n"
        "    print(sum(name.endswith('cache_misses') for name in events))"
    )
    settings = {"JAX_COMPILATION_CACHE_DIR": str(tmp_path), "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
    command = [sys.executable, "-W", "ignore", "-c", code]
    ran = subprocess.run(command, env=os.environ | settings, check=True, capture_output=True, text=True)
    assert ran.stdout.split() == ["3", "0", "0"]


@pytest.mark.parametrize("before", [True, False])
def test_a_run_goes_on_with_processes_if_it_began_with_them(before, tmp_path, monkeypatch):
    """How long it takes is measured anew each time, and may now say otherwise."""
    monkeypatch.delenv("JAX_NUM_CPU_DEVICES", raising=False)
    config = make_config("pendulum-swingup", {"seed": (0, 1), "steps": 2000, "replay": 1000, "warmup": 100})
    monkeypatch.setattr(hardware, "processes_pay", lambda *_: not before)
    assert make_plan(config, Options(), Folder(tmp_path)).processes is not before
    Folder(tmp_path).create(config, grid.members(config), {"platform": "cpu", "processes": before})
    assert make_plan(config, Options(), Folder(tmp_path)).processes is before
    other: Any = "threads" if before else "processes"
    assert make_plan(config, Options(cohorts=other), Folder(tmp_path)).processes is not before
