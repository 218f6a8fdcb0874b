"""Cohorts kept in few arrays, as beside an accelerator: the same members, computed from other buffers."""

from typing import Any

import numpy as np
import pytest

import bires
from bires import packing
from bires.hardware import Placement
from bires.options import Stopped
from bires.trainer import Trainer
from tests.test_training import arrays, assert_same_state, contents

RUNS: dict[str, Any] = {
    "ddpg": ("pendulum-swingup", {"algorithm": ["ddpg", "bi-res-ddpg"], "seed": [0, 1]}),
    "dqn": ("CartPole-v1", {"algorithm": ["dqn", "bi-res-dqn"], "seed": [0, 1], "hidden": (16,), "update_every": 3}),
    "planning": ("pendulum-swingup", {"algorithm": ["ddpg", "dyna-ddpg"], "model": "learned", "model_scale": "small"}),
}


def test_what_is_packed_is_unpacked():
    rng = np.random.default_rng(0)
    tree: Any = {
        "a": (rng.standard_normal((3, 2, 4)).astype(np.float32), np.array([True, False, True])),
        "b": [np.arange(3, dtype=np.int32), rng.standard_normal((3, 0)).astype(np.float32)],
        "c": np.arange(6, dtype=np.uint32).reshape(3, 2),
        "large": np.ones((3, packing.LARGE // 4), np.float32),
    }
    like = packing.template(tree)
    parts = packing.pack(like, tree)
    assert {name: array.shape for name, array in parts.small.items()} == {
        "float32": (3, 8),
        "bool": (3, 1),
        "int32": (3, 1),
        "uint32": (3, 2),
    }
    assert [part is tree["large"] for part in parts.large] == [True]
    again = packing.unpack(like, parts)
    assert packing.template(again) is like
    np.testing.assert_array_equal(again["a"][0], tree["a"][0])
    np.testing.assert_array_equal(again["a"][1], tree["a"][1])
    np.testing.assert_array_equal(again["c"], tree["c"])
    assert again["b"][1].shape == (3, 0)


@pytest.mark.parametrize("name", ["ddpg", "dqn", pytest.param("planning", marks=pytest.mark.slow)])
def test_a_packed_run_equals_a_loose_one_and_continues_exactly(name, tmp_path, quick, monkeypatch):
    monkeypatch.setattr(packing, "LARGE", 2000)
    task, grid = RUNS[name]
    quick |= {"steps": 40, "eval_every": 20} | grid
    bires.train(task, out=tmp_path / "loose", **quick)
    monkeypatch.setattr(Placement, "packed", True)
    bires.train(task, out=tmp_path / "packed", **quick)
    loose, tight = arrays(tmp_path / "loose"), arrays(tmp_path / "packed")
    assert loose.keys() == tight.keys()
    for key in loose:
        np.testing.assert_allclose(loose[key], tight[key], rtol=1e-3, atol=1e-4, err_msg=key)

    steps, asked = Trainer._steps, []

    def stopping(self, until, stop):
        asked.append(until)
        if len(asked) == 3:  # at step 20, where the undisturbed run saves, too
            raise Stopped(self.step)
        steps(self, until, stop)

    monkeypatch.setattr(Trainer, "_steps", stopping)
    with pytest.raises(Stopped):
        bires.train(task, out=tmp_path / "parts", **quick)
    bires.train(task, out=tmp_path / "parts", **quick)
    assert len(asked) > 3
    assert contents(tmp_path / "packed") == contents(tmp_path / "parts")
    assert_same_state(tmp_path / "packed", tmp_path / "parts")


def test_a_packed_member_diverges_alone(tmp_path, quick, monkeypatch):
    monkeypatch.setattr(Placement, "packed", True)
    quick |= {"critic_lr": [1e-3, 1e30]}
    run = bires.train("pendulum-swingup", algorithm="ddpg", seed=[0], out=tmp_path / "run", **quick)
    ended = {row["critic_lr"]: row["status"] for row in run.members.rows()}
    assert ended == {1e-3: "finished", 1e30: "diverged"}
