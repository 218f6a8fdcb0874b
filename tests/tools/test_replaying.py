"""Episodes of a run's training, made anew from its replay: what the environment did, not what learners saw."""

import json
from typing import Any

import numpy as np
import pytest

import bires
from bires.envs.slots import TRAIN, episode_seed
from bires.errors import UserError
from bires.runs.run import Run
from bires.tools.replaying import replayed
from tests.helpers import PROBE, typed

RANDOM: dict[str, Any] = {"algorithm": "dqn", "steps": 120, "warmup": 119, "eval_every": 60, "log_every": 60}
"""Random actions but for the last: the same whatever the replay's size."""


def episodes(path, member=0, most=None):
    return replayed(Run(path), member, most)[1]


def test_a_replay_that_lost_its_first_steps_has_the_last_episodes(undisturbed):
    whole = episodes(undisturbed("CartPole-v1", replay=120, **RANDOM))
    part = episodes(undisturbed("CartPole-v1", replay=70, **RANDOM))
    lengths = [len(one.actions) for one in whole]
    assert 1 < len(part) < len(whole)
    assert sum(lengths) <= 120
    for one, same in zip(part, whole[-len(part) :], strict=True):
        assert one.seed == same.seed
        np.testing.assert_array_equal(one.observations, same.observations)
        np.testing.assert_array_equal(one.actions, same.actions)
        assert one.rewards == same.rewards == [1.0] * len(one.actions)
        assert one.terminated
        assert len(one.observations) == len(one.actions) + 1
    newest = episodes(undisturbed("CartPole-v1", replay=120, **RANDOM), most=2)
    assert [one.seed for one in newest] == [one.seed for one in whole[-2:]]


def test_rewards_and_ends_are_those_of_the_environment(undisturbed):
    """Learners saw a tenth of the rewards, and an end where there was a time limit."""
    settings = {"steps": 420, "warmup": 400, "eval_every": 420, "replay": 420, "log_every": 420}
    run = Run(undisturbed(protocol="paper", reward_scale=0.1, **settings))
    found = episodes(run.path)
    assert [len(one.actions) for one in found] == [200, 200]
    assert not any(one.terminated for one in found)
    returns = [sum(one.rewards) for one in found]
    assert np.mean(returns) == pytest.approx(float(run.metrics["train_return_mean"][0]), rel=1e-6)


@pytest.mark.parametrize(
    ("probe", "protocol", "replay", "lengths"),
    [
        ("ConstantReward-v0", "modern", 60, [1] * 60),
        ("ConstantReward-v0", "modern", 50, [1] * 49),
        ("Clock-v0", "modern", 60, [5] * 12),
        ("Clock-v0", "paper", 50, [5] * 9),
    ],
)
def test_episodes_that_start_in_the_state_where_others_end_are_told_apart(
    undisturbed, probe, protocol, replay, lengths
):
    run = Run(undisturbed(PROBE + probe, protocol=protocol, replay=replay))
    found = episodes(run.path)
    assert [len(one.actions) for one in found] == lengths
    numbers = range(60 // lengths[0] - len(lengths), 60 // lengths[0])
    assert [one.seed for one in found] == [episode_seed(0, TRAIN, number) for number in numbers]


def test_pixels_come_back_whole(undisturbed):
    run = Run(undisturbed("MinAtar/Breakout", algorithm="dqn", steps=80, warmup=70, replay=80, eval_every=80))
    found = episodes(run.path)
    assert found
    assert found[0].observations[0].shape == (4 * 10 * 10,)
    assert found[0].observations[0].dtype == np.uint8


def test_a_member_that_was_stopped_has_the_episodes_before(tmp_path):
    def stop(seen):
        return [0] if seen.step == 60 else None

    quick = RANDOM | {"replay": 120, "eval_episodes": 1, "hidden": (16, 16), "quiet": True}
    run = bires.train("CartPole-v1", out=tmp_path / "run", seed=(3, 4), callback=stop, **quick)
    assert sum(len(one.actions) for one in episodes(run.path, 0)) <= 60
    assert sum(len(one.actions) for one in episodes(run.path, 1)) > 60


def test_a_dataset_of_the_replay(undisturbed, tmp_path, monkeypatch):
    import minari

    path = undisturbed("CartPole-v1", replay=120, **RANDOM)
    words = ["--to", "minari", "--source", "replay", "--episodes", "3", "--out", str(tmp_path / "sets")]
    said = typed("export", str(path), *words)
    assert said.returncode == 0, said.stderr
    assert "3 whole episodes of CartPole-v1, of the training of dqn" in " ".join(said.stdout.split())
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "sets"))
    found = minari.load_dataset("bires/CartPole-v1/dqn-member-0-replay-v0")
    loaded = list(found.iterate_episodes())
    for one, same in zip(loaded, episodes(path, most=3), strict=True):
        np.testing.assert_array_equal(one.observations, same.observations)
        assert one.terminations.tolist() == [False] * (len(same.actions) - 1) + [True]
    about = json.loads((tmp_path / "sets" / found.id / "data" / "metadata.json").read_text())
    assert "with its exploration" in about["description"]


def test_refusals(undisturbed):
    with pytest.raises(UserError, match="holds no whole episode yet"):
        episodes(undisturbed())
    with pytest.raises(UserError, match="member 0 alone"):
        episodes(undisturbed(), member=1)
    with pytest.raises(UserError, match="source was given 'past'"):
        bires.export(undisturbed(), to="minari", source="past")  # type: ignore[arg-type]
