"""Verdicts: each answer is reached, and only when the curves say so."""

from typing import Any

import pytest

from bires.analysis.curves import collect
from bires.analysis.statistics import Estimate
from bires.settings.config import Config
from bires.studies import claims, plan
from bires.studies.records import STUDIES
from bires.studies.reporting import guess, judge, notes
from tests.synthetic import make_run


def panels_of(tmp_path, level, tasks=("walker-stand", "walker-walk"), seeds=5, **settings):
    """Panels in which a kind's curve is flat at ``level(member)`` plus a little of its seed's."""
    given: dict[str, Any] = {
        "algorithm": ("ddpg", "bi-res-ddpg"),
        "steps": 20,
        "warmup": 1,
        "eval_every": 10,
    } | settings
    runs = [
        make_run(
            tmp_path / task,
            Config(task, seed=tuple(range(seeds)), **given),
            lambda member, step, steps: level(member) + member.seed / 100,
        )
        for task in tasks
    ]
    return collect(runs)


@pytest.mark.parametrize(
    ("interval", "up", "down", "alike"),
    [
        ((0.1, 0.05, 0.15), "yes", "no", "yes"),
        ((-0.1, -0.15, -0.05), "no", "yes", "yes"),
        ((0.1, -0.1, 0.3), "open", "open", "open"),
        ((0.5, 0.3, 0.7), "yes", "no", "no"),
    ],
)
def test_an_interval_answers_only_when_it_lies_on_one_side(interval, up, down, alike):
    found = Estimate(*interval)
    assert claims.above(found, 0.0) == up
    assert claims.below(found, 0.0) == down
    assert claims.within(found, 0.2) == alike


@pytest.mark.parametrize(("gain", "answer"), [(1.3, "yes"), (0.7, "no"), (1.0, "open")])
def test_the_headline(tmp_path, gain, answer):
    panels = panels_of(tmp_path, lambda member: 1.0 if member.eta is None else gain)
    median, mean = judge(STUDIES["auc"], panels)
    assert (median.answer, mean.answer) == (answer, answer)
    assert median.value is not None
    assert median.value.value == pytest.approx((gain - 1) / 1.02, abs=1e-3)
    assert (median.paper, mean.paper) == ("+20%", "+41%")


def test_failing_being_alike_and_being_best(tmp_path):
    best = {0.0: 1.0, 0.4: 0.9, 1.0: 0.2}
    panels = panels_of(tmp_path, lambda m: best[m.eta], ("walker-stand",), algorithm=("to-res-ddpg",), eta=tuple(best))
    answers = {
        "fails": claims.fails("to-res-ddpg(1)", "to-res-ddpg(0)"),
        "does not": claims.fails("to-res-ddpg(0.4)", "to-res-ddpg(0)"),
        "alike": claims.similar("to-res-ddpg(0.4)", "to-res-ddpg(0)"),
        "best": claims.best_eta("to-res-ddpg", 0.0),
        "not best": claims.best_eta("to-res-ddpg", 1.0),
        "missing": claims.better("res-ddpg(0)", "to-res-ddpg(0)"),
    }
    found = {name: claim.measure(panels).answer for name, claim in answers.items()}
    assert found == {
        "fails": "yes", "does not": "no", "alike": "yes", "best": "yes", "not best": "no", "missing": "no data",
    }  # fmt: skip


def test_steadier(tmp_path):
    steady = panels_of(tmp_path / "a", lambda m: 1.0 if m.eta else 1.0 + m.seed, ("walker-stand",))
    claim = claims.steadier("bi-res-ddpg(0.05)", "ddpg")
    assert claim.measure(steady).answer == "yes"
    wild = panels_of(tmp_path / "b", lambda m: 1.0 + m.seed if m.eta else 1.0, ("walker-stand",))
    assert claim.measure(wild).answer == "no"


def test_counting_wins(tmp_path):
    three = panels_of(tmp_path, lambda m: 1.0 if m.eta is None else 2.0, ("walker-stand", "walker-walk", "walker-run"))
    assert claims.wins("bi-res-ddpg(0.05)", 3, 3).measure(three).answer == "yes"
    assert claims.wins("bi-res-ddpg(0.05)", 2, 3).measure(three).answer == "no"
    assert claims.wins("bi-res-ddpg(0.05)", 3, 5).measure(three).answer == "open"  # two tasks were not run
    assert claims.wins("dyna-ddpg", 3, 3).measure(three).answer == "no data"


def test_a_report_says_what_falls_short_of_the_paper(tmp_path):
    panels = panels_of(tmp_path, lambda member: 1.0, seeds=3, eval_episodes=5)
    assert guess(panels) == "auc"
    (first,) = notes(STUDIES["auc"], panels)
    assert "2 of 33 tasks; 20 of 1,000,000 steps; 3 of 5 seeds; 5 of 20 evaluation episodes; protocol modern" in first
    four = panels_of(tmp_path / "mujoco", lambda member: 1.0, ("HalfCheetah", "Walker2d", "Hopper", "Swimmer"))
    assert "Not run: Humanoid." in notes(STUDIES["mujoco"], four)


def test_every_study_is_complete_or_says_what_it_lacks():
    for name, study in STUDIES.items():
        assert study.summary
        lacking = plan.missing(study)
        for part in study.parts:
            assert "algorithm" in part.settings
            assert {"eta", "planning_eta"} & part.settings.keys()
        if study.runs_of:
            parent = STUDIES[study.runs_of]
            assert {t for p in study.parts for t in p.tasks} <= {t for p in parent.parts for t in p.tasks}
        assert lacking or study.figure == "lab" or plan.jobs(name, "paper", plan.default_out(name, "paper"), {})


def test_the_paper_scale_is_the_papers(tmp_path):
    jobs = plan.jobs("auc", "paper", tmp_path, {})
    assert len(jobs) == 33
    assert sum(job.members for job in jobs) == 330
    first = jobs[0].config
    assert (first.steps, first.eval_episodes, first.eval_every, first.protocol) == (10**6, 20, 10**4, "paper")
    (variants,) = plan.jobs("variants", "paper", tmp_path, {})
    assert variants.members == 5 * 7 * 5
