"""A user's own planner, in one file that the package does not know (tests/own_planner.py)."""

from typing import Any

import jax
import numpy as np
import pytest

import bires
from bires.cli import main
from bires.errors import UserError
from bires.planning import registry
from bires.population.program import hypers, make_program
from bires.settings import grid
from bires.settings.keywords import make_config
from bires.types import Space
from tests.own_planner import KIND

SETTINGS: dict[str, Any] = {
    "algorithm": "ddpg",
    "planner": ["dyna", "tests.own_planner:walk"],
    "walk_steps": [1, 2],
    "planning_noise": 0.1,
    "steps": 60,
    "warmup": 20,
    "eval_every": 60,
    "eval_episodes": 1,
    "log_every": 20,
    "batch": 8,
    "hidden": (16, 16),
    "workers": 0,
    "quiet": True,
}


@pytest.mark.parametrize("names", [("tests.own_planner:swerve", "dyna"), ("none", "tests.own_planner:walk")])
def test_parts_of_a_population_plan_by_the_same_program(names):
    """A cohort whose members have no rival of the rules, or no such planner, runs what the other cohorts run."""
    config = make_config("Pendulum-v1", {"algorithm": "ddpg", "planner": names, "hidden": (8, 8)})
    members = grid.members(config)
    program = make_program(config, members, Space(3, 1, (-1.0,), (1.0,)), 100)
    one, other = (hypers(program, [member]) for member in members)
    assert str(jax.tree.structure(one)) == str(jax.tree.structure(other))
    assert [x.dtype for x in jax.tree.leaves(one)] == [x.dtype for x in jax.tree.leaves(other)]


def test_planners_that_share_a_number_leave_each_others_members_alone(tmp_path, whole):
    """Both kinds add Dyna's updates, P of them: a member has those of its own kind."""
    settings = SETTINGS | {"planning_steps": 2}
    settings.pop("walk_steps")
    alone, beside = (
        bires.train("pendulum-swingup", out=tmp_path / str(len(names)), **settings | {"planner": names})
        for names in (["dyna"], ["dyna", "tests.own_planner:far"])
    )
    mine = beside.metrics.where(beside.metrics["member"] == 0)
    for name in ("critic_loss", "imagined_loss"):
        np.testing.assert_allclose(mine[name], alone.metrics[name], rtol=1e-5, err_msg=name)


@pytest.mark.parametrize("model", ["oracle", pytest.param("learned", marks=pytest.mark.slow)])
def test_it_plans_beside_ours_in_one_population(tmp_path, model, whole):
    more: dict[str, Any] = {"model_scale": "small"} if model == "learned" else {}
    run = bires.train("pendulum-swingup", out=tmp_path / "run", model=model, **SETTINGS, **more)
    assert list(run.members["algorithm"]) == ["dyna-ddpg", "walk-td-ddpg", "walk-td-ddpg"]
    assert list(run.members["walk_steps"])[1:] == [1, 2]
    assert np.isnan(run.members["walk_steps"][0])
    last = run.metrics.where(run.metrics["step"] == 60)
    assert (last["imagined_loss"] > 0).all()
    assert len(set(last["critic_loss"])) == 3, "a longer rollout changes what is learned"


def test_a_kind_with_the_name_of_another_is_refused(elsewhere):
    """It would take that one's place in a population, whose members would plan nothing."""
    lines = [
        "from dataclasses import replace",
        "from bires.planning import dyna",
        "from bires.planning.base import PlannerSpec",
        "KIND = replace(dyna.KIND, start='after')",
        "MINE = PlannerSpec('mine', KIND, 'td', ('planning_steps',), 'Dyna from successors')",
    ]
    (elsewhere / "my_kind.py").write_text("\n".join(lines))
    with pytest.raises(UserError, match="has the name 'dyna', which another kind has"):
        registry.planner("my_kind:mine")
    assert "mine" not in registry.PLANNERS


def test_a_wrong_planner_or_setting_is_refused(capsys):
    assert main(["train", "pendulum-swingup", "--planner", "tests.environments:walk"]) == 2
    assert "has no PlannerSpec" in capsys.readouterr().err
    assert main(["train", "pendulum-swingup", "--planner", "tests.own_planner:walk", "--walk-steps", "0"]) == 2
    assert "--walk-steps was given 0; accepted: whole numbers from 1." in capsys.readouterr().err
    assert registry.PLANNERS["walk"].kind is KIND
