"""Policies that leave: a network with its scales, in a safetensors file that NumPy alone can read, or as ONNX.

x = clip((observation − mean) / std, −limit, limit)
x = hidden(x) · weight.i + bias.i         (without the activation before the first layer)
action = clip(tanh(x) · scale + shift, low, high),   or   argmax x + start
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as serialized

from bires.agents.activations import RELU
from bires.agents.networks import Dense
from bires.agents.normalising import EPSILON, LIMIT, Normalised
from bires.envs.adapter import Environment, scale_of
from bires.errors import UserError
from bires.runs.activations import ELSEWHERE, Elsewhere

FORMAT, FORMAT_NAMED = "1", "2"
"""Of a policy with ReLU, and of one that names another activation; who reads only the first refuses the second."""
TRIED, CLOSE = 64, 1e-3
"""Observations for which a saved network must act as the policy does; how nearly."""


@dataclass(frozen=True)
class Deployed:
    """A policy as plain arrays."""

    arrays: dict[str, np.ndarray]
    about: dict[str, str]
    """Text: format, task, id, algorithm, member, seed, step, actions (continuous or discrete), layers, start (the first
    choice's number); activation, where it is not ReLU."""

    @property
    def layers(self) -> int:
        return int(self.about["layers"])

    @property
    def hidden(self) -> Elsewhere:
        """The activation of hidden layers."""
        return ELSEWHERE[self.about.get("activation", RELU.name)]

    @np.errstate(over="ignore", invalid="ignore")  # in the network of a member that has diverged
    def act(self, observation: np.ndarray) -> np.ndarray:
        """What a reader of the file computes."""
        p, x = self.arrays, observation
        x = np.clip((x - p["mean"]) / p["std"], -p["limit"], p["limit"])
        for i in range(self.layers):
            x = (self.hidden.compute(x) if i else x) @ p[f"weight.{i}"] + p[f"bias.{i}"]
        if self.about["actions"] == "discrete":
            return np.asarray(np.argmax(x, -1) + int(self.about["start"]))
        return np.asarray(np.clip(np.tanh(x) * p["scale"] + p["shift"], p["low"], p["high"]))


def deployed(
    learner: Any, environment: Environment, act: Callable[[np.ndarray], np.ndarray], about: dict[str, str]
) -> Deployed:
    """The network of a learner's policy; refused if it does not act as the policy ``act`` does."""
    space, inner = environment.space, learner.inner if isinstance(learner, Normalised) else learner
    network = inner.actor if hasattr(inner, "actor") else getattr(inner, "online", None)
    layers: Sequence[Dense] = getattr(network, "layers", ())
    if space.pixels is not None or not layers or bool(getattr(network, "norms", None)):
        what = "sees pixels" if space.pixels is not None else "is not a plain network"
        raise UserError(f"The policy of {about['algorithm']} {what}; only those of plain networks can be saved.")
    outputs = space.choices or space.action
    arrays = {f"weight.{i}": layer.weight for i, layer in enumerate(layers)}
    arrays |= {f"bias.{i}": layer.bias for i, layer in enumerate(layers)}
    last = len(layers) - 1  # of SAC's, which gives means and deviations, the means
    arrays |= {f"weight.{last}": layers[-1].weight[:, :outputs], f"bias.{last}": layers[-1].bias[:outputs]}
    made = Deployed(
        {name: np.ascontiguousarray(x, np.float32) for name, x in (arrays | scales(learner, environment)).items()},
        about | format_of(network) | {"layers": str(len(layers)), **kind_of(environment)},
    )
    require_same_actions(made, act, space.observation)
    return made


def format_of(network: Any) -> dict[str, str]:
    """The number of the file's format, and the network's activation where it is not ReLU."""
    name = getattr(network, "activation", RELU).name
    return {"format": FORMAT} if name == RELU.name else {"format": FORMAT_NAMED, "activation": name}


def kind_of(environment: Environment) -> dict[str, str]:
    if environment.space.choices is None:
        return {"actions": "continuous", "start": "0"}
    return {"actions": "discrete", "start": str(int(environment.action_space.start))}


def scales(learner: Any, environment: Environment) -> dict[str, Any]:
    """Mean and deviation of observations, bounds and scale of actions; without normalisation, those that do nothing."""
    space, size = environment.space, environment.space.observation
    found: dict[str, Any] = {"mean": np.zeros(size), "std": np.ones(size), "limit": np.full(1, np.inf)}
    if isinstance(learner, Normalised) and learner.moments.observations >= 2:
        deviation = np.sqrt(np.asarray(learner.moments.variance) + np.float32(EPSILON))
        found = {"mean": learner.moments.mean, "std": deviation, "limit": np.full(1, LIMIT)}
    if space.choices is None:
        scale, shift = scale_of(environment.action_space, environment.protocol)
        scale, shift = scale.reshape(-1), shift.reshape(-1)
        low, high = (np.asarray(bound) * scale + shift for bound in (space.low, space.high))
        found |= {"scale": scale, "shift": shift, "low": low, "high": high}
    return found


def require_same_actions(made: Deployed, act: Callable[[np.ndarray], np.ndarray], size: int) -> None:
    """Tries the network on random observations: an agent of the user's own may act in another way."""
    drawn = np.random.default_rng(0).normal(size=(TRIED, size))
    seen = (made.arrays["mean"] + made.arrays["std"] * drawn).astype(np.float32)
    ours, theirs = made.act(seen), act(seen)
    same = np.isclose(ours.reshape(TRIED, -1), theirs.reshape(TRIED, -1), rtol=CLOSE, atol=CLOSE)
    if same.mean() < 0.95:  # two choices may be equally good
        raise UserError(
            f"The policy of {made.about['algorithm']} is more than its network, and cannot be saved; "
            "only policies that are tanh or argmax of a network of the package's kinds can."
        )


def save(made: Deployed, path: Path) -> None:
    """Writes a policy as .safetensors, or as .onnx; where it cannot be written whole, what was there stays."""
    if path.suffix not in (".safetensors", ".onnx"):
        raise UserError(f"path was given {str(path)!r}; accepted: names that end in .safetensors or .onnx.")
    content = serialized(made.arrays, made.about) if path.suffix == ".safetensors" else onnx_bytes(made)
    aside = path.with_name(f".{path.name}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        aside.write_bytes(content)
        aside.replace(path)
    except OSError as error:
        with suppress(OSError):
            aside.unlink()
        raise UserError(f"Cannot write the policy to {path} ({error.strerror}). Give another place.") from error


def read(path: Path) -> Deployed:
    """A policy that `save` wrote as .safetensors."""
    if (path / "manifest.json").exists():
        raise UserError(f"{path} is a run folder; its policies are those of bires.load({str(path)!r}).policy(0).")
    if path.suffix == ".onnx":
        raise UserError(f"{path} is for ONNX runtimes. Give a .safetensors file that policy.save wrote.")
    try:
        opened: Any = safe_open(path, "numpy")  # type: ignore[no-untyped-call]
        with opened as file:
            made = Deployed({name: file.get_tensor(name) for name in file.keys()}, file.metadata() or {})  # noqa: SIM118
        if (
            made.about.get("format") not in (FORMAT, FORMAT_NAMED)
            or made.arrays["mean"].size != made.arrays["weight.0"].shape[0]
        ):
            raise ValueError("it holds something else")
        made.act(made.arrays["mean"])
    except (OSError, SafetensorError, ValueError, KeyError) as error:
        raise UserError(
            f"{path} is not a policy that can be read ({error}). Give a .safetensors file that policy.save wrote."
        ) from error
    return made


def onnx_bytes(made: Deployed) -> bytes:
    """The policy as an ONNX model: `observation` (batch, ·) → `action` (batch, ·), or (batch) of whole numbers."""
    try:
        onnx: Any = importlib.import_module("onnx")
    except ImportError as error:
        raise UserError("A policy as .onnx needs a package: `pip install 'bires[onnx]'`.") from error
    helper, float32 = onnx.helper, onnx.TensorProto.FLOAT
    arrays = made.arrays | {"minus_limit": -made.arrays["limit"]}
    arrays |= {name: np.asarray(number, np.float32) for name, number in made.hidden.constants.items()}
    nodes: list[Any] = []

    def node(kind: str, *inputs: str, **attributes: Any) -> str:
        nodes.append(helper.make_node(kind, list(inputs), [f"x{len(nodes)}"], **attributes))
        return f"x{len(nodes) - 1}"

    x = node("Div", node("Sub", "observation", "mean"), "std")
    x = node("Max", node("Min", x, "limit"), "minus_limit")
    for i in range(made.layers):
        x = node("Gemm", made.hidden.nodes(node, x) if i else x, f"weight.{i}", f"bias.{i}")
    discrete, batch = made.about["actions"] == "discrete", "batch"
    if discrete:
        arrays["start"] = np.array(int(made.about["start"]), np.int64)
        x = node("Add", node("ArgMax", x, axis=1, keepdims=0), "start")
        result = helper.make_tensor_value_info("action", onnx.TensorProto.INT64, [batch])
    else:
        x = node("Add", node("Mul", node("Tanh", x), "scale"), "shift")
        x = node("Max", node("Min", x, "high"), "low")
        result = helper.make_tensor_value_info("action", float32, [batch, len(arrays["shift"])])
    nodes.append(helper.make_node("Identity", [x], ["action"]))
    seen = helper.make_tensor_value_info("observation", float32, [batch, len(arrays["mean"])])
    constants = [onnx.numpy_helper.from_array(array, name) for name, array in arrays.items()]
    graph = helper.make_graph(nodes, "policy", [seen], [result], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    helper.set_model_props(model, made.about)
    onnx.checker.check_model(model)
    return bytes(model.SerializeToString())
