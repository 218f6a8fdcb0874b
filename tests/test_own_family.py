"""A user's own family of pixel environments (tests/own_family.py) does all that Atari does."""

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import bires
from bires.agents.networks import choices, init_choices
from bires.analysis import scores
from bires.analysis.curves import collect
from bires.cli import main
from bires.envs.families import FAMILIES
from bires.envs.recipe import recipe
from bires.settings.keywords import make_config
from bires.settings.options import Options, Stopped
from bires.training.launch import begin_or_continue
from bires.types import Setting, Space
from tests import own_family
from tests.helpers import arrays, contents
from tests.own_family import SEEN
from tests.synthetic import make_run

TASK = "tests.own_family:mine/Lamp-v0"
SOURCE = Path(bires.__file__).parent
SPACE = Space(600, 1, (0.0,), (2.0,), choices=3, pixels=SEEN)
SETTINGS: dict[str, Any] = {
    "algorithm": ["dqn", "bi-res-dqn"],
    "seeds": 2,
    "lamps": 2,
    "steps": 90,
    "warmup": 30,
    "eval_every": 30,
    "eval_episodes": 2,
    "log_every": 30,
    "batch": 8,
    "replay": 64,
    "update_every": 2,
    "hidden": (16,),
}


def test_a_policy_says_what_it_was_given_wrongly(run):
    with pytest.raises(bires.UserError, match="The policy was given 7 numbers"):
        run.policy(0)(np.zeros(7))


def test_nothing_in_the_package_knows_it():
    text = "".join(path.read_text() for path in SOURCE.rglob("*.py"))
    assert not [word for word in ("own_family", "Lamp", "lamps") if word in text]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Trained at once, in this process."""
    return bires.train(TASK, out=tmp_path_factory.mktemp("own") / "run", workers=0, quiet=True, **SETTINGS)


def test_it_trains(run):
    assert run.config.own["lamps"] == 2
    assert set(run.members["status"]) == {"finished"}
    assert np.isfinite(run.metrics.where(run.metrics["step"] == 90)["critic_loss"]).all()


def test_workers_give_the_same_bytes(run, tmp_path):
    again = bires.train(TASK, out=tmp_path / "run", workers=2, quiet=True, **SETTINGS)
    assert contents(again.path) == contents(run.path)


def test_it_resumes_bit_for_bit(run, tmp_path):
    looks = iter([False] * 3 + [True] * 100)
    with pytest.raises(Stopped):
        begin_or_continue(make_config(TASK, SETTINGS), tmp_path / "run", Options(workers=0), lambda: next(looks))
    again = bires.resume(tmp_path / "run", workers=0, quiet=True)
    assert contents(again.path) == contents(run.path)


def test_it_is_evaluated_and_played(run, tmp_path, capsys):
    assert main(["evaluate", str(run.path), "--episodes", "2", "--member", "1"]) == 0
    assert "dqn" in capsys.readouterr().out
    assert main(["play", str(run.path), "--video", str(tmp_path / "lamp.gif")]) == 0
    assert (tmp_path / "lamp.gif").stat().st_size > 0


def test_its_policy_takes_observations_one_by_one_or_many(run):
    policy = run.policy(0)
    seen = np.random.default_rng(0).integers(0, 256, (5, 6, 10, 10), np.uint8)
    one = [policy(observation) for observation in seen]
    assert one[0].shape == ()
    np.testing.assert_array_equal(policy(seen), one)
    np.testing.assert_array_equal(policy(seen.reshape(5, -1)), one)
    assert policy(seen[0].reshape(-1)).shape == ()
    assert policy(seen[:1]).shape == policy(seen[:1].reshape(1, -1)).shape == (1,)


def rewards(path):
    """All rewards that learners saw."""
    numbers = [array for name, array in arrays(path).items() if name.endswith("numbers")]
    return set(np.concatenate(numbers, 1)[..., -2].flat)


def test_rewards_are_clipped_only_where_the_family_says_so(run, tmp_path, monkeypatch):
    assert rewards(run.path) == {5.0, -2.0}
    clipped = replace(own_family.FAMILY, pixels=SEEN._replace(clip_rewards=True))
    monkeypatch.setattr(own_family, "FAMILY", clipped)
    again = bires.train(TASK, out=tmp_path / "run", workers=0, quiet=True, **SETTINGS)
    assert rewards(again.path) == {1.0, -1.0}
    first = run.evaluations["step"] == 0
    np.testing.assert_array_equal(again.evaluations["return_mean"][first], run.evaluations["return_mean"][first])


@pytest.mark.parametrize("clipped", [False, True])
def test_nothing_is_expected_of_q_where_rewards_are_clipped(tmp_path, monkeypatch, clipped):
    monkeypatch.setattr(own_family, "FAMILY", replace(own_family.FAMILY, pixels=SEEN._replace(clip_rewards=clipped)))
    (panel,) = collect([make_run(tmp_path / "run", make_config(TASK, SETTINGS))])
    assert np.isnan(scores.values(panel, panel.kinds[0])[1]) == clipped


def test_an_environment_that_breaks_its_familys_promise_is_refused(monkeypatch):
    wrong = replace(own_family.FAMILY, pixels=SEEN._replace(stack=4, channels=1))
    monkeypatch.setattr(own_family, "FAMILY", wrong)
    with pytest.raises(
        bires.UserError, match=r"shape \(6, 10, 10\); its family promises uint8 and shape \(4, 10, 10\)"
    ):
        recipe(TASK, "modern").build()


def test_the_name_of_another_family_is_refused(monkeypatch):
    """It would take that one's place."""
    monkeypatch.setattr(own_family, "FAMILY", replace(own_family.FAMILY, name="Atari"))
    atari = FAMILIES["Atari"]
    with pytest.raises(bires.UserError, match="has a family 'Atari', a name that is taken"):
        make_config(TASK, SETTINGS)
    assert FAMILIES["Atari"] is atari


def test_a_setting_that_varies_is_refused(monkeypatch):
    wrong = replace(own_family.FAMILY, settings=(Setting("lamps", 3, "How many.", varies=True),))
    monkeypatch.setattr(own_family, "FAMILY", wrong)
    with pytest.raises(bires.UserError, match="has varies=True; a population has one environment"):
        recipe(TASK, "modern")


def test_a_space_survives_json():
    again = Space.from_json(json.loads(json.dumps(asdict(SPACE))))
    assert again == SPACE
    assert hash(again) == hash(SPACE)
    assert Space.from_json(asdict(SPACE)) == SPACE


def test_an_episode_depends_on_its_seed_and_actions_alone():
    made = recipe(TASK, "modern").build()
    first = [made.reset(5), *(made.step(np.array([0.0], np.float32)).observation for _ in range(5))]
    made.reset(6)
    again = [made.reset(5), *(made.step(np.array([0.0], np.float32)).observation for _ in range(5))]
    np.testing.assert_array_equal(first, again)


def test_the_network_has_its_convolutions():
    """Kernels need not be multiples of strides: the same as PyTorch's and TensorFlow's convolutions without padding."""
    params = init_choices(np.random.default_rng(0), SPACE, (16,))
    seen = np.random.default_rng(1).integers(0, 256, (4, 600), np.uint8)
    x = np.moveaxis(seen.reshape(4, 6, 10, 10), 1, -1) / 255
    for layer, (kernel, stride, outputs) in zip(params.convolutions, SEEN.convolutions, strict=True):
        windows = np.lib.stride_tricks.sliding_window_view(x, (kernel, kernel), (1, 2))[:, ::stride, ::stride]
        weight = np.asarray(layer.weight).reshape(kernel, kernel, -1, outputs)
        x = np.maximum(np.einsum("bhwcij,ijco->bhwo", windows, weight), 0)
    assert x.shape == (4, 3, 3, 4)
    hidden, last = params.layers
    expected = np.maximum(x.reshape(4, -1) @ hidden.weight, 0) @ last.weight
    np.testing.assert_allclose(choices(params, SPACE, jnp.asarray(seen)), expected, atol=1e-4)


def test_its_settings_are_its_own(capsys):
    words = ["train", TASK, "--algorithm", "dqn"]
    with pytest.raises(SystemExit):
        main([*words, "--help"])
    assert "--lamps INT" in capsys.readouterr().out
    assert main([*words, "--lamps", "4"]) == 2
    assert "--lamps was given 4; accepted: whole numbers from 1 to 3." in capsys.readouterr().err
    assert main([*words, "--sticky", "0.5"]) == 2
    assert "--sticky is a setting of Atari" in capsys.readouterr().err
    assert main(["train", "CartPole-v1", "--algorithm", "dqn", "--lamps", "2"]) == 2
    assert "--lamps is a setting of Lamps; 'CartPole-v1' does not belong to it." in capsys.readouterr().err
    assert main(["train", TASK, "--algorithm", "ddpg"]) == 2
    assert "has observations of the kind pixels; ddpg needs vector. Use --algorithm dqn" in capsys.readouterr().err
