"""Runs that cannot be, are refused before they take memory or leave anything behind; doubtful ones are warned of."""

import pytest

import bires
from bires.machine import hardware, memory
from bires.settings.doubts import doubts
from bires.settings.keywords import make_config
from bires.settings.options import Options
from bires.training.plan import make_plan
from tests.helpers import PROBE, configured, typed

VALUES = [str(i / 1000) for i in range(500)]
SMALL = ("--steps", "60", "--warmup", "20", "--eval-every", "60", "--eval-episodes", "1", "--workers", "0")


def test_no_more_workers_than_are_useful_are_started(quick):
    said: list[str] = []
    plan = make_plan(configured(quick, "pendulum-swingup"), Options(workers=1000, say=said.append))
    assert plan.workers == 1
    assert said == ["--workers 1000 is more than is useful here; there are 1"]
    plan = make_plan(configured(quick, "pendulum-swingup", seeds=1000), Options(workers=1000))
    assert plan.workers == hardware.MOST_WORKERS_PER_CORE * hardware.cores()


def test_workers_are_counted_as_memory(quick, monkeypatch):
    plan = make_plan(configured(quick, "pendulum-swingup", seeds=2), Options(workers=2))
    monkeypatch.setattr(memory, "free_memory", lambda: 200_000_000)
    with pytest.raises(bires.UserError, match=r"2 environment workers .* need about 0\.3. GB .*--workers 0"):
        plan.require_memory()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--hidden", "100000", "100000"], "--hidden 100000 100000 needs at least 160"),
        (["--batch", "1e9"], "--batch 1000000000 needs at least"),
        (["--algorithm", "td3", "--critics", "1e9"], "--critics 1000000000 needs at least"),
        (["--algorithm", "crossq", "--critic-width", "10000000"], "--critic-width 10000000 needs at least"),
        (["--algorithm", "crossq", "--batch", "3e6", "--critic-width", "1e4"], "--batch 3000000 needs at least"),
        (["--algorithm", "dyna-ddpg", "--model", "learned", "--ensemble", "1e9"], "--ensemble 1000000000 needs"),
        (["--eval-episodes", "1e9"], "--eval-episodes was given 1000000000; accepted: whole numbers from 1 to 10000"),
        (["--update-every", "1e12"], "--update-every was given 1000000000000; accepted: whole numbers below 2**31"),
        (["--algorithm", "td3", "--policy-delay", "1e12"], "--policy-delay was given 1000000000000; accepted: whole"),
        (
            ["--algorithm", "crossq", "--policy-delay", "1e12"],
            "--policy-delay was given 1000000000000; accepted: whole",
        ),
        (
            ["--algorithm", "mve-ddpg", "--horizon", "1e6"],
            "--horizon was given 1000000; accepted: whole numbers from 1 to",
        ),
        (["--seeds", "1e9"], "--seeds was given 1000000000; accepted: whole numbers from 1 to 100000"),
        (["--eta", *VALUES, "--gamma", *VALUES], "This grid has up to 250000 members"),
    ],
    ids=lambda given: given[0] if isinstance(given, list) else "",
)
def test_sizes_beyond_the_machine_are_refused(tmp_path, words, said):
    done = typed("train", "pendulum-swingup", *SMALL, *words, "--out", str(tmp_path / "run"))
    assert done.returncode == 2, done.stderr
    assert said in done.stderr
    assert not (tmp_path / "run").exists()


def test_a_refused_command_does_not_block_the_next_one(tmp_path):
    out = str(tmp_path / "run")
    done = typed("train", f"{PROBE}Hopeless-v0", *SMALL, "--out", out)
    assert done.returncode == 2
    assert "no licence key" in done.stderr
    assert not (tmp_path / "run" / "manifest.json").exists()
    assert typed("train", f"{PROBE}Clock-v0", *SMALL, "--quiet", "--out", out).returncode == 0


def test_a_folder_that_is_no_run_is_refused(tmp_path):
    (tmp_path / "thesis.tex").write_text("…")
    done = typed("train", "pendulum-swingup", *SMALL, "--out", str(tmp_path))
    assert done.returncode == 2
    assert "is not empty and is not a run (it has 'thesis.tex')" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_contradictions_are_warned_of(tmp_path):
    words = ["--batch", "64", "--replay", "32", "--actor-lr", "0", "1e-4", "--model", "learned", "--hidden", "8", "8"]
    words += ["--tau", "0", "1e-3"]
    done = typed("train", "pendulum-swingup", *SMALL, *words, "--json", "--out", str(tmp_path / "run"))
    assert done.returncode == 0, done.stderr
    assert "bires: warning: --batch 64 is more than --replay 32" in done.stderr
    assert "bires: warning: --actor-lr 0 was given" in done.stderr
    assert "bires: warning: --model was given, but no algorithm here has a planner" in done.stderr
    assert "bires: warning: --tau 0 was given: target networks stay as they began" in done.stderr
    assert done.stdout.count('"event": "warning"') == 4


LEARNED = {"algorithm": "res-dyna-ddpg", "model": "learned", "ensemble": 3, "planning_trust": 1.0, "horizon": 5}


def test_usual_settings_have_no_warnings():
    for algorithm in ("ddpg", "td3", "sac", "dyna-ddpg"):
        assert not [*doubts(make_config("pendulum-swingup", {"algorithm": algorithm}))]
    mixed = {"algorithm": ("dyna-ddpg", "mve-ddpg"), "horizon": (2, 4), "mve_loss": "original", "planning_steps": 2}
    for used in (LEARNED, mixed, {"algorithm": ("td3", "bi-res-td3"), "fresh_action": True}):
        assert not [*doubts(make_config("pendulum-swingup", used))]


@pytest.mark.parametrize(
    ("settings", "idle"),
    [
        ({"algorithm": "ddpg", "eta_end": 0, "eta_until": 50_000}, ["--eta-end"]),
        ({"algorithm": "td3", "fresh_action": True, "forward_successor": "own"}, ["--forward-", "--fresh-action"]),
        ({"algorithm": "dyna-ddpg", "planning_eta": 0.5, "horizon": (2, 4)}, ["--planning-eta", "--horizon"]),
        ({"algorithm": "dyna-ddpg", "mve_loss": "original", "ensemble": 3}, ["--mve-loss", "--ensemble"]),
        ({"algorithm": "mve-ddpg", "planning_steps": 2, "model": "learned"}, ["--planning-steps"]),
        ({"algorithm": "ddpg", "model_noise": "gaussian"}, ["--model-noise"]),
    ],
)
def test_settings_that_nothing_reads_are_warned_of(settings, idle):
    found = [*doubts(make_config("Hopper", settings))]
    assert len(found) == len(idle)
    for text, name in zip(found, idle, strict=True):
        assert text.startswith(name)
        assert "so it does nothing" in text


@pytest.mark.parametrize(
    ("task", "settings", "said"),
    [
        ("CartPole-v1", {}, []),
        ("CartPole-v1", {"steps": 4_000}, ["--epsilon-steps 1000"]),
        ("CartPole-v1", {"steps": 4_000, "epsilon_steps": (1_000, 2_000)}, []),
        ("Breakout", {}, []),
        ("Breakout", {"steps": 100_000}, ["--epsilon-steps 25000", "--optimiser adam"]),
        ("Breakout", {"steps": 100_000, "optimiser": "adam", "epsilon_steps": 1e4, "warmup": 1_000}, []),
        ("MinAtar/Breakout", {}, []),
    ],
)
def test_schedules_of_longer_runs_are_warned_of(task, settings, said):
    found = [*doubts(make_config(task, {"algorithm": "dqn", **settings}))]
    assert len(found) == len(said)
    assert all(words in text for text, words in zip(found, said, strict=True))


def test_a_finished_run_is_shown_where_nothing_can_be_written(copied):
    run = copied()
    for name in ("curves.png", "summary.json"):  # as on a read-only disk, also for root
        (run.path / name).unlink(missing_ok=True)
        (run.path / name).mkdir()
    done = typed("resume", str(run.path))
    assert done.returncode == 0
    assert "bires: warning: summary.json or curves.png of" in done.stderr
    assert "bi-res-ddpg" in done.stdout


def test_a_warm_up_shorter_than_what_models_leave_out_is_refused(tmp_path, quick):
    quick |= {"algorithm": "dyna-ddpg", "model": "learned", "model_scale": "small", "warmup": 5}
    with pytest.raises(bires.UserError, match="warmup was given 5; accepted with learned models: whole numbers from"):
        bires.train("Hopper", out=tmp_path / "run", **quick)
