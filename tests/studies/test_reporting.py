"""What a study's report says of its runs: departures from the paper, what is judged, and what is not counted."""

from typing import Any

import pytest

from bires.analysis.curves import collect
from bires.errors import UserError
from bires.settings.keywords import changed, make_config
from bires.studies import plan
from bires.studies.records import STUDIES
from bires.studies.reporting import about, judge, made_by, notes, own
from tests.synthetic import PAIR, make_run, panels_of


@pytest.mark.parametrize("algorithm", ["sac", "crossq", "dqn"])
def test_runs_of_another_agent_than_a_studys_are_reported(tmp_path, algorithm):
    """They have no such settings as DDPG's noise, so they do not differ in these."""
    task = "CartPole-v1" if algorithm == "dqn" else "walker-stand"
    given = {"algorithm": algorithm, "steps": 400, "warmup": 10, "eval_every": 100}
    panels = collect([make_run(tmp_path / "run", make_config(task, given))])
    (note, *_) = notes(STUDIES["auc"], panels)
    assert "batch" in note
    assert "noise" not in note


def test_a_study_beyond_the_paper_is_held_against_itself(tmp_path):
    """Its populations without a planner are judged, too, and the paper's episodes and protocol are not asked for."""
    study = STUDIES["stochastic"]
    settings: dict[str, Any] = {"disturb": 0.1, "seeds": 5, "eval_episodes": 5, "eta": (0.05, 0.2)}
    panels = panels_of(tmp_path, lambda m: 1.0, ("Hopper",), algorithm=("ddpg", "bi-res-ddpg", "res-ddpg"), **settings)
    assert own(study, panels) == panels
    (first, *_) = notes(study, panels)
    assert first.startswith("Not as in the study: 1 of 2 tasks; 40 of 100,000 steps")
    assert "episodes" not in first
    assert "protocol" not in first


def test_a_report_says_what_falls_short_of_the_paper(tmp_path):
    panels = panels_of(tmp_path, lambda member: 1.0, seeds=3, eval_episodes=5)
    (first,) = notes(STUDIES["auc"], panels)
    assert "2 of 33 tasks; 40 of 1,000,000 steps; 3 of 5 seeds; 5 of 20 evaluation episodes; protocol modern" in first
    four = panels_of(tmp_path / "mujoco", lambda member: 1.0, ("HalfCheetah", "Walker2d", "Hopper", "Swimmer"))
    assert "Not run: Humanoid." in notes(STUDIES["mujoco"], four)


def test_every_departure_from_the_papers_settings_is_named(tmp_path):
    other: dict[str, Any] = {
        "algorithm": ("ddpg", "dyna-ddpg"),
        "tau": (0.005,),
        "warmup": 10,
        "actor_lr": (1e-3,),
        "critic_lr": (1e-4,),
        "batch": 32,
        "replay": 30,
        "noise": (0.1,),
        "gamma": (0.9,),
        "hidden": (64, 64),
        "activation": "tanh",
        "update_every": 2,
        "planning_steps": (4,),
        "planning_noise": (0.2,),
        "horizon": (2,),
        "mve_loss": "original",
        "model": "learned",
        "model_scale": "small",
        "ensemble": 2,
    }
    (first,) = (
        note
        for note in notes(STUDIES["learned"], panels_of(tmp_path, lambda m: 1.0, ("Hopper",), **other))
        if "Not the" in note
    )
    for text in (
        "tau 0.005 instead of 0.001",
        "warmup 10 instead of 10,000",
        "actor_lr 0.001 instead of 0.0001",
        "critic_lr 0.0001 instead of 0.001",
        "batch 32 instead of 64",
        "replay 30 instead of 1,000,000",
        "noise 0.1 instead of 0.2",
        "gamma 0.9 instead of 0.99",
        "hidden 64 and 64 instead of 400 and 300",
        "activation tanh instead of relu",
        "update_every 2 instead of 1",
        "eval_every 10 instead of 10,000",
        "planning_steps 4 instead of 1",
        "planning_noise 0.2 instead of 0.1",
        "horizon 2 instead of 3",
        "mve_loss original instead of paper",
        "model_scale small instead of paper",
        "ensemble 2 instead of 1",
        "protocol modern",
    ):
        assert text in first


def test_a_replay_as_large_as_the_run_and_the_size_of_no_model_are_no_departures(tmp_path):
    settings: dict[str, Any] = {"replay": 40, "model_scale": "small", "ensemble": 3}
    (first,) = notes(STUDIES["auc"], panels_of(tmp_path, lambda m: 1.0, **settings))
    assert "replay" not in first
    assert "model_scale" not in first
    assert "ensemble" not in first


def made_with(panels, *commands):
    """The panels as if these commands had made their runs."""
    for panel, command in zip(panels, commands, strict=True):
        for run in panel.runs:
            run.manifest["command"] = command
    return panels


@pytest.mark.parametrize(
    ("first", "second", "study"),
    [
        ("bires reproduce auc --scale small", "bires reproduce auc --scale small", "auc"),
        ("bires reproduce --out variants auc", "bires reproduce --quiet auc", "auc"),
        ("bires reproduce dmc", "bires reproduce auc", "auc"),  # which share their runs
        ("bires reproduce auc", "bires train walker-walk --algorithm ddpg bi-res-ddpg", None),
        ("bires reproduce auc", "bires reproduce variants", None),
        ("bires compare walker-stand", "bires.train(…)", None),
    ],
)
def test_claims_are_judged_for_runs_that_a_study_made(first, second, study, tmp_path):
    panels = made_with(panels_of(tmp_path, lambda member: 1.0), first, second)
    assert made_by(panels) == study


def test_a_comparison_of_ones_own_is_titled_by_its_tasks_and_not_judged(tmp_path):
    panels = panels_of(tmp_path, lambda member: 1.0)
    found = about(panels, made_by(panels), "")
    assert found.title == "bires: walker-stand, walker-walk"
    assert found.summary == "ddpg, bi-res-ddpg(0.05); 5 seeds each, 40 steps."
    assert not found.claims
    assert not found.notes
    many = panels_of(tmp_path / "many", lambda member: 1.0, (*STUDIES["mujoco"].parts[0].tasks, "fish-swim"))
    assert about([*many, *panels], None, "").title == "bires: 8 tasks"


def test_tasks_of_other_papers_and_other_names_of_a_task_are_not_counted(tmp_path):
    """Bi-Res wins on a task that is not the paper's, and loses on one that is there under two names."""
    tasks = ("Pendulum-v1", "walker-stand", "dm_control/walker-stand-v0")
    panels = [
        panel
        for i, task in enumerate(tasks)
        for panel in panels_of(
            tmp_path / str(i), lambda m, up=i == 0: 1.0 if m.eta is None else 1.5 if up else 0.5, (task,)
        )
    ]
    assert [panel.task for panel in own(STUDIES["auc"], panels)] == ["walker-stand"]
    found = about(panels, "auc", "")
    assert [judged.answer for judged in found.claims] == ["no", "no"]
    assert any("Not judged (not tasks of this study): Pendulum-v1." in note for note in found.notes)
    with pytest.raises(UserError, match=r"--study was given variants, whose tasks are walker-stand; .* Pendulum-v1"):
        about(panels[:1], "variants", "")


def test_a_study_is_judged_by_panels_of_its_own_protocol(tmp_path):
    modern = [
        make_run(job.path, job.config)
        for job in plan.jobs("modern", "smoke", tmp_path / "m", {"eval_every": 100})
        if job.config.task == "walker-run"
    ]
    other = make_run(tmp_path / "p", changed(PAIR, task="walker-run", protocol="paper", steps=4000))
    alone, beside = (judge(STUDIES["modern"], collect(runs)) for runs in (modern, [other, *modern]))
    assert [one.value for one in alone] == [one.value for one in beside]
    assert "no data" not in {one.answer for one in beside}


def test_another_version_of_a_task_is_a_departure(tmp_path):
    run = make_run(tmp_path / "a", changed(PAIR, task="Hopper-v5", protocol="paper"))
    assert any("Hopper-v5 instead of Hopper-v4" in note for note in notes(STUDIES["auc"], collect([run])))
    same = make_run(tmp_path / "b", changed(PAIR, task="Hopper-v4", protocol="paper"))
    assert not any("instead of Hopper" in note for note in notes(STUDIES["auc"], collect([same])))


def variants_runs(tmp_path, luck):
    """`bi` for 300 steps, and later `res` and `to` for 200 of the same 400, none of them finished."""
    settings = {"protocol": "paper", "steps": 400, "warmup": 10, "eval_every": 10, "seeds": 5, "eta": (0.0, 0.05)}

    def level(member, step, steps):
        """Much is learned at once; what only the longer run saw would turn every verdict about it."""
        late = 1000.0 * (member.eta == 0.0 and step > 200)
        return 100.0 * (step > 0) * (2.0 + 20 * member.eta) + late + 5 * luck(member)

    first, second = (make_config("walker-stand", {"algorithm": kinds, **settings}) for kinds in (BI, RES_AND_TO))
    return [
        make_run(tmp_path / "bi", first, level, upto=300),
        make_run(tmp_path / "others", second, level, upto=200),
    ]


BI, RES_AND_TO = ("bi-res-ddpg",), ("res-ddpg", "to-res-ddpg")
SAME = "are the same update, but their curves differ"


def test_runs_of_unequal_length_are_compared_over_what_both_have_and_the_notes_say_so(tmp_path):
    runs = variants_runs(tmp_path, lambda member: member.seed)
    panels = collect(runs)
    found = about(panels, "variants", "")
    assert "Not finished: bi (step 300 of 400), others (step 200 of 400)." in found.notes
    cut = "Cut to the steps that all of its curves have: walker-stand. Not used: bi after step 200 (it has 300)."
    assert cut in found.notes
    assert [note for note in about(panels, None, "").notes if note == cut]
    verdicts = {one.statement: one.answer for one in found.claims}
    assert verdicts["bi-res-ddpg(0.05) has a larger AUC than bi-res-ddpg(0) (difference of scores)"] == "yes"
    assert {len(kind.steps) for kind in panels[0].kinds} == {21}
    assert not any(note.startswith("Cut") for note in about(collect(runs[:1]), "variants", "").notes)


def test_a_study_says_whose_members_ended_early(tmp_path):
    """A claim that an algorithm fails reads otherwise if its members diverged."""
    config = changed(PAIR, protocol="paper")
    whole = notes(STUDIES["auc"], collect([make_run(tmp_path / "a", config)]))
    assert not any("last evaluation" in note for note in whole)
    panels = collect([make_run(tmp_path / "b", config, diverged={3: 150, 4: 350})])
    said = (
        "Their last evaluation stands for the rest of their curve: bi-res-ddpg(0.05) on walker-stand (2 of 3 diverged)."
    )
    assert said in notes(STUDIES["auc"], panels)


def test_one_update_by_two_programs_is_no_check_and_the_notes_say_so(tmp_path):
    """Rounding makes other runs of them: their difference is chance, not a defect."""
    apart = variants_runs(tmp_path / "a", lambda member: member.seed + (member.rule == "to"))
    assert any(SAME in note for note in about(collect(apart), "variants", "").notes)
    alike = variants_runs(tmp_path / "b", lambda member: member.seed)
    assert not any(SAME in note for note in about(collect(alike), "variants", "").notes)
