"""Activation functions: each against its formula, in every network of every agent, in runs and in saved policies."""

import json
import math
import shutil
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bires
from bires.agents import batchnorm
from bires.agents.activations import ACTIVATIONS, RELU, Activation
from bires.agents.base import Design
from bires.agents.networks import actor, choices, critic, init_actor, init_choices, init_critic, init_mlp, mlp
from bires.agents.registry import AGENTS
from bires.rules import RULES, needs
from bires.runs.activations import ELSEWHERE
from bires.settings import config as configs
from bires.settings.keywords import make_config
from bires.tools.hub import loader
from bires.types import Pixels, Space
from tests.helpers import TASK, assert_same_state, contents, typed

SIGMOID = np.vectorize(lambda x: 1 / (1 + math.exp(-x)))
ERF = np.vectorize(math.erf)
FORMULAS: dict[str, Any] = {
    "relu": lambda x: np.where(x > 0, x, 0.0),
    "leaky_relu": lambda x: np.where(x > 0, x, 0.01 * x),
    "elu": lambda x: np.where(x > 0, x, np.exp(x) - 1),
    "gelu": lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "silu": lambda x: x * SIGMOID(x),
    "tanh": lambda x: (np.exp(x) - np.exp(-x)) / (np.exp(x) + np.exp(-x)),
}
SLOPES: dict[str, Any] = {
    "relu": lambda x: np.where(x > 0, 1.0, 0.0),
    "leaky_relu": lambda x: np.where(x > 0, 1.0, 0.01),
    "elu": lambda x: np.where(x > 0, 1.0, np.exp(x)),
    "gelu": lambda x: 0.5 * (1 + ERF(x / math.sqrt(2))) + x * np.exp(-x * x / 2) / math.sqrt(2 * math.pi),
    "silu": lambda x: SIGMOID(x) * (1 + x * (1 - SIGMOID(x))),
    "tanh": lambda x: 1 - np.tanh(x) ** 2,
}
"""By hand; that of GELU is exact, and ours within 2e-3 of it."""
EACH = pytest.mark.parametrize("name", sorted(ACTIVATIONS))
POINTS = np.array([-30.0, -2.5, -0.7, -1e-3, 1e-3, 0.4, 1.9, 30.0], np.float32)


def random(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def shaken(params):
    """Weights, biases and norms that are not those of the beginning."""
    rng = np.random.default_rng(5)
    return jax.tree.map(lambda x: x + 0.4 * jnp.asarray(rng.normal(size=x.shape), jnp.float32), params)


@EACH
def test_values_and_slopes_are_those_of_the_formula(name):
    x = POINTS.astype(np.float64)
    np.testing.assert_allclose(Activation(name)(jnp.asarray(POINTS)), FORMULAS[name](x), rtol=1e-5, atol=1e-6)
    slopes = jax.vmap(jax.grad(Activation(name)))(jnp.asarray(POINTS))
    np.testing.assert_allclose(slopes, SLOPES[name](x), rtol=1e-5, atol=2e-3 if name == "gelu" else 1e-6)
    np.testing.assert_allclose(ELSEWHERE[name].compute(POINTS), FORMULAS[name](x), rtol=1e-5, atol=1e-6)
    assert ELSEWHERE[name].compute(POINTS).dtype == np.float32
    typed_in = eval(ELSEWHERE[name].text, {"np": np})
    np.testing.assert_array_equal(typed_in(POINTS), ELSEWHERE[name].compute(POINTS))


def transcribed(name, layers, x, norms=(), action=None):
    """Hidden layers and the last one in float64; ``action``: enters the second layer by a matrix of its own."""
    x = np.asarray(x, np.float64)
    for i, (weight, bias) in enumerate(layers[:-1]):
        x = x @ np.float64(weight) + bias
        if action is not None and i == 1:
            x = x + np.matmul(action[0], action[1], dtype=np.float64)
        if norms:
            x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
            x = x * norms[i].scale + norms[i].offset
        x = FORMULAS[name](x)
    return x @ np.float64(layers[-1][0]) + layers[-1][1]


@EACH
def test_networks_apply_it_in_every_hidden_layer(name):
    rng, seen, taken, used = np.random.default_rng(1), random(7, 3), random(7, 2, seed=1), Activation(name)
    policy = shaken(init_actor(rng, 3, 2, (6, 5), used))
    found = np.arctanh(np.float64(actor(policy, seen)))
    np.testing.assert_allclose(found, transcribed(name, policy.layers, seen), rtol=2e-3, atol=1e-4)
    for norm in (False, True):
        value = shaken(init_critic(rng, 3, 2, (6, 5), norm, used))
        expected = transcribed(name, value.layers, seen, value.norms, (taken, value.action))
        np.testing.assert_allclose(critic(value, seen, taken), expected[:, 0], rtol=1e-4, atol=1e-5)
        plain = shaken(init_mlp(rng, (3, 6, 5, 2), norm, used))
        expected = transcribed(name, plain.layers, seen, plain.norms)
        np.testing.assert_allclose(mlp(plain, seen), expected, rtol=1e-4, atol=1e-5)
    space = Space(3, 1, (0.0,), (3.0,), choices=4)
    q = shaken(init_choices(rng, space, (6, 5), used))
    np.testing.assert_allclose(choices(q, space, seen), transcribed(name, q.layers, seen), rtol=1e-4, atol=1e-5)


@EACH
def test_a_gradient_is_that_of_the_chain_rule(name):
    """∇ of Σ mlp(x)² in the first layer's weights, backwards by hand."""
    params, x = shaken(init_mlp(np.random.default_rng(2), (3, 6, 5, 2), activation=Activation(name))), random(7, 3)
    found = jax.grad(lambda params: jnp.sum(mlp(params, x) ** 2))(params)
    (w1, b1), (w2, b2), (w3, b3) = [(np.float64(w), np.float64(b)) for w, b in params.layers]
    first = np.asarray(x, np.float64) @ w1 + b1
    second = FORMULAS[name](first) @ w2 + b2
    out = FORMULAS[name](second) @ w3 + b3
    back = ((2 * out @ w3.T * SLOPES[name](second)) @ w2.T) * SLOPES[name](first)
    close = 5e-2 if name == "gelu" else 1e-4
    np.testing.assert_allclose(found.layers[0].weight, np.float64(x).T @ back, rtol=close, atol=close)
    assert found.activation == Activation(name)


@EACH
def test_a_batch_normalised_network_has_it_while_it_learns_and_when_it_acts(name):
    params, x = shaken(batchnorm.init(np.random.default_rng(3), (3, 6, 2), Activation(name))), random(9, 3)
    (w1, b1), (w2, b2) = [(np.float64(w), np.float64(b)) for w, b in params.layers]

    def normal(x, norm, mean, variance):
        return (x - mean) / np.sqrt(variance + 0.001) * np.float64(norm.scale) + norm.offset

    def transcribed(moments):
        inner = normal(np.float64(x), params.norms[0], *moments(np.float64(x))) @ w1 + b1
        inner = FORMULAS[name](inner)
        return normal(inner, params.norms[1], *moments(inner)) @ w2 + b2

    running = batchnorm.begin(params)
    found, _ = batchnorm.learning(params, running, jnp.asarray(x))
    np.testing.assert_allclose(found, transcribed(lambda x: (x.mean(0), x.var(0))), rtol=1e-4, atol=1e-4)
    acting = mlp(batchnorm.folded(params, running), x)
    np.testing.assert_allclose(acting, transcribed(lambda x: (0.0, 1.0)), rtol=1e-4, atol=1e-4)


def test_convolutions_keep_relu():
    pixels = Pixels(1, 4, 4, convolutions=((2, 2, 3),))
    space = Space(16, 1, (0.0,), (1.0,), choices=2, pixels=pixels)
    seen, found = np.random.default_rng(0).integers(0, 256, (5, 16)).astype(np.uint8), {}
    for name in ("relu", "tanh"):
        q = shaken(init_choices(np.random.default_rng(0), space, (6,), Activation(name)))
        patches = (seen.reshape(5, 2, 2, 2, 2) / 255).transpose(0, 1, 3, 2, 4).reshape(5, 4, 4)
        features = np.maximum(patches @ np.float64(q.convolutions[0].weight) + q.convolutions[0].bias, 0)
        expected = transcribed(name, q.layers, features.reshape(5, -1))
        found[name] = np.asarray(choices(q, space, jnp.asarray(seen)))
        np.testing.assert_allclose(found[name], expected, rtol=1e-4, atol=1e-5)
    assert not np.allclose(found["relu"], found["tanh"])


@pytest.mark.parametrize("agent", AGENTS)
def test_every_network_of_every_agent_has_it(agent):
    """Actors, critics, their targets, and the estimate that `qrc` reads."""
    spec = AGENTS[agent]
    own = {one.name: one.default_for("vector") for one in spec.settings if not one.varies}
    several = spec.actions == "continuous"
    space = Space(3, 2, (-1.0, -1.0), (1.0, 1.0)) if several else Space(3, 1, (0.0,), (3.0,), choices=4)
    read = needs([RULES["qrc"], RULES["bi"]])

    def networks(**given):
        learner = spec.make(Design(space, (6, 5), own | given, read)).init(np.random.default_rng(0))
        held = jax.tree.leaves(learner, is_leaf=lambda node: hasattr(node, "activation"))
        return [node.activation for node in held if hasattr(node, "activation")]

    assert networks() == [RELU] * len(networks())
    used = networks(activation="silu")
    assert used == [Activation("silu")] * len(used)
    assert len(used) >= (5 if several else 3), "means of Adam are such trees, too"


@pytest.mark.parametrize(
    ("algorithm", "given"),
    [
        ("qrc-ddpg", {"activation": "gelu", "layer_norm": True}),
        pytest.param(
            "bi-res-crossq",
            {"activation": "elu", "critic_width": 16, "normalise_observations": True},
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_lengthened_run_is_exact_and_acts_as_it_learned(algorithm, given, tmp_path, quick):
    settings = quick | {"algorithm": algorithm} | given
    run = bires.train(TASK, out=tmp_path / "straight", **settings)
    bires.train(TASK, out=tmp_path / "longer", **settings | {"steps": 30})
    bires.resume(tmp_path / "longer", steps=60, quiet=True)
    assert contents(tmp_path / "straight") == contents(tmp_path / "longer")
    assert_same_state(tmp_path / "straight", tmp_path / "longer")
    assert run.manifest["config"]["activation"] == given["activation"]
    seen = 3 * random(40, 3)
    policy = run.policy(0)
    network = policy.network()
    assert (network.about["activation"], network.about["format"]) == (given["activation"], "2")
    loaded = bires.load_policy(policy.save(tmp_path / "policy.safetensors"))
    np.testing.assert_allclose(loaded(seen), policy(seen), rtol=1e-3, atol=1e-4)
    assert run.summary()["kind"][0].endswith(f"activation={given['activation']}")


def test_a_run_from_before_there_was_a_choice_is_one_with_relu(undisturbed, tmp_path):
    shutil.copytree(undisturbed(), tmp_path / "old")
    path = tmp_path / "old" / "manifest.json"
    manifest = json.loads(path.read_text())
    assert manifest["config"].pop("activation") == "relu"
    path.write_text(json.dumps(manifest))
    old = bires.load(tmp_path / "old")
    assert old.config.own["activation"] == "relu"
    assert configs.to_json(old.config) == configs.to_json(bires.load(undisturbed()).config)
    assert "activation" not in old.policy(0).network().about
    assert old.policy(0).network().about["format"] == "1"
    assert old.summary()["kind"].tolist() == bires.load(undisturbed()).summary()["kind"].tolist()
    bires.resume(tmp_path / "old", steps=70, quiet=True)


@pytest.mark.parametrize("value", ["sigmoid", "ReLU", "5"])
def test_another_function_is_refused(value, tmp_path):
    said = typed("train", TASK, "--activation", value, "--out", str(tmp_path / "run"))
    assert said.returncode == 2
    assert f"--activation was given '{value}'; accepted: relu, leaky_relu, elu, gelu, silu, tanh." in said.stderr
    assert not (tmp_path / "run").exists()


def test_it_is_one_for_the_population(tmp_path):
    with pytest.raises(bires.UserError, match="activation was given tanh relu; it cannot vary within one program"):
        bires.train(TASK, activation=["tanh", "relu"], out=tmp_path / "run")
    config = make_config(TASK, {"algorithm": "tests.own_agent:twin", "activation": "tanh"})
    assert config.own["activation"] == "tanh", "an agent of the user's own may have it"


@EACH
def test_the_reader_of_a_card_is_that_of_its_policy(name):
    text = loader(name)
    assert ELSEWHERE[name].text in text
    assert ("np.maximum(x, 0)}" in text) == (name == "relu")
    compile(text, "card", "exec")
