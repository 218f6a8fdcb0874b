"""Whole runs of TD3 and SAC: they learn, mix rules, continue exactly, plan, and are compared."""

from typing import Any

import numpy as np
import pytest

import bires
from bires.agents.registry import AGENTS
from bires.settings.comparison import compared
from tests.helpers import (
    LEARNING,
    PROBE,
    arrays,
    assert_same_moment,
    configured,
    straight_and_stopped,
    typed,
    values_of,
)

LEARN = LEARNING | {"steps": 1500, "eval_every": 1500, "log_every": 500, "batch": 32}
LEARN |= {"critic_lr": 3e-3, "actor_lr": 3e-3, "tau": 0.05}
OWN: dict[str, dict[str, Any]] = {"td3": {}, "sac": {"alpha": 1e-3, "alpha_lr": 0.0}}
FIRST = ["td3", pytest.param("sac", marks=pytest.mark.slow)]


@pytest.mark.parametrize("agent", FIRST)
def test_rules_learn_the_values_of_two_steps(agent, tmp_path):
    """Q(0) = γ and Q(1) = 1. As with DDPG, wirings whose δ reads the target at the predecessor are slower."""
    run = bires.train(
        PROBE + "TwoSteps-v0", algorithm=list(AGENTS[agent].algorithms)[:6], out=tmp_path / "run", **LEARN | OWN[agent]
    )
    for observation, value in {0.0: 0.9, 1.0: 1.0}.items():
        found = dict(zip([row["rule"] for row in run.members.rows()], values_of(run, [observation]), strict=True))
        for rule in ("td", "res", "to", "bi"):
            assert found[rule] == pytest.approx(value, abs=0.1), (rule, found)


@pytest.mark.slow
@pytest.mark.parametrize("agent", OWN)
def test_the_actor_finds_the_best_action(agent, tmp_path):
    run = bires.train(
        PROBE + "Target-v0", algorithm=[agent, f"bi-res-{agent}"], out=tmp_path / "run", **LEARN | OWN[agent]
    )
    for member in range(2):
        assert float(run.policy(member)([0.0])[0]) == pytest.approx(0.5, abs=0.15)


@pytest.mark.parametrize("agent", FIRST)
def test_a_run_stopped_in_the_middle_ends_as_if_undisturbed(agent, tmp_path, quick, stepwise):
    """Also between an update of the critics and the delayed one of the actor."""
    quick |= {"algorithm": [agent, f"bi-res-{agent}"], "steps": 70, "eta": [0.05, 1.0], "layer_norm": True}
    quick |= {"update_every": 3, "update_times": 3, "fresh_action": True, "forward_successor": "own", "critics": 3}
    config = configured(quick)
    straight, stopped = straight_and_stopped(config, tmp_path, 24, 40, 55)
    assert_same_moment(straight, stopped, capacity=50)
    found = arrays(straight)
    updates = -(-(70 - config.warmup) // 3) * 3
    assert set(found["state/learner.critics.adam.updates"]) == {updates}
    assert set(found["state/learner.actor_adam.updates"]) == {updates // 2 if agent == "td3" else updates}


@pytest.mark.parametrize("agent", FIRST)
def test_dyna_without_planning_steps_is_the_plain_agent_bit_for_bit(agent, tmp_path, quick):
    mixed = bires.train(
        "Hopper", algorithm=[agent, f"dyna-{agent}"], planning_steps=[0, 1], out=tmp_path / "run", **quick
    )
    learners = [
        {name: array[member] for name, array in arrays(mixed.path).items() if name.startswith("state/learner.")}
        for member in range(3)
    ]
    for name, array in learners[0].items():
        np.testing.assert_array_equal(array, learners[1][name], err_msg=name)
    assert any(not np.array_equal(array, learners[2][name]) for name, array in learners[0].items())


@pytest.mark.slow
@pytest.mark.parametrize("model", ["oracle", "learned"])
def test_td3_plans_with_the_oracle_and_with_learned_models(model, tmp_path, quick, whole):
    planning = {"model": model, "model_scale": "small", "ensemble": 2, "planning_steps": 2}
    run = bires.train("Hopper", algorithm=["res-dyna-td3", "mve-td3"], out=tmp_path / "run", **planning, **quick)
    assert [row["status"] for row in run.members.rows()] == ["finished"] * 2
    losses = [row["imagined_loss"] for row in run.metrics.rows() if row["member"] == 0]
    assert np.isfinite(losses[-1])
    assert losses[-1] > 0


def test_sac_refuses_value_expansion(tmp_path, quick):
    with pytest.raises(bires.UserError, match=r"'mve-td-sac' has the planner 'mve', whose loss SAC cannot take"):
        bires.train("Hopper", algorithm="sac", planner="mve", out=tmp_path / "run", **quick)


def test_what_compare_trains_is_chosen_by_agent_or_by_task():
    assert compared("Pendulum-v1", "td3") == ("td3", "bi-res-td3")
    assert compared("Pendulum-v1") == compared("walker-stand") == ("ddpg", "bi-res-ddpg")
    assert compared("CartPole-v1") == ("dqn", "bi-res-dqn")
    assert compared("ALE/Pong-v5") == ("dqn", "bi-res-dqn")
    with pytest.raises(bires.UserError, match=r"Unknown agent 'tdd'\. Did you mean 'td3'"):
        compared("Pendulum-v1", "tdd")


def test_compare_names_the_agent_on_the_command_line(tmp_path):
    words = [
        "--seeds",
        "1",
        "--steps",
        "130",
        "--eval-every",
        "130",
        "--eval-episodes",
        "1",
        "--hidden",
        "8",
        "8",
        "--quiet",
        "--workers",
        "0",
    ]
    said = typed("compare", "Pendulum-v1", "--agent", "sac", *words, "--out", str(tmp_path / "run"))
    assert said.returncode == 0
    assert bires.load(tmp_path / "run").members["algorithm"].tolist() == ["sac", "bi-res-sac"]
    both = typed("compare", "Pendulum-v1", "--agent", "sac", "--algorithm", "td3", *words)
    assert (both.returncode, "--agent td3 is short for --algorithm td3 bi-res-td3" in both.stderr) == (2, True)
    foreign = typed("compare", "Pendulum-v1", "--agent", "td3", "--alpha", "0.1", *words)
    assert (foreign.returncode, "--alpha is not a setting of TD3; it belongs to SAC" in foreign.stderr) == (2, True)
