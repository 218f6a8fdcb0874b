"""Verdicts: each answer is reached, and only when the curves say so."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from bires.analysis import summary
from bires.analysis.curves import collect
from bires.analysis.intervals import Estimate
from bires.cli.reproducing import finish
from bires.settings.keywords import make_config
from bires.studies import claims, plan
from bires.studies.beyond import BEYOND
from bires.studies.records import STUDIES
from bires.studies.reporting import about, judge, notes, own, report
from bires.studies.study import Part, Study
from bires.training.display import Display
from tests.synthetic import PAIR, make_run, panels_of


def test_a_claim_without_an_interval_is_json_too(tmp_path, capsys):
    """A single seed has no interval."""
    (panel,) = panels_of(tmp_path, lambda member: 1.0, tasks=("walker-stand",), seeds=1)
    written = report(panel.runs, tmp_path / "report", "auc", "")
    finish("auc", written, tmp_path / "report", Display(as_json=True))
    done = json.loads(capsys.readouterr().out, parse_constant=str)
    assert {claim["low"] for claim in done["claims"]} == {None}


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
def test_the_improvement_of_the_auc_is_judged_by_its_interval(tmp_path, gain, answer):
    panels = panels_of(tmp_path, lambda member: 1.0 if member.eta is None else gain)
    median, mean = judge(STUDIES["auc"], panels)
    assert (median.answer, mean.answer) == (answer, answer)
    assert median.value is not None
    assert median.value.value == pytest.approx(0.8 * (gain - 1) / 1.8, abs=0.02)
    assert (median.paper, mean.paper) == ("+20%", "+41%")
    assert (median.interval, mean.interval) == ("paired", "paired")


def test_the_improvement_of_the_auc_is_over_tasks_that_at_least_one_algorithm_learned(tmp_path):
    nobody = panels_of(tmp_path, lambda member: 0.1)
    assert [judged.answer for judged in judge(STUDIES["auc"], nobody)] == ["no data", "no data"]


def test_the_median_is_over_all_tasks_as_the_papers_and_the_mean_over_those_learned(tmp_path):
    learned = panels_of(tmp_path / "learned", lambda member: 1.0 if member.eta is None else 1.3)
    tasks = ("walker-run", "cheetah-run", "hopper-hop")
    flat = panels_of(tmp_path / "flat", lambda member: 0.1, tasks=tasks)
    median, mean = judge(STUDIES["auc"], [*learned, *flat])
    assert median.value is not None
    assert mean.value is not None
    assert median.value.value == pytest.approx(0.0, abs=0.03)
    assert mean.value.value == pytest.approx(0.8 * 0.3 / 1.8, abs=0.02)


def test_a_median_over_all_tasks_leaves_out_none_whose_baseline_is_nothing(tmp_path):
    """The ratio is infinite there, or 0 where both are nothing: both have their place beside a median."""
    settings: dict[str, Any] = {"algorithm": ("ddpg", "bi-res-ddpg"), "seeds": 5, "steps": 40, "warmup": 1}
    levels = {"walker-stand": (100.0, 130.0), "walker-walk": (100.0, 140.0), "hopper-hop": (0.0, 0.0)}

    def runs(tasks):
        for task in tasks:
            base, other = levels[task]
            config = replace(make_config(task, settings), eval_every=10)

            def rise(member, step, steps, ends=(base, other)):
                return ends[member.eta is not None] * (1 + 5 * (step > 0))

            yield make_run(tmp_path / task, config, rise)

    panels = collect(runs(levels))
    (median, _), (total,) = judge(STUDIES["auc"], panels), [one for one in summary.find(panels).totals if one.interval]
    assert median.value is not None
    assert median.value.value == pytest.approx(0.3)  # of 0 %, 30 % and 40 %
    assert total.median_of_all == median.value
    assert total.median_improvement is not None
    assert total.median_improvement.value == pytest.approx(0.35)  # of those that were learned


def test_claims_of_failing_of_being_similar_and_of_the_best_eta(tmp_path):
    best = {
        0.0: 1.0,
        0.4: 0.9,
        1.0: 0.2,
    }  # the AUC of the worst is 65 % of the best's: it is what was learned that counts
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


def test_the_best_eta_is_open_with_one_seed_and_between_equals(tmp_path):
    """A share of resamples said yes for one seed, and with five for one of two equal η in every tenth case."""
    settings = {"algorithm": ("to-res-ddpg",), "eta": (0.0, 0.4)}
    claim = claims.best_eta("to-res-ddpg", 0.0)
    one = panels_of(tmp_path / "a", lambda m: 1.0 - m.eta, ("walker-stand",), **settings, seeds=1)
    assert claim.measure(one).answer == "open"
    luck = np.random.default_rng(0).normal(size=(5, 2))
    five = panels_of(tmp_path / "b", lambda m: 5 + luck[m.seed, int(m.eta > 0)], ("walker-stand",), **settings)
    assert claim.measure(five).answer == "open"


def test_untrained_policies_are_alike_which_says_nothing(tmp_path):
    claim = claims.similar("bi-res-ddpg(0.05)", "ddpg")
    assert claim.measure(panels_of(tmp_path / "a", lambda member: 1.0)).answer == "yes"
    found = claim.measure(panels_of(tmp_path / "b", lambda member: 0.0))
    assert found.answer == "open"
    assert found.value is not None
    assert found.value.high < 0.2  # the interval alone would have said yes


def test_a_tie_does_not_outperform(tmp_path):
    claim = claims.not_better("to-res-ddpg(0)", "bi-res-ddpg(0)", "walker-stand")
    settings = {"algorithm": ("bi-res-ddpg", "to-res-ddpg"), "eta": (0.0,)}
    panels = panels_of(tmp_path, lambda member: 1.0, ("walker-stand",), **settings)
    assert claim.measure(panels).answer == "yes"


def test_a_baseline_of_nothing_on_one_task_does_not_decide_over_several(tmp_path):
    """The ratio to it is infinite; the mean difference of scores is not."""
    good = panels_of(tmp_path / "a", lambda member: 3.0 if member.eta else 1.0)
    config = make_config("walker-run", {"algorithm": ("ddpg", "bi-res-ddpg"), "seeds": 5, "steps": 40, "warmup": 1})
    config = replace(config, eval_every=10)
    run = make_run(tmp_path / "b", config, lambda member, step, steps: float(bool(member.eta and step)))
    found = claims.better("bi-res-ddpg(0.05)", "ddpg").measure([*good, *collect([run])])
    assert found.answer == "yes"
    assert found.unit == "number"


def test_steadier_means_less_spread_between_seeds(tmp_path):
    steady = panels_of(tmp_path / "a", lambda m: 1.0 if m.eta else 1.0 + m.seed, ("walker-stand",))
    assert claims.steadier("bi-res-ddpg(0.05)", "nobody").measure(steady).answer == "no data"
    claim = claims.steadier("bi-res-ddpg(0.05)", "ddpg")
    assert claim.measure(steady).answer == "yes"
    wild = panels_of(tmp_path / "b", lambda m: 1.0 + m.seed if m.eta else 1.0, ("walker-stand",))
    assert claim.measure(wild).answer == "no"


def test_wins_are_counted_over_all_tasks_of_a_claim(tmp_path):
    three = panels_of(tmp_path, lambda m: 1.0 if m.eta is None else 2.0, ("walker-stand", "walker-walk", "walker-run"))
    assert claims.wins("bi-res-ddpg(0.05)", 3, 3).measure(three).answer == "yes"
    assert claims.wins("bi-res-ddpg(0.05)", 2, 3).measure(three).answer == "no"
    assert claims.wins("bi-res-ddpg(0.05)", 3, 5).measure(three).answer == "open"  # two tasks were not run
    assert claims.wins("dyna-ddpg", 3, 3).measure(three).answer == "no data"


def test_no_algorithm_fails_while_the_baseline_has_learned_nothing(tmp_path):
    """An untrained policy may have most of the baseline's AUC: then neither yes nor no can be said."""
    claim = claims.fails("to-res-ddpg(1)", "to-res-ddpg(0)")
    for number, (base, other, answer) in enumerate(
        [
            (1.0, 0.0, "yes"),
            (1.0, 0.3, "yes"),
            (1.0, 0.8, "no"),
            (0.2, 0.0, "open"),
            (0.0, 1.0, "open"),
            (-0.5, -0.9, "open"),
        ]
    ):
        levels = {0.0: base, 1.0: other}
        settings = {"algorithm": ("to-res-ddpg",), "eta": (0.0, 1.0)}
        panels = panels_of(tmp_path / str(number), lambda m, at=levels: at[m.eta], ("walker-stand",), **settings)
        found = claim.measure(panels)
        assert found.answer == answer, (base, other)
        if answer == "open":
            assert found.value is not None
            assert np.isnan(found.value.low)


def test_claims_look_at_their_own_model_and_count_each_task_once(tmp_path):
    """Dyna is ahead with the simulator and behind with a learned model, of which there are two runs."""
    settings: dict[str, Any] = {"algorithm": ("ddpg", "dyna-ddpg", "res-dyna-ddpg", "mve-ddpg")}

    def level(sign):
        return lambda m: 1.0 if m.planner is None else 1.0 + sign * 0.5

    kinds: dict[str, tuple[int, dict[str, Any]]] = {
        "oracle": (1, {}),
        "learned": (-1, {"model": "learned"}),
        "again": (-1, {"model": "learned", "ensemble": 2}),
    }
    panels = [
        panel
        for name, (sign, more) in kinds.items()
        for panel in panels_of(tmp_path / name, level(sign), ("Swimmer", "Hopper"), **settings, **more)
    ]
    panels = collect([run for panel in panels for run in panel.runs])
    assert len(panels) == 6
    assert [panel.title for panel in own(STUDIES["oracle"], panels)] == [
        "Swimmer, model=oracle",
        "Hopper, model=oracle",
    ]
    assert len(own(STUDIES["learned"], panels)) == 2
    wins = judge(STUDIES["oracle"], panels)[0]
    assert wins.value == Estimate(2, 2, 2)  # of 2 tasks, not of 6 panels
    behind = judge(STUDIES["learned"], panels)[0]
    assert behind.value is not None
    assert behind.value.high < 0
    told = " ".join(notes(STUDIES["oracle"], panels))
    assert "Not judged (another model, or the task a second time): Swimmer, model=learned, ensemble=1; " in told


def test_a_study_without_eta_can_be_judged(tmp_path, monkeypatch):
    panels = panels_of(tmp_path, lambda member: 1.0, ("walker-stand",), algorithm=("ddpg",))
    part = Part(("walker-stand",), {"algorithm": ("ddpg",)})
    monkeypatch.setitem(STUDIES, "plain", Study("no η", (part,), 5, "curves"))
    assert about(panels, "plain", "").title == "bires: plain"


def test_every_study_has_populations_that_can_be_trained():
    for name, study in STUDIES.items():
        assert study.summary
        for part in study.parts:
            assert "algorithm" in part.settings
        if study.runs_of:
            parent = STUDIES[study.runs_of]
            assert {t for p in study.parts for t in p.tasks} <= {t for p in parent.parts for t in p.tasks}
        assert study.figure == "lab" or plan.jobs(name, "paper", plan.default_out(name, "paper"), {})


@pytest.mark.parametrize(
    "name", [*BEYOND, *(name for name, study in STUDIES.items() if study.claims and name != "linear")]
)
def test_the_claims_of_a_study_find_the_curves_of_its_populations(name, tmp_path):
    """A label that no population has would be `no data` for ever."""
    few = {"steps": 400, "warmup": 10, "eval_every": 200, "seeds": 2}
    panels = collect(make_run(job.path, job.config) for job in plan.jobs(name, "paper", tmp_path, few))
    found = judge(STUDIES[name], panels)
    assert found
    assert not [judged.statement for judged in found if judged.answer == "no data"]


def test_the_paper_scale_is_the_papers(tmp_path):
    jobs = plan.jobs("auc", "paper", tmp_path, {})
    assert len(jobs) == 33
    assert sum(job.members for job in jobs) == 330
    first = jobs[0].config
    assert (first.steps, first.eval_episodes, first.eval_every, first.protocol) == (10**6, 20, 10**4, "paper")
    (variants,) = plan.jobs("variants", "paper", tmp_path, {})
    assert variants.members == 5 * 7 * 5


def test_a_study_may_have_settings_of_its_own_at_a_scale(tmp_path):
    games, tasks = (plan.jobs(name, "laptop", tmp_path, {})[0].config for name in ("minatar", "modern"))
    assert (games.hidden, games.own["epsilon_steps"]) == ((128,), (12_500,))
    assert (tasks.hidden, tasks.steps) == ((64, 64), games.steps)
    whole = plan.jobs("minatar", "paper", tmp_path, {})[0].config
    assert (whole.steps, whole.own["epsilon_steps"]) == (500_000, (100_000,))
    assert plan.jobs("minatar", "laptop", tmp_path, {"hidden": (32,)})[0].config.hidden == (32,)
    (panel,) = collect([make_run(tmp_path / "run", games)])
    assert "epsilon_steps 12,500 instead of 100,000" in notes(STUDIES["minatar"], [panel])[0]


def test_a_baseline_is_nothing_by_the_tasks_scale(tmp_path):
    """Returns of 5 · 10⁻⁴ are below 10⁻⁶ of 1000: a ratio to them has no meaning."""
    config = make_config("walker-stand", {"algorithm": ("ddpg", "bi-res-ddpg"), "seed": (0, 1, 2), "steps": 40})
    run = make_run(tmp_path / "a", config, lambda member, step, steps: 5e-4 if member.eta is None else 500.0)
    found = claims.similar("bi-res-ddpg(0.05)", "ddpg").measure(collect([run])).value
    assert found is not None
    assert found.value == np.inf


def test_signs_are_judged_by_the_difference_on_one_task_too(tmp_path):
    """The interval of a ratio need not agree with that of its difference about zero; the tables show both."""
    (panel,) = collect([make_run(tmp_path / "a", PAIR)])
    found = claims.better("bi-res-ddpg(0.05)", "ddpg").measure([panel])
    row = summary.describe(panel.kinds[1], panel)
    assert found.value == row.difference
    assert found.unit == "number"


def test_equal_etas_are_seldom_told_from_the_best(tmp_path):
    """One interval of six being below zero by chance is no proof: each is as wide as six of them need."""
    rng = np.random.default_rng(0)
    config = make_config(
        "walker-stand", {"algorithm": "bi-res-ddpg", "eta": (0.05, 0.1, 0.2, 0.4), "seeds": 5, "steps": 100}
    )
    wrong = 0
    for repeat in range(60):
        luck = rng.normal(500, 100, (len(config.eta), 5))

        def flat(member, step, steps, luck=luck):
            return float(luck[config.eta.index(member.eta), member.seed])

        run = make_run(tmp_path / str(repeat), replace(config, eval_every=100), flat)
        wrong += claims.best_eta("bi-res-ddpg", 0.05).measure(collect([run])).answer == "no"
    assert wrong <= 5
