"""A user's own planner, in one file that the package does not know (tests/own_planner.py)."""

from typing import Any

import jax
import numpy as np
import pytest

import bires
from bires.cli import main
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


def test_parts_of_a_population_plan_by_the_same_program():
    """A cohort whose members do not plan by a rival of the rules runs what the other cohorts run."""
    name = "tests.own_planner:swerve"
    config = make_config("Pendulum-v1", {"algorithm": "ddpg", "planner": [name, "dyna"], "hidden": (8, 8)})
    members = grid.members(config)
    program = make_program(config, members, Space(3, 1, (-1.0,), (1.0,)), 100)
    one, other = (str(jax.tree.structure(hypers(program, [member]))) for member in members)
    assert one == other


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


def test_a_wrong_planner_or_setting_is_refused(capsys):
    assert main(["train", "pendulum-swingup", "--planner", "tests.environments:walk"]) == 2
    assert "has no PlannerSpec" in capsys.readouterr().err
    assert main(["train", "pendulum-swingup", "--planner", "tests.own_planner:walk", "--walk-steps", "0"]) == 2
    assert "--walk-steps was given 0; accepted: whole numbers from 1." in capsys.readouterr().err
    assert registry.PLANNERS["walk"].kind is KIND
