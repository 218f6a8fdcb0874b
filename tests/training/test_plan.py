"""The plan of a run: made once, and followed."""

import pickle

import pytest

import bires
from bires.machine import hardware
from bires.runs.folder import Folder
from bires.runs.lock import Lock
from bires.settings import grid
from bires.settings.keywords import make_config
from bires.settings.options import Options
from bires.training import launch
from bires.training import plan as planning
from bires.training.plan import make_plan
from bires.training.runners import setup_of
from tests.environments import Counted
from tests.helpers import configured

COUNTED = "tests.environments:bires-test/Counted-v0"


def test_a_run_is_planned_once(tmp_path, quick, monkeypatch):
    """Two environments to look at, one to train in, one to evaluate in; one validation, one expansion of the grid."""
    calls: list[str] = []

    def counting(owner, name):
        real = getattr(owner, name)

        def noted(*given):
            calls.append(name)
            return real(*given)

        monkeypatch.setattr(owner, name, noted)

    for owner, name in (
        (planning, "validate"),
        (grid, "members"),
        (planning, "make_program"),
        (hardware, "place"),
    ):
        counting(owner, name)
    monkeypatch.setattr(Counted, "built", 0)
    here = {"workers": 0, "cohorts": "threads"}
    bires.train(COUNTED, algorithm="ddpg", seed=[0], out=tmp_path / "run", **quick | here)
    assert Counted.built == 4
    assert calls == ["validate", "members", "make_program", "place"]


def test_a_plan_says_which_environment_a_short_name_means():
    plan = make_plan(make_config("Hopper", {"algorithm": "ddpg", "replay": 100}), Options(workers=0, cohorts="threads"))
    assert plan.describe().startswith("1 member on Hopper (Hopper-v4): ")
    assert plan.where["id"] == "Hopper-v4"


def test_a_plan_says_what_it_takes_and_builds_two_environments(monkeypatch):
    monkeypatch.setattr(Counted, "built", 0)
    given = {"algorithm": "ddpg", "seed": (0, 1), "steps": 1000, "replay": 100, "warmup": 10}
    plan = make_plan(make_config(COUNTED, given), Options(workers=0, cohorts="threads"))
    assert Counted.built == 2  # the second: does it repeat?
    assert (len(plan.members), plan.capacity, plan.space.observation) == (2, 100, 1)
    total, replay = plan.memory()
    assert 0 < replay < total < plan.require_memory()
    assert plan.describe().startswith(f"2 members on {COUNTED}: ")
    assert plan.where["processes"] is False


def test_wrong_settings_leave_no_folder_behind(tmp_path, quick):
    for wrong in ({"eta": 3.0}, {"workers": -1}, {"checkpoint_minutes": 0.0}, {"algorithm": "dqn"}):
        with pytest.raises(bires.UserError):
            bires.train(COUNTED, out=tmp_path / "run", **quick | wrong)
        assert not (tmp_path / "run").exists()


def test_a_run_that_another_process_began_meanwhile_goes_on_as_it_began(tmp_path, quick, monkeypatch):
    """While this process waits for the folder, another begins the run in threads: this one follows."""
    config = configured(quick, seed=(0, 1))
    monkeypatch.setattr(hardware, "processes_pay", lambda *_: True)
    monkeypatch.delenv("JAX_NUM_CPU_DEVICES", raising=False)
    said: list[str] = []

    class Slow(Lock):
        def __enter__(self):
            found = super().__enter__()
            Folder(tmp_path / "run").create(config, grid.members(config), {"platform": "cpu"})
            path = tmp_path / "run" / "manifest.json"
            path.write_text(path.read_text().replace('"platform": "cpu"', '"platform": "cpu", "processes": false'))
            return found

    monkeypatch.setattr(launch, "Lock", Slow)
    launch.begin_or_continue(config, tmp_path / "run", Options(say=said.append))
    assert not any("each a process" in text for text in said)


def test_the_setup_of_a_cohort_can_be_sent_to_another_process():
    plan = make_plan(make_config(COUNTED, {"steps": 100, "warmup": 10}), Options(workers=0, cohorts="threads"))
    setup = setup_of(plan, evaluation_envs=1)
    assert pickle.loads(pickle.dumps(setup)) == setup
