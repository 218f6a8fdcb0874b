"""The library's front door: what settings may be, what policies take, what a manifest says."""

import subprocess
from typing import Any

import gymnasium
import numpy as np
import pytest

import bires
from bires.runs import folder as runs
from bires.settings.keywords import make_config
from bires.settings.options import Options
from bires.training.launch import begin_or_continue


def test_a_commit_is_named_only_where_it_is_the_sources(tmp_path, monkeypatch):
    def git(*words):
        subprocess.run(["git", "-C", tmp_path, "-c", "user.name=x", "-c", "user.email=x@y.z", *words], check=True)

    source = tmp_path / "site-packages" / "runs.py"
    source.parent.mkdir()
    source.touch()
    git("init", "-q")
    git("commit", "-q", "--allow-empty", "-m", "somebody else's")
    monkeypatch.setattr(runs, "__file__", str(source))
    assert runs.commit() is None
    git("add", ".")
    git("commit", "-q", "-m", "ours")
    assert len(runs.commit() or "") == 40


def test_a_policy_takes_the_observations_of_its_task(tmp_path, quick):
    run = bires.train("cartpole-swingup", out=tmp_path / "run", **quick)
    policy = run.policy(member=0)
    env: Any = gymnasium.make("dm_control/cartpole-swingup-v0")
    observation, _ = env.reset(seed=0)
    flat: Any = gymnasium.spaces.flatten(env.observation_space, observation)
    assert isinstance(observation, dict)
    assert policy(observation).shape == (1,)
    np.testing.assert_array_equal(policy(observation), policy(flat))
    np.testing.assert_allclose(policy(np.stack([flat, flat]))[1], policy(flat), rtol=1e-5)
    with pytest.raises(bires.UserError, match=r"given 2 numbers.*5 numbers, or several"):
        policy([1.0, 2.0])


def test_a_short_run_is_evaluated_at_its_end(tmp_path, quick):
    assert make_config("Pendulum-v1", {"steps": 500}).eval_every == 500
    assert make_config("Pendulum-v1", {"steps": 50_000}).eval_every == 10_000
    said: list[str] = []
    config = make_config("pendulum-swingup", {k: v for k, v in quick.items() if k != "quiet"} | {"eval_every": 100})
    begin_or_continue(config, tmp_path / "run", Options(workers=0, say=said.append))
    assert any("no trained policy is evaluated" in text for text in said)
