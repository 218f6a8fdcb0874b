"""Exports of one member: a folder for a model hub that works by itself, and a dataset of whole episodes."""

import json
import os
import re
import sys

import numpy as np
import pytest

import bires
from bires.errors import UserError
from bires.settings.grid import members
from bires.settings.keywords import make_config
from bires.tools import video
from bires.tools.hub import LOADER, settings_of
from tests.helpers import TASK, typed
from tests.synthetic import make_run

PAIR = {"seed": (4, 5)}


@pytest.fixture
def undrawn(monkeypatch):
    """No GL library, so that no test waits for a video."""
    monkeypatch.setattr(video, "BACKENDS", ())


def test_a_hub_folder_has_a_card_and_a_policy_that_acts_without_us(undisturbed, tmp_path, monkeypatch, undrawn):
    run = bires.load(undisturbed(**PAIR))
    said = typed("export", str(run.path), "--to", "hub", "--member", "1", "--out", str(tmp_path / "hub"))
    assert said.returncode == 0, said.stderr
    assert "hf upload USER/NAME" in said.stdout
    assert "no video: " in said.stdout
    names = {path.name for path in (tmp_path / "hub").iterdir()}
    expected = {"README.md", "policy.safetensors", "policy.onnx", "curves.png"}
    assert names == {*expected, "manifest.json", "members.csv", "evaluations.csv"}
    text = (tmp_path / "hub" / "README.md").read_text(encoding="utf-8")
    _, head, body = text.split("---\n", 2)
    about = {key: json.loads(value) for key, value in (line.split(": ", 1) for line in head.splitlines())}
    assert about["library_name"] == "bires"
    rows = run.evaluations
    last = list(rows.where(rows["member"] == 1).rows())[-1]
    [metric] = about["model-index"][0]["results"][0]["metrics"]
    assert metric["value"] == f"{last['return_mean']:.2f} +/- {last['return_std']:.2f}"
    assert "seed 5, member 1" in body
    assert re.search(r"2 seeds, last tenth .* \| -?[\d.]+ \[", body)
    assert "seed: 5\n" in body
    assert f"{rows['return_mean'][rows['step'] == 60].mean():.2f}" in body
    assert LOADER in body
    monkeypatch.chdir(tmp_path / "hub")
    scope: dict = {}
    exec(LOADER, scope)
    observation = np.array([1.0, 0.0, 0.5], np.float32)
    np.testing.assert_allclose(scope["act"](observation), run.policy(1)(observation), atol=1e-4)


def test_a_card_has_the_settings_of_its_member_alone(tmp_path):
    given = {"algorithm": ["ddpg", "bi-res-ddpg", "dyna-ddpg"], "eta": [0.05, 0.2], "critic_lr": [1e-3, 1e-4]}
    config = make_config(TASK, given)
    run = make_run(tmp_path / "run", config)
    last = {one.algorithm: settings_of(run, one) for one in members(config)}
    plain, bi, dyna = (last[name] for name in ("ddpg", "bi-res-ddpg", "dyna-ddpg"))
    assert (plain["algorithm"], plain["critic_lr"], plain["rule"]) == ("ddpg", 1e-4, "td")
    assert not {"eta", "eta_end", "eta_until", "planner", "planning_steps", "model"} & plain.keys()
    assert bi["eta"] == 0.2
    assert dyna["planner"] == "dyna"
    assert "model" in dyna


def test_a_card_calls_this_policy_only_what_was_evaluated(copied, tmp_path, undrawn):
    run = bires.resume(copied(**PAIR).path, steps=70, quiet=True)
    text = (run.export("hub", out=tmp_path / "hub") / "README.md").read_text(encoding="utf-8")
    assert "after 70 environment steps" in text
    assert "| this member earlier, at its last evaluation, 1 episode at step 60" in text
    assert "this policy," not in text


def test_a_dataset_has_whole_episodes_of_the_evaluation(undisturbed, tmp_path, monkeypatch):
    import minari

    run = bires.load(undisturbed(**PAIR))
    assert run.export("minari", out=tmp_path / "sets", member=1, episodes=2) == tmp_path / "sets"
    run.export("minari", out=tmp_path / "sets", member=1, episodes=2)  # again, in its place
    assert "MINARI_DATASETS_PATH" not in os.environ
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "sets"))
    found = minari.load_dataset(f"bires/{TASK}/bi-res-ddpg-0_05-member-1-v0")
    first, second = found.iterate_episodes()
    assert first.observations.shape == (201, 3)
    assert first.actions.shape == (200, 1)
    assert abs(first.actions).max() <= 2.0
    assert first.truncations.tolist() == [False] * 199 + [True]
    assert not first.terminations.any()
    rows = run.evaluations  # which has one episode, the first
    last = rows["return_mean"][(rows["member"] == 1) & (rows["step"] == 60)]
    assert float(first.rewards.sum()) == pytest.approx(float(last[0]), rel=1e-6)
    assert second.rewards.sum() != first.rewards.sum()
    about = json.loads((tmp_path / "sets" / found.id / "data" / "metadata.json").read_text())
    assert "It is not the replay of its training" in about["description"]
    assert about["algorithm_name"] == "bi-res-ddpg(0.05)"
    environment = found.recover_environment()
    assert environment.spec is not None
    assert environment.spec.id == TASK
    environment.close()


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (["RUN", "RUN", "--to", "hub"], "--to hub was given 2 runs"),
        (["RUN", "--to", "hub", "--member", "7"], "members 0 to 1"),
        (["RUN", "--to", "minari", "--episodes", "0"], "--episodes was given 0"),
        (["RUN", "--to", "minari", "--member", "-1"], "members 0 to 1"),
        (["RUN", "--to", "hub", "--out", "/proc/nowhere"], "Cannot write to --out"),
        (["RUN", "--to", "hub", "--out", "RUN"], "a run itself; give a folder beside it, such as hub."),
        (["RUN", "--to", "hub", "--episodes", "3"], "--episodes was given with --to hub; it is for --to minari."),
        (["RUN", "--source", "replay"], "--source was given with --to tensorboard; it is for --to minari."),
    ],
    ids=str,
)
def test_bad_input_is_refused(words, answer, undisturbed, tmp_path):
    run = str(undisturbed(**PAIR))
    said = typed("export", *(run if word == "RUN" else word for word in words), cwd=tmp_path)
    assert said.returncode == 2
    assert answer in said.stderr


def test_a_missing_library_is_named(undisturbed, monkeypatch):
    monkeypatch.setitem(sys.modules, "minari", None)
    with pytest.raises(UserError, match=r"pip install 'bires\[minari\]'"):
        bires.export(undisturbed(**PAIR), to="minari")


@pytest.mark.parametrize("suffix", ["safetensors", "onnx"])
def test_a_policy_is_one_file(suffix, undisturbed, tmp_path):
    run = bires.load(undisturbed(**PAIR))
    out = tmp_path / f"mine.{suffix}"
    said = typed("export", str(run.path), "--to", suffix, "--member", "1", "--out", str(out))
    assert said.returncode == 0, said.stderr
    assert f"{out}: Policy(" in said.stdout
    assert "member 1" in said.stdout
    other = run.policy(1).save(tmp_path / f"other.{suffix}")
    if suffix == "onnx":
        assert out.read_bytes() == other.read_bytes()
    else:
        assert str(bires.load_policy(out)) == str(run.policy(1))
    assert run.export(suffix, member=1, out=out) == out


def test_a_policy_goes_into_a_file_with_its_suffix(undisturbed, tmp_path):
    path = str(undisturbed(**PAIR))
    said = typed("export", path, "--to", "onnx", "--out", str(tmp_path / "policy"))
    assert said.returncode == 2
    assert "accepted with --to onnx: a name that ends in .onnx." in said.stderr
    assert "--to onnx was given 2 runs" in typed("export", path, path, "--to", "onnx").stderr
    assert "the run has members 0 to 1" in typed("export", path, "--to", "onnx", "--member", "7").stderr
