"""Whole runs of CrossQ: they learn, continue exactly, and their policies leave."""

import numpy as np
import pytest

import bires
from tests.helpers import assert_same_moment, configured, straight_and_stopped, values_of

SMALL = {"critic_width": 16, "critics": 2}


def test_a_run_stopped_in_the_middle_ends_as_if_undisturbed_and_its_policy_leaves(tmp_path, quick, stepwise):
    algorithms = ["crossq", "bi-res-crossq", "qrc-crossq"]
    config = configured(quick | SMALL, algorithm=algorithms, steps=70, eta=[0.05], policy_delay=2)
    straight, stopped = straight_and_stopped(config, tmp_path, 24, 41)
    assert_same_moment(straight, stopped, capacity=50)
    policy = bires.Run(straight).policy(1)
    path = policy.save(tmp_path / "policy.safetensors")  # which checks that the file acts as the policy does
    assert path.stat().st_size > 0
    assert np.isfinite(bires.Run(straight).metrics["alpha"][-3:]).all()


@pytest.mark.slow
def test_values_of_two_steps_are_learned(tmp_path):
    """Q(0) = γ and Q(1) = 1, nearly without entropy."""
    run = bires.train(
        "tests.environments:bires-test/TwoSteps-v0",
        algorithm=["crossq", "res-crossq", "bi-res-crossq"],
        eta=0.05,
        steps=2500,
        warmup=100,
        batch=64,
        eval_every=2500,
        eval_episodes=1,
        hidden=(32, 32),
        critic_width=32,
        gamma=0.9,
        tau=0.05,
        alpha=1e-3,
        alpha_lr=0.0,
        out=tmp_path / "run",
        quiet=True,
    )
    for observation, value in {0.0: 0.9, 1.0: 1.0}.items():
        found = values_of(run, [observation])
        assert found == pytest.approx([value] * 3, abs=0.15), (observation, found)
