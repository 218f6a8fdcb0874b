"""Cohorts kept in few arrays, as beside an accelerator: the same members, computed from other buffers."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bires
from bires import accelerated, packing, replay
from bires.accelerated import Packed
from bires.frames import Frames, frame_size
from bires.hardware import Placement
from bires.options import Stopped
from bires.trainer import Trainer
from bires.types import Space
from tests.test_training import arrays, assert_same_state, contents

RUNS: dict[str, Any] = {
    "ddpg": ("pendulum-swingup", {"algorithm": ["ddpg", "bi-res-ddpg"], "seed": [0, 1]}),
    "dqn": ("CartPole-v1", {"algorithm": ["dqn", "bi-res-dqn"], "seed": [0, 1], "hidden": (16,), "update_every": 3}),
    "planning": ("pendulum-swingup", {"algorithm": ["ddpg", "dyna-ddpg"], "model": "learned", "model_scale": "small"}),
}
VECTORS = Space(3, 2, (-1.0, -1.0), (1.0, 1.0))
PIXELS = Space(4 * 2 * 3, 1, (0.0,), (1.0,), choices=2, pixels=(4, 2, 3))


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


@pytest.mark.parametrize("name", ["ddpg", "dqn"])
def test_updating_while_the_environments_step_changes_nothing(name, tmp_path, quick, monkeypatch):
    """The buffer is small, so that some updates have to wait and others need not. Nor does the actions' way matter."""
    task, grid = RUNS[name]
    quick |= {"steps": 60, "eval_every": 30, "batch": 2, "warmup": 8} | grid
    monkeypatch.setattr(Placement, "packed", True)
    must_wait, asked = Packed._must_wait, []

    def noted(self):
        asked.append(must_wait(self))
        return asked[-1]

    monkeypatch.setattr(Packed, "_must_wait", noted)
    bires.train(task, out=tmp_path / "ahead", **quick)
    assert 0.1 < np.mean(asked) < 0.9
    monkeypatch.setattr(Packed, "_must_wait", lambda self: True)
    assert accelerated.writes_to_host(jax.devices()[0])
    monkeypatch.setattr(accelerated, "writes_to_host", lambda device: False)
    bires.train(task, out=tmp_path / "after", **quick)
    assert contents(tmp_path / "ahead") == contents(tmp_path / "after")
    assert_same_state(tmp_path / "ahead", tmp_path / "after")


@pytest.mark.parametrize("space", [VECTORS, PIXELS], ids=["vectors", "pixels"])
def test_a_batch_reads_the_newest_transition_exactly_when_it_says_so(space):
    """Once a ring is there with that step, and once with nonsense in its place."""
    capacity, batch, rng = 12, 2, np.random.default_rng(0)

    def filled() -> Any:
        if space.pixels is None:
            return jnp.asarray(rng.standard_normal((capacity, replay.width(space))), jnp.float32)
        numbers = rng.standard_normal((capacity, 3)).astype(np.float32)
        rings = rng.integers(0, 256, (capacity, frame_size(space)), np.uint8), np.zeros(capacity, bool), numbers
        return Frames(*map(jnp.asarray, rings))

    def disturbed(storage: Any, clock: int) -> Any:
        def other(ring: Any) -> Any:
            return ring.at[clock % capacity].set(ring[clock % capacity] == 0 if ring.dtype == bool else 77)

        return jax.tree.map(other, storage)

    said = []
    for clock in (*range(2, 9), *range(20, 40)):
        for seed in range(8):
            key, now, storage = jax.random.key(seed), jnp.int32(clock), filled()
            one = replay.sample(space, key, storage, now, batch)
            two = replay.sample(space, key, disturbed(storage, clock), now, batch)
            differs = any(not np.array_equal(a, b) for a, b in zip(one, two, strict=True))
            said.append(bool(replay.reads_newest(space, key, capacity, now, batch)))
            if space.pixels is None:
                assert said[-1] == differs
            else:  # it may look there and take another draw after all
                assert said[-1] or not differs
    assert 0.05 < np.mean(said) < 0.95


def test_a_packed_member_diverges_alone(tmp_path, quick, monkeypatch):
    monkeypatch.setattr(Placement, "packed", True)
    quick |= {"critic_lr": [1e-3, 1e30]}
    run = bires.train("pendulum-swingup", algorithm="ddpg", seed=[0], out=tmp_path / "run", **quick)
    ended = {row["critic_lr"]: row["status"] for row in run.members.rows()}
    assert ended == {1e-3: "finished", 1e30: "diverged"}
