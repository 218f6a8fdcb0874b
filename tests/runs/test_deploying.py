"""Policies that leave: as ten lines of NumPy read them, as ONNX, and of earlier steps."""

import re
import resource
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bires
from bires.agents import td3
from bires.agents.activations import ACTIVATIONS, Activation
from bires.errors import UserError
from bires.runs.activations import ELSEWHERE
from bires.runs.deploying import deployed, save
from bires.runs.policies import load_learner, newest_checkpoint
from bires.settings.options import Options, Stopped
from bires.tools.hub import loader
from bires.training.launch import begin_or_continue
from tests.helpers import arrays, assert_same_moment, configured, contents, typed

PAGE = Path(__file__).parents[2] / "docs" / "deploying.md"
READER = re.search(r"^```python\n(import json\n.*?)^```$", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
FAR = "tests.envs.test_arguments:bires-test/Far-v0"
RUNS: dict[str, dict[str, Any]] = {
    "ddpg": {"task": "pendulum-swingup"},
    "td3": {"task": "Pendulum-v1", "seed": [0, 1]},
    "sac": {"task": "Pendulum-v1", "protocol": "paper"},
    "dqn": {"task": FAR, "env_kwargs": {"discrete": True}},
    "bi-res-ddpg": {"task": FAR, "normalise_observations": True},
}


EACH = [pytest.param(name, marks=pytest.mark.slow) if name in ("ddpg", "sac") else name for name in RUNS]


@pytest.fixture(scope="module")
def trained(undisturbed):
    """A run of each algorithm, and its observations."""

    def train(algorithm):
        run = bires.load(undisturbed(**RUNS[algorithm], algorithm=algorithm))
        rows = next(rows for name, rows in arrays(run.path).items() if name.startswith("replay/"))[0]
        size = run.policy(0).network().arrays["mean"].size
        return run, rows[:, :size].astype(np.float32)

    return train


def test_the_reader_on_the_page_has_ten_lines():
    assert READER is not None
    lines = [line for line in READER[1].splitlines() if line.strip() and not line.startswith("import")]
    assert len(lines) <= 10


@pytest.mark.parametrize("algorithm", EACH)
def test_a_saved_policy_can_be_loaded(algorithm, trained, tmp_path):
    run, seen = trained(algorithm)
    policy = run.policy(0)
    loaded = bires.load_policy(policy.save(tmp_path / "policy.safetensors"))
    assert repr(loaded) == repr(policy)
    for given in (seen, seen[0], seen[0].tolist()):
        assert loaded(given).shape == np.shape(policy(given))
        np.testing.assert_allclose(loaded(given), policy(given), rtol=1e-3, atol=1e-4)
    action, state = loaded.predict(seen[0], deterministic=True)
    np.testing.assert_array_equal(action, loaded(seen[0]))
    assert state is None
    with pytest.raises(UserError, match=r"The policy was given 1 number \(shape \(1,\)\)"):
        loaded([1.0])
    for one, wrong in (
        (policy, [[1.0, 2.0], [1.0]]),
        (loaded, [[1.0, 2.0], [1.0]]),
        *((one, wrong) for one in (policy, loaded) for wrong in ("left", None, [None, 1.0, 2.0], ["1", "2", "3"])),
    ):
        with pytest.raises(
            UserError, match=r"The policy was given .*; accepted: numbers, several observations in rows"
        ):
            one(wrong)
    with pytest.raises(UserError, match=r"gymnasium\.spaces\.flatten"):
        loaded({"position": seen[0]})


def test_a_file_that_holds_no_policy_is_refused(tmp_path):
    for name, data in {"a.txt": b"nothing", "b.safetensors": b"\2\0\0\0\0\0\0\0{}"}.items():
        (tmp_path / name).write_bytes(data)
        with pytest.raises(UserError, match=r"is not a policy that can be read"):
            bires.load_policy(tmp_path / name)
    with pytest.raises(UserError, match=r"is not a policy that can be read"):
        bires.load_policy(tmp_path / "missing.safetensors")
    with pytest.raises(UserError, match=r"a\.onnx is for ONNX runtimes\. Give a \.safetensors file"):
        bires.load_policy(tmp_path / "a.onnx")


def test_a_policy_that_cannot_be_written_leaves_what_was_there(trained, tmp_path):
    policy, path = trained("td3")[0].policy(0), tmp_path / "policy.safetensors"
    before = policy.save(path).read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) // 2, limits[1]))  # as on a disk that is nearly full
    try:
        with pytest.raises(UserError, match=r"Cannot write the policy to .*policy\.safetensors \(File too large\)"):
            policy.save(path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert {one.name: one.read_bytes() for one in tmp_path.iterdir()} == {path.name: before}
    (tmp_path / "folder.safetensors").mkdir()
    for wrong, words in (("folder.safetensors", "Is a directory"), ("policy.safetensors/x.safetensors", "File exists")):
        with pytest.raises(UserError, match=rf"Cannot write the policy to .* \({words}|Not a directory\)"):
            policy.save(tmp_path / wrong)
    with pytest.raises(UserError, match="path was given 3; accepted: the path of a file"):
        policy.save(3)
    assert len(list(tmp_path.iterdir())) == 2


def test_a_policy_says_whose_it_is_and_acts_as_those_of_stable_baselines(trained):
    run, seen = trained("td3")
    policy = run.policy(1)
    assert repr(policy) == "Policy(td3, member 1, seed 1, Pendulum-v1, step 60)"
    action, state = policy.predict(seen[0])
    np.testing.assert_array_equal(action, policy(seen[0]))
    assert state is None


def test_a_member_may_be_named_by_its_columns(trained):
    run, _ = trained("td3")
    assert run.policy(seed=1).about["member"] == "1"
    assert run.policy(kind="td3", seed=0.0).about["member"] == "0"
    with pytest.raises(
        UserError, match=r"algorithm='td3' was given; these 2 members match(.|\n)*member 1: td3, seed 1"
    ):
        run.policy(algorithm="td3")
    with pytest.raises(UserError, match=r"seed=7 was given; the run has these members(.|\n)*member 0: td3, seed 0"):
        run.policy(seed=7)
    with pytest.raises(UserError, match=r"No member was given; the run has these members"):
        run.policy()
    with pytest.raises(UserError, match=r"Unknown column 'seeds'. Did you mean 'seed'"):
        run.policy(seeds=1)
    with pytest.raises(UserError, match=r"Both member and seed were given"):
        run.policy(0, seed=1)


@pytest.mark.parametrize("algorithm", EACH)
def test_numpy_alone_acts_as_the_policy_does(algorithm, trained, tmp_path, monkeypatch):
    run, seen = trained(algorithm)
    monkeypatch.chdir(tmp_path)
    member = len(run.members) - 1
    assert run.policy(member).save("policy.safetensors") == Path("policy.safetensors")
    names: dict[str, Any] = {}
    assert READER is not None
    exec(READER[1], names)
    np.testing.assert_allclose(names["act"](seen), run.policy(member)(seen), rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(names["act"](seen[0]), run.policy(member)(seen[0]), rtol=1e-3, atol=1e-4)
    assert names["about"]["step"] == "60"
    assert names["about"]["algorithm"] == run.members["algorithm"][0] + ("(0.05)" if "bi" in algorithm else "")


@pytest.mark.parametrize("algorithm", EACH)
def test_onnx_acts_as_the_policy_does(algorithm, trained, tmp_path):
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    run, seen = trained(algorithm)
    path = run.policy(0).save(tmp_path / "policy.onnx")
    session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
    [action] = session.run(None, {"observation": seen})
    np.testing.assert_allclose(action, run.policy(0)(seen), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", sorted(ACTIVATIONS))
def test_a_saved_policy_has_its_activation_function(name, trained, tmp_path, monkeypatch):
    """In NumPy, in ONNX and in the code of a model card; who reads files with ReLU alone refuses the others."""
    runtime = pytest.importorskip("onnxruntime")
    run, seen = trained("td3")
    environment, learner, _ = load_learner(run.config, 0, newest_checkpoint(run.path))
    actor = jax.tree.map(lambda leaf: 2 * leaf, learner.actor)._replace(activation=Activation(name))

    def act(observations):
        return environment.scaled(np.asarray(td3.policy(actor, jnp.asarray(observations, jnp.float32))))

    expected = act(seen)
    about = {"task": "t", "id": "t", "algorithm": "td3", "member": "0", "seed": "0", "step": "60"}
    made = deployed(learner._replace(actor=actor), environment, act, about)
    assert (made.about["format"], made.about.get("activation")) == (("1", None) if name == "relu" else ("2", name))
    np.testing.assert_allclose(made.act(seen), expected, rtol=1e-3, atol=1e-4)
    monkeypatch.chdir(tmp_path)
    for path in ("policy.safetensors", "policy.onnx"):
        save(made, tmp_path / path)
    np.testing.assert_allclose(bires.load_policy("policy.safetensors")(seen), expected, rtol=1e-3, atol=1e-4)
    session = runtime.InferenceSession("policy.onnx", providers=["CPUExecutionProvider"])
    [action] = session.run(None, {"observation": seen})
    np.testing.assert_allclose(action, expected, rtol=1e-3, atol=1e-4)
    scope: dict[str, Any] = {}
    exec(loader(name), scope)
    np.testing.assert_allclose(scope["act"](seen), expected, rtol=1e-3, atol=1e-4)
    assert READER is not None
    if name == "relu":
        exec(READER[1], {})
    else:
        assert f"| `{name}` | `{ELSEWHERE[name].text}` |" in PAGE.read_text(encoding="utf-8")
        with pytest.raises(KeyError, match=name):
            exec(READER[1], {})


def test_other_names_and_other_policies_are_refused(trained, tmp_path):
    run, _ = trained("td3")
    with pytest.raises(UserError, match="accepted: names that end in"):
        run.policy(0).save(tmp_path / "policy.pt")
    environment, learner, _ = load_learner(run.config, 0, newest_checkpoint(run.path))
    with pytest.raises(UserError, match="is more than its network"):
        deployed(learner, environment, lambda seen: np.full((len(seen), 1), 0.7), {"algorithm": "odd"})


def test_checkpoints_are_kept_and_change_nothing(quick, tmp_path, undisturbed):
    calm = undisturbed("Pendulum-v1", algorithm="td3")
    config, options = configured(quick, algorithm="td3"), Options(workers=0, cohorts="threads", keep_every=25)
    looks = iter(range(99))
    with pytest.raises(Stopped):
        begin_or_continue(config, tmp_path / "run", options, stop=lambda: next(looks) > 3)
    begin_or_continue(config, tmp_path / "run", options)
    run = bires.load(tmp_path / "run")
    assert sorted(path.name[-2:] for path in (run.path / "kept").iterdir()) == ["00", "25", "50"]
    assert contents(run.path) == contents(calm)
    assert_same_moment(run.path, calm, 50)
    early, late = (run.policy(0, step=step)([1.0, 0.0, 0.0]) for step in (25, 60))
    assert early != late
    with pytest.raises(UserError, match="has checkpoints of: 0, 25, "):
        run.policy(0, step=31)


def test_a_kept_checkpoint_needs_a_number_of_steps(tmp_path):
    said = typed("train", "Pendulum-v1", "--keep-every", "0", "--out", str(tmp_path / "run"))
    assert said.returncode == 2
    assert "--keep-every was given 0; accepted: whole numbers of steps from 1" in said.stderr
    assert not (tmp_path / "run").exists()
