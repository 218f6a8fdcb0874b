"""Whole runs that plan with the oracle and with learned models."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bires
from bires.planning import recipe
from bires.planning.models import SCALES, ModelScale
from bires.population import replay
from bires.runs.folder import Folder
from bires.settings.keywords import make_config
from bires.settings.options import Options, Stopped
from bires.training.launch import begin_or_continue
from bires.training.loop import TrainingLoop
from bires.training.plan import make_plan
from bires.training.runners import make_runner
from bires.training.simulator import SimulatorModel
from tests import environments  # noqa: F401
from tests.helpers import arrays, cohorts_of, configured, contents

FOUR = ["ddpg", "dyna-ddpg", "res-dyna-ddpg", "mve-ddpg"]


def learner_of(path, member):
    return {name: array[member] for name, array in arrays(path).items() if name.startswith("state/learner.")}


def assert_same_learner(a, b):
    for name in a:
        np.testing.assert_array_equal(a[name], b[name], err_msg=name)


def test_dyna_without_planning_steps_is_ddpg_bit_for_bit(tmp_path, quick):
    plain = bires.train("Hopper", algorithm="ddpg", out=tmp_path / "a", **quick)
    none = bires.train("Hopper", algorithm="dyna-ddpg", planning_steps=0, out=tmp_path / "b", **quick)
    assert_same_learner(learner_of(plain.path, 0), learner_of(none.path, 0))
    mixed = bires.train("Hopper", algorithm=["ddpg", "dyna-ddpg"], planning_steps=[0, 1], out=tmp_path / "c", **quick)
    assert mixed.members["planning_steps"].tolist()[1:] == [0, 1]
    three = [learner_of(mixed.path, member) for member in range(3)]
    assert_same_learner(three[0], three[1])
    assert not all(np.array_equal(three[0][name], three[2][name]) for name in three[0])


@pytest.mark.parametrize("task", ["Hopper", pytest.param("finger-turn_easy", marks=pytest.mark.slow)])
def test_what_the_oracle_imagines_without_noise_is_the_replay(tmp_path, quick, monkeypatch, task):
    """σ = 0: what Dyna imagines is, bit for bit, what happened; MVE's first step starts where the transition ended."""
    config = configured(quick, task, algorithm=["dyna-ddpg", "mve-ddpg"], planning_noise=0.0, planning_steps=2)
    plan = make_plan(config, Options(workers=0))
    loop = TrainingLoop(plan, Folder(tmp_path), Options(workers=0))
    Folder(tmp_path).create(config, plan.members, {})
    kept: list[tuple[Any, Any, Any]] = []

    def watch(cohort):
        """Keeps what the environments did in a replay of its own, and every answer of the simulator beside it."""
        bridge, simulator, arrays = cohort.bridge, cohort.bridge.simulator, cohort.pool.arrays
        start, gather, first = bridge._start, bridge._gather, simulator.first
        count, capacity = len(cohort.members), cohort.program.capacity
        before: list[np.ndarray] = []
        rows = np.zeros((count, capacity, replay.width(cohort.program.space)), np.float32)

        def starting(action):
            before[:] = [arrays.observation[:count].copy(), action.copy()]
            start(action)

        def gathering():
            found = gather()
            reward_and_discount, successor = found.rows[:, :2], arrays.next_observation[:count]
            rows[:, bridge._clock % capacity] = np.concatenate([*before, reward_and_discount, successor], axis=1)
            return found

        def watched(clock, positions, *actions):
            answers = first(clock, positions, *actions)
            kept.append((rows.copy(), positions.copy(), answers[0].copy()))
            return answers

        bridge._start, bridge._gather, simulator.first = starting, gathering, watched

    def spying(plan, evaluation_envs):
        runner: Any = make_runner(plan, evaluation_envs)
        for cohort in runner.cohorts:
            watch(cohort)
        return runner

    monkeypatch.setattr("bires.training.loop.make_runner", spying)
    loop.run(None)
    assert len(kept) == 40 * len(cohorts_of(loop))
    o, seen = plan.space.observation, 0
    for storage, positions, nearby in kept:
        for i in range(len(storage)):
            rows = storage[i, positions[i].astype(int)]
            for p in range(2):
                if np.any(nearby[i, p]):
                    seen += 1
                    assert nearby[i, p].tobytes() == rows[:, o:].tobytes()
    assert seen == 80


def test_every_update_of_a_step_asks_about_its_own_batch(tmp_path, quick, monkeypatch):
    """σ = 0: what the simulator says is the batch's own successor, also in the second and third update of a step."""
    far: list[float] = []
    update = recipe.update

    def watched(planning, learner, hyper, batch, imagined, alive, due=True):
        [found] = imagined
        apart = jnp.abs(found.next_observation[0, 0] - batch.next_observation).max()
        jax.debug.callback(lambda x: far.append(float(x)), apart)
        return update(planning, learner, hyper, batch, imagined, alive, due)

    monkeypatch.setattr(recipe, "update", watched)
    settings = quick | {"planning_noise": 0.0, "update_times": 3, "workers": 0}
    run = bires.train("Hopper", algorithm="dyna-ddpg", seed=0, out=tmp_path / "run", **settings)
    jax.effects_barrier()
    steps = settings["steps"] - settings["warmup"]
    assert len(far) == 3 * steps
    assert max(far) == 0.0
    assert sum(row["updates"] for row in run.metrics.rows()) == 3 * steps


def test_imagined_actions_stay_within_the_simulators_bounds(tmp_path, quick, monkeypatch):
    """Humanoid's are ±0.4, which `paper` does not scale: beyond them its reward is that of no real action."""
    asked: list[np.ndarray] = []
    ask = SimulatorModel._ask

    def watched(model, questions):
        ask(model, questions)
        for question in questions:
            asked.append(question.action.copy())
            assert question.rows[:, : question.action.shape[1]].tobytes() == question.action.tobytes()  # for the critic

    monkeypatch.setattr(SimulatorModel, "_ask", watched)
    wild = {"planning_noise": 1.0, "actor_lr": 0.1, "tau": 1.0, "steps": 40, "protocol": "paper"}
    bires.train("Humanoid", algorithm=["dyna-ddpg", "mve-ddpg"], out=tmp_path / "a", workers=0, **quick | wild)
    actions = np.abs(np.stack(asked))
    assert actions.max() == np.float32(0.4)
    clipped = np.mean(actions == np.float32(0.4), axis=(1, 2))
    assert np.mean(clipped > 0.1) > 0.8  # of the questions: MVE's first ones come from a fresh actor


@pytest.mark.parametrize(
    ("task", "model", "algorithm"),
    [
        ("Hopper", "oracle", FOUR),
        pytest.param("pendulum-swingup", "learned", ["res-dyna-ddpg", "mve-ddpg"], marks=pytest.mark.slow),
        pytest.param("reacher-easy", "oracle", FOUR, marks=pytest.mark.slow),
        pytest.param("HalfCheetah", "learned", FOUR, marks=pytest.mark.slow),
    ],
)
def test_a_planned_run_continues_as_if_undisturbed(tmp_path, quick, split, stepwise, task, model, algorithm):
    quick |= {"steps": 70, "eval_every": 70, "replay": 40}
    config = configured(quick, task, algorithm=algorithm, model=model, model_scale="small", ensemble=2)
    begin_or_continue(config, tmp_path / "straight", Options(workers=0))
    for steps in (27, 22):
        with pytest.raises(Stopped):
            begin_or_continue(
                config, tmp_path / "stopped", Options(workers=0), stop=partial(next, iter([False] * steps), True)
            )
    begin_or_continue(config, tmp_path / "stopped", Options(workers=2))
    assert contents(tmp_path / "straight") == contents(tmp_path / "stopped")
    left, right = arrays(tmp_path / "straight"), arrays(tmp_path / "stopped")
    assert any(".model." in name or "state/model" in name for name in left) == (model == "learned")
    assert any(name.endswith(("/before", "/after")) for name in left) == (model == "oracle")
    for name in left:
        if name.startswith("state/"):
            np.testing.assert_array_equal(left[name], right[name], err_msg=name)


@pytest.mark.slow
def test_planners_do_not_change_the_other_members_of_a_population(tmp_path, quick):
    mixed = bires.train("Hopper", algorithm=FOUR, seeds=2, out=tmp_path / "a", **quick)
    assert [row["algorithm"] for row in mixed.members.rows()] == [name for name in FOUR for _ in range(2)]
    assert set(mixed.members["status"].tolist()) == {"finished"}
    alone = bires.train("Hopper", algorithm="ddpg", seeds=2, out=tmp_path / "b", **quick)
    for member in range(2):
        a, b = learner_of(mixed.path, member), learner_of(alone.path, member)
        for name in a:
            np.testing.assert_allclose(a[name], b[name], atol=1e-4, err_msg=name)
    header = (mixed.path / "metrics.csv").read_text().splitlines()[0]
    assert header.endswith(",imagined_loss")
    assert not (alone.path / "metrics.csv").read_text().splitlines()[0].endswith("imagined_loss")
    loss, members = mixed.metrics["imagined_loss"], mixed.metrics["member"]
    assert np.all(loss[members < 2][-2:] == 0)
    assert np.nanmax(loss[(members >= 2) & (members < 6)]) > 0


@pytest.mark.slow
@pytest.mark.parametrize("model", ["oracle", "learned"])
def test_a_planning_member_that_diverges_is_frozen_alone(tmp_path, quick, model):
    run = bires.train(
        "pendulum-swingup",
        algorithm=["res-dyna-ddpg", "mve-ddpg"],
        critic_lr=[1e-3, 1e30],
        model=model,
        model_scale="small",
        out=tmp_path / "run",
        **quick,
    )
    status = {(row["algorithm"], row["critic_lr"]): row["status"] for row in run.members.rows()}
    assert {k: v for k, v in status.items() if v == "diverged"}.keys() == {
        ("res-dyna-ddpg", 1e30),
        ("mve-ddpg", 1e30),
    }


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"planner": "dnya"}, "Unknown planner 'dnya'. Did you mean 'dyna'"),
        ({"horizon": 0}, "horizon was given 0"),
        ({"planning_eta": 1.5}, "planning_eta was given 1.5"),
        ({"planning_noise": -0.1}, "planning_noise was given -0.1"),
        ({"planning_noise": float("nan")}, "planning_noise was given nan"),
        ({"planning_steps": -1}, "planning_steps was given -1"),
        ({"ensemble": 0}, "ensemble was given 0"),
        ({"model": "dream"}, "model was given 'dream'; accepted: oracle, learned"),
        ({"model_scale": "huge"}, "model_scale was given 'huge'"),
        ({"mve_loss": "l1"}, "mve_loss was given 'l1'"),
        ({"algorithm": "mve-ddpg", "rule": "bi"}, "rule='bi' was given with planner 'mve'"),
    ],
)
def test_bad_input_is_refused(tmp_path, settings, words):
    with pytest.raises(bires.UserError, match=words.replace("(", r"\(")):
        bires.train("Hopper", out=tmp_path / "run", quiet=True, **settings)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("settings", "warned"),
    [
        ({"algorithm": "dyna-ddpg", "model": "learned"}, True),
        ({"algorithm": "dyna-ddpg", "model": "learned", "model_scale": "small"}, False),
        ({"algorithm": "ddpg", "model": "learned"}, False),
        ({"algorithm": "dyna-ddpg"}, False),
    ],
)
def test_the_papers_models_are_warned_of_on_a_cpu(settings, warned):
    remarks = [*make_plan(make_config("Hopper", settings), Options(workers=0)).remarks()]
    assert [text for text in remarks if "use --model-scale small" in text] == remarks
    assert len(remarks) == warned


def test_the_oracle_of_a_task_without_a_physics_state_is_refused(tmp_path, quick):
    task = "MountainCarContinuous-v0"
    with pytest.raises(bires.UserError, match="Use model='learned'"):
        bires.train(task, algorithm="dyna-ddpg", out=tmp_path / "run", **quick)
    quick |= {"eval_every": 60}
    bires.train(task, algorithm="dyna-ddpg", model="learned", model_scale="small", out=tmp_path / "b", **quick)


def test_an_oracle_that_raises_ends_the_member_and_not_the_run(tmp_path, quick):
    """The probe cannot be set to states with x > 1: who draws one is frozen, with the reason; DDPG never asks."""
    run = bires.train(
        "tests.environments:bires-test/Touchy-v0",
        algorithm=["ddpg", "dyna-ddpg"],
        out=tmp_path / "run",
        workers=0,
        **quick,
    )
    assert run.members["status"].tolist() == ["finished", "failed"]
    assert "out of reach" in (run.path / "errors" / "member-1.txt").read_text()


def test_an_adaptive_eta_is_logged_and_smaller_than_the_given_one(tmp_path, quick):
    """Models that have hardly learned disagree; a member with a fixed η beside it keeps its own."""
    settings = {"model": "learned", "model_scale": "small", "ensemble": 3, "planning_trust": [0.0, 1e-3]}
    run = bires.train("Hopper", algorithm="res-dyna-ddpg", planning_eta=0.2, out=tmp_path / "run", **quick | settings)
    last = {row["member"]: row["imagined_eta"] for row in run.metrics.rows()}
    fixed, adaptive = (
        next(m for m, t in enumerate(run.members["planning_trust"]) if (t > 0) == up) for up in (False, True)
    )
    assert last[fixed] == pytest.approx(0.2)
    assert 0.0 < last[adaptive] < 0.2


def test_a_stochastic_model_draws_second_successors_and_its_runs_are_exact(tmp_path, quick, monkeypatch):
    monkeypatch.setitem(SCALES, "small", ModelScale((16,), (8,), batch=16, updates=1, normalised=True))
    settings = quick | {"algorithm": "double-res-ddpg", "model": "learned", "model_scale": "small", "workers": 0}
    noisy = settings | {"model_noise": "gaussian", "ensemble": 2, "cohorts": "threads"}
    run = bires.train("Pendulum-v1", out=tmp_path / "straight", **noisy)
    assert run.members["status"].tolist() == ["finished"]
    bires.train("Pendulum-v1", out=tmp_path / "longer", **noisy | {"steps": 30})
    bires.resume(tmp_path / "longer", steps=60, quiet=True, workers=0)
    assert contents(tmp_path / "straight") == contents(tmp_path / "longer")
