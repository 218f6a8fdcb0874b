"""Whole studies beyond the paper, with invented curves of the populations that they really train."""

import pytest

from bires.analysis.curves import collect
from bires.analysis.report.write import effects
from bires.analysis.summary import find
from bires.studies.plan import jobs
from bires.studies.records import STUDIES
from bires.studies.reporting import judge
from tests.synthetic import make_run

BEYOND = [name for name, study in STUDIES.items() if study.beyond]


def panels_of(name, folder):
    return collect([make_run(job.path, job.config) for job in jobs(name, "smoke", folder, {"eval_every": 100})])


@pytest.mark.parametrize("name", BEYOND)
def test_every_claim_finds_its_populations(tmp_path, name):
    found = judge(STUDIES[name], panels_of(name, tmp_path))
    assert {one.statement: one.answer for one in found if one.answer not in ("yes", "no", "open")} == {}


def test_worlds_of_different_noise_are_not_counted_together(tmp_path):
    """Second successors, which plan, are in the noisy panels alone: that must not hide the noise."""
    found = find(panels_of("stochastic", tmp_path))
    assert list(dict.fromkeys(total.tasks for total in found.totals)) == ["disturb=0", "disturb=0.1", "disturb=0.3"]
    drawn = {label: len(dots) for label, _, dots in effects(found)}
    assert drawn["res-ddpg(0.2), disturb=0"] == drawn["double-res-ddpg(0.2), disturb=0.3"] == 2
    assert "double-res-ddpg(0.2), disturb=0" not in drawn


def test_models_are_still_told_apart(tmp_path):
    runs = [job for name in ("oracle", "learned") for job in jobs(name, "smoke", tmp_path / name, {"eval_every": 100})]
    found = find(collect([make_run(job.path, job.config) for job in runs if job.config.task == "Swimmer"]))
    assert {total.tasks for total in found.totals} == {"model=oracle", "model=learned"}
