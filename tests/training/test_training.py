"""Populations on real and on probe environments: learning, independence, resume, divergence."""

import json
import os
import subprocess
import sys
import time
from typing import Any

import numpy as np
import pytest

import bires
from bires.agents.ddpg import ALGORITHMS
from bires.analysis.summary import of_run
from bires.envs.slots import TRAIN
from bires.envs.tasks import SHORT
from bires.rules import PAPER
from bires.runs.checkpoint import Store
from bires.runs.folder import Folder
from bires.settings import grid
from bires.settings.config import Config
from bires.settings.options import Options
from bires.studies.progress import last_step
from bires.training.launch import begin_or_continue
from bires.training.loop import TrainingLoop
from bires.training.plan import make_plan
from tests.helpers import (
    LEARNING,
    PROBE,
    TASK,
    arrays,
    assert_same_moment,
    assert_same_state,
    cohorts_of,
    configured,
    contents,
    doomed,
    typed,
    values_of,
)

MODEL_FREE = [name for name, algorithm in ALGORITHMS.items() if algorithm.planner is None]
LEARN = LEARNING | {"tau": 0.05}


@pytest.mark.parametrize(
    ("name", "known"),
    [
        pytest.param("ConstantReward-v0", {0.0: 1.0}, marks=pytest.mark.slow),  # the last step of the other
        ("TwoSteps-v0", {0.0: 0.9, 1.0: 1.0}),
    ],
)
def test_rules_find_the_values_of_ending_probes(tmp_path, name, known):
    """In a deterministic chain that ends, the wirings with an online predecessor share the true values.

    The two whose δ reads the target at the predecessor do not pull pred towards the backup: they push it by how far the
    slow target is behind, so they are not asked to be there at the same step.
    """
    run = bires.train(PROBE + name, algorithm=MODEL_FREE, out=tmp_path / "run", **LEARN)
    for observation, value in known.items():
        found = dict(zip([row["rule"] for row in run.members.rows()], values_of(run, [observation]), strict=True))
        for rule in ("td", "res", "to", "bi"):
            assert found[rule] == pytest.approx(value, abs=0.08), (rule, found)


def test_a_time_limit_is_bootstrapped_through_or_not(tmp_path):
    """Q = 1 / (1 − γ) = 10 when the limit is no end; less under the paper's protocol: one step in five ends there."""
    modern = bires.train(PROBE + "Clock-v0", algorithm="ddpg", out=tmp_path / "m", protocol="modern", **LEARN)
    paper = bires.train(PROBE + "Clock-v0", algorithm="ddpg", out=tmp_path / "p", protocol="paper", **LEARN)
    assert values_of(modern, [1.0])[0] == pytest.approx(10.0, abs=0.5)
    # One state: Q = 1 + 0.8 γ Q, so Q = 1 / (1 − 0.72).
    assert values_of(paper, [1.0])[0] == pytest.approx(1 / (1 - 0.8 * 0.9), abs=0.3)


def test_the_actor_finds_the_best_action(tmp_path):
    settings = LEARN | {"steps": 4000, "eval_every": 4000, "actor_lr": 1e-3}
    run = bires.train(PROBE + "Target-v0", algorithm=["ddpg", "bi-res-ddpg"], out=tmp_path / "run", **settings)
    for member in range(2):
        assert run.policy(member)([0.0])[0] == pytest.approx(0.5, abs=0.1)


def test_one_program_trains_all_rules_and_etas_and_is_compiled_once(tmp_path, quick, split):
    config = configured(quick, eval_every=60, algorithm=MODEL_FREE, eta=[0, 0.05, 0.1, 0.2, 0.4, 0.8, 1.0])
    assert len(grid.members(config)) == 5 * 7 + 1
    plan = make_plan(config, Options())
    loop = TrainingLoop(plan, Folder(tmp_path), Options())
    Folder(tmp_path).create(config, plan.members, {})
    loop.run(None)
    cohorts = cohorts_of(loop)
    sizes = {len(cohort.members) for cohort in cohorts}
    devices = len({cohort.device for cohort in cohorts})
    learn: Any = cohorts[0].compiled.learn
    assert learn._cache_size() <= len(sizes) * devices
    rules = {row["rule"] for row in bires.load(tmp_path).members.rows()}
    assert rules == set(PAPER)


def test_a_member_does_not_depend_on_the_population_around_it(tmp_path, quick, split):
    quick |= {"steps": 40, "eval_every": 20}
    alone = bires.train(TASK, algorithm="bi-res-ddpg", seed=3, out=tmp_path / "a", **quick)
    many = bires.train(TASK, algorithm=["ddpg", "res-ddpg", "bi-res-ddpg"], seed=[1, 3], out=tmp_path / "b", **quick)
    who = next(r["member"] for r in many.members.rows() if r["seed"] == 3 and r["algorithm"] == "bi-res-ddpg")
    lone, crowd = arrays(alone.path), arrays(many.path)
    segments = [name for name in lone if name.startswith("replay/")]
    assert segments
    for name in segments:  # the data stream: equal to rounding (also of its scaling) before and after the policy acts
        np.testing.assert_allclose(lone[name][0, :20], crowd[name][who, :20], rtol=1e-5, atol=1e-7)
        np.testing.assert_allclose(lone[name][0], crowd[name][who], atol=1e-4)
    np.testing.assert_array_equal(lone["state/key"][0], crowd["state/key"][who])
    for name in lone:
        if name.startswith("state/learner.critic."):
            np.testing.assert_allclose(lone[name][0], crowd[name][who], atol=1e-4, err_msg=name)


def test_equal_seeds_give_equal_runs_and_other_seeds_change_everything(tmp_path, quick, split):
    first = bires.train(TASK, seeds=2, out=tmp_path / "a", **quick)
    again = bires.train(TASK, seeds=2, out=tmp_path / "b", **quick)
    assert contents(first.path) == contents(again.path)
    assert_same_state(first.path, again.path)
    found = arrays(first.path)
    for name in ("state/learner.actor.layers.0.weight", "state/noise", "state/observation", "state/key"):
        assert not np.array_equal(found[name][0], found[name][1]), name


@pytest.mark.parametrize("task", [pytest.param("cartpole-swingup", marks=pytest.mark.slow), "Hopper"])
def test_a_run_killed_again_and_again_ends_as_if_undisturbed(tmp_path, task):
    """kill -9 at random moments, the same command again each time: all files and all state are identical."""
    words = ["train", task, "--algorithm", *MODEL_FREE, "--steps", "400", "--warmup", "100", "--eval-every", "100"]
    words += ["--eval-episodes", "1", "--batch", "16", "--replay", "250", "--hidden", "32", "32", "--log-every", "50"]
    words += ["--quiet", "--out"]
    assert typed(*words, str(tmp_path / "straight")).returncode == 0
    killed, rng, kills = tmp_path / "killed", np.random.default_rng(0), 0
    for reached in (-1, 100, 300):
        process = subprocess.Popen([sys.executable, "-m", "bires", *words, str(killed)])
        while process.poll() is None and last_step(killed / "metrics.csv") < reached:
            time.sleep(0.01)
        time.sleep(float(rng.uniform(0.0, 0.1 if reached >= 0 else 2.0)))
        kills += process.poll() is None
        process.kill()
        process.wait()
    assert kills > 0
    assert typed(*words, str(killed)).returncode == 0
    assert bires.load(killed).finished
    assert contents(tmp_path / "straight") == contents(killed)
    assert_same_moment(tmp_path / "straight", killed, 250)


def test_sigterm_stops_in_order_and_resume_finishes(tmp_path):
    out = tmp_path / "run"
    flags = [TASK, "--steps", "3000", "--warmup", "50", "--hidden", "16", "16", "--batch", "8", "--replay", "1000"]
    flags += ["--eval-every", "3000", "--eval-episodes", "1", "--log-every", "20", "--cohorts", "threads"]
    words = [sys.executable, "-m", "bires", "train", *flags, "--out", str(out)]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 120
    while not ((out / "metrics.csv").exists() and len((out / "metrics.csv").read_text().splitlines()) > 2):
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.05)
    process.terminate()
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 3
    assert f"bires resume {out}" in errors
    assert 0 < Store(out).steps()[0] < 3000
    assert typed("resume", str(out), "--cohorts", "threads", "--quiet").returncode == 0
    assert typed("train", *flags, "--quiet", "--out", str(tmp_path / "b")).returncode == 0
    assert contents(out) == contents(tmp_path / "b")


def test_every_evaluation_has_starts_of_its_own_which_algorithms_share(tmp_path, quick):
    """Frozen policies: a learning rate of next to nothing, so only the starts can change a return."""
    quick |= {"actor_lr": 1e-30, "critic_lr": 1e-30, "tau": 1e-30}
    settings = quick | {"algorithm": ["ddpg", "bi-res-ddpg"], "seeds": 2, "workers": 0}
    run = bires.train("reacher-easy", out=tmp_path / "run", **settings)
    rows = {(row["algorithm"], row["seed"], row["step"]): row for row in run.evaluations.rows()}
    for seed in (0, 1):
        lengths = [rows["ddpg", seed, step] for step in (0, 30, 60)]
        assert len({row["q_mean"] for row in lengths}) == 3, "the same start judged the policy twice"
        for step in (0, 30, 60):
            mine, other = rows["ddpg", seed, step], rows["bi-res-ddpg", seed, step]
            assert mine["return_mean"] == other["return_mean"]
            assert mine["q_mean"] == pytest.approx(other["q_mean"], rel=1e-3)


def test_a_run_of_an_older_format_is_read_but_not_continued(copied):
    run = copied()
    path = run.path / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"format": 1, "end": None}))
    assert bires.load(run.path).evaluations.height == 3
    for call in (lambda: bires.resume(run.path), lambda: bires.resume(run.path, steps=120)):
        with pytest.raises(bires.UserError, match=r"format 1, this version writes 2.*another out"):
            call()


@pytest.mark.parametrize("kind", ["Raises", "NotFinite"])
def test_an_environment_that_fails_ends_its_member_only(tmp_path, quick, kind):
    quick |= {"steps": 100, "eval_every": 1000, "log_every": 50, "eval_episodes": 1}
    seeds = [seed for seed in range(20) if doomed(seed, 1) is False][:4]  # evaluation episodes of these are fine
    run = bires.train(f"{PROBE}{kind}-v0", seed=seeds, out=tmp_path / "run", workers=0, **quick)
    expected = ["failed" if any(doomed(seed, 0, e) for e in range(2)) else "finished" for seed in seeds]
    assert [row["status"] for row in run.members.rows()] == expected
    assert {"failed", "finished"} == set(expected)
    assert [row.failed for row in of_run(run)] == [expected.count("failed")], "not among those that diverged"
    assert [row.diverged for row in of_run(run)] == [0]
    longer = bires.resume(run.path, steps=120, workers=0, quiet=True)
    assert (longer.members["status"][:4] == "failed").sum() >= expected.count("failed")
    text = (run.path / "errors" / f"member-{expected.index('failed')}.txt").read_text()
    assert ("the motor came off" if kind == "Raises" else "not finite") in text


def test_a_finished_run_says_so_and_another_configuration_is_refused(copied, quick):
    out = copied().path
    before = contents(out)
    said: list[str] = []
    begin_or_continue(configured(quick), out, Options(say=said.append))
    assert "finished" in said[0]
    with pytest.raises(bires.UserError, match=r"(?s)another configuration.*batch: 8 there, 16 now"):
        bires.train(TASK, out=out, **(quick | {"batch": 16}))
    with pytest.raises(bires.UserError, match=rf"To make that run longer: `bires resume {out} --steps 90`\."):
        bires.train(TASK, out=out, **(quick | {"steps": 90}))
    for other in ({"steps": 50}, {"steps": 90, "batch": 16}):  # neither can be had by going on
        with pytest.raises(bires.UserError, match=r"to continue that run\.$"):
            bires.train(TASK, out=out, **(quick | other))
    assert contents(out) == before


def test_a_run_in_use_is_refused(tmp_path, quick):
    from bires.runs.lock import Lock

    with Lock(tmp_path / "run"), pytest.raises(bires.UserError, match="is being trained by process"):
        bires.train(TASK, out=tmp_path / "run", **quick)


def test_tables_have_every_evaluation_and_the_manifest_the_settings(tmp_path, quick):
    run = bires.compare("pendulum-swingup", seeds=2, out=tmp_path / "run", **(quick | {"eval_episodes": 2}))
    table = run.evaluations
    assert sorted(set(table["step"].tolist())) == [0, 30, 60]
    assert table.height == 4 * 3
    assert np.all(table["episodes"] == 2)
    assert np.all(table["length_mean"] == 1000)
    header = (run.path / "evaluations.csv").read_text().splitlines()[0].split(",")
    columns = "member,step,episodes,return_mean,return_std,return_min,return_max,length_mean,q_mean,bellman_error"
    assert ",".join(header) == columns
    manifest = json.loads((run.path / "manifest.json").read_text())
    assert manifest["config"]["task"] == "pendulum-swingup"
    assert manifest["id"] == "dm_control/pendulum-swingup-v0"
    assert run.policy(0).network().about["id"] == manifest["id"]
    assert manifest["versions"]["jax"]
    action = run.policy(0)(np.zeros(3))
    assert action.shape == (1,)
    assert run.policy(0)(np.zeros((5, 3))).shape == (5, 1)


def test_too_little_memory_is_refused_with_what_would_fit(tmp_path):
    with pytest.raises(bires.UserError, match=r"needs .* GB of memory.*replay=\d+ would fit"):
        bires.train("Humanoid", seeds=60, out=tmp_path / "run", quiet=True, replay=10**6, steps=10**6)
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
@pytest.mark.parametrize("task", SHORT)
def test_all_33_tasks_train(tmp_path, task):
    config = Config(task, steps=80, warmup=30, eval_every=80, eval_episodes=1, replay=80, log_every=40)
    begin_or_continue(config, tmp_path, Options(workers=0))
    assert bires.load(tmp_path).members["status"].tolist() == ["finished"]


@pytest.mark.parametrize("several", ["2", pytest.param("4", marks=pytest.mark.slow)])
def test_the_number_of_devices_changes_nothing(several, tmp_path):
    """Members on one device (one cohort) and on several (as many cohorts, in their threads): the same bits."""
    rules = ["ddpg", "bi-res-ddpg"] if several == "2" else ["ddpg", "res-ddpg", "tt-res-ddpg", "bi-res-ddpg"]
    sizes = ["--steps", "120", "--warmup", "40", "--eval-every", "60", "--eval-episodes", "1", "--log-every", "40"]
    for devices in ("1", several):
        command = [sys.executable, "-m", "bires", "train", TASK, "--algorithm", *rules, "--seeds", "2"]
        small = ["--hidden", "48", "32", "--batch", "16", "--workers", "0", "--out", str(tmp_path / devices)]
        environment = os.environ | {"JAX_NUM_CPU_DEVICES": devices, "JAX_PLATFORMS": "cpu"}
        subprocess.run([*command, *sizes, *small, "--quiet"], env=environment, check=True)
    one, many = tmp_path / "1", tmp_path / several
    assert [json.loads((run / "manifest.json").read_text())["cohorts"] for run in (one, many)] == [1, int(several)]
    assert contents(one) == contents(many)
    assert_same_moment(one, many, 120)


def test_evaluations_do_not_depend_on_the_workers(tmp_path, quick):
    """With few workers many members have few environments each; a network rounds a single observation otherwise."""
    quick |= {"steps": 20, "warmup": 4, "eval_every": 20, "eval_episodes": 3, "seeds": 16}
    one, two = (bires.train(TASK, out=tmp_path / str(n), workers=n, **quick) for n in (1, 2))
    assert (one.path / "evaluations.csv").read_bytes() == (two.path / "evaluations.csv").read_bytes()


def test_a_run_whose_members_have_all_diverged_ends_at_the_next_evaluation(tmp_path, quick):
    run = bires.train(TASK, algorithm="ddpg", critic_lr=1e30, out=tmp_path, **quick | {"steps": 3000})
    assert run.finished
    assert list(run.members["status"]) == ["diverged"]
    assert max(Store(run.path).steps()) == 30


def test_a_member_that_diverged_is_not_called_failed_when_its_environment_raises_later(tmp_path, quick):
    """The environment is stepped until the divergence is noticed."""
    seed = next(seed for seed in range(99) if doomed(seed, TRAIN))
    settings = quick | {"steps": 40, "eval_every": 40, "log_every": 40, "warmup": 8}
    lost = {"algorithm": "ddpg", "critic_lr": [1e30], "seed": [seed], "checkpoint_minutes": 600, "workers": 0}
    run = bires.train(PROBE + "Raises-v0", out=tmp_path, **settings | lost)
    assert [(row["status"], row["diverged_at"] < 30) for row in run.members.rows()] == [("diverged", True)]


def test_a_diverged_member_is_evaluated_and_exported_without_a_warning(tmp_path, quick):
    """Its weights are the last finite ones, but what they give need not be."""
    run = bires.train(TASK, algorithm="td3", critic_lr=1e30, actor_lr=1e30, out=tmp_path / "run", **quick)
    assert set(run.members["status"]) == {"diverged"}
    found = run.evaluate(episodes=2)
    assert np.isfinite(found["return_mean"]).all()
    assert not np.isfinite(found["bellman_error"]).any()
    dqn = bires.train("CartPole-v1", algorithm="dqn", critic_lr=1e30, out=tmp_path / "dqn", **quick)
    dqn.policy(0).save(tmp_path / "policy.safetensors")
