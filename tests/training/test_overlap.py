"""Updates that are made while the environments step, as beside an accelerator: the same members."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bires
from bires.envs.slots import Slots
from bires.machine.hardware import Placement
from bires.population import replay
from bires.population.frames import Frames, frame_size
from bires.settings.options import Stopped
from bires.training.bridge import EnvironmentBridge
from bires.training.loop import TrainingLoop
from bires.types import Pixels, Space
from tests.helpers import QUICK, TASK, arrays, assert_same_state, contents

RUNS: dict[str, Any] = {
    "ddpg": (TASK, {"algorithm": ["ddpg", "bi-res-ddpg"], "seed": [0, 1]}),
    "dqn": (
        "CartPole-v1",
        {"algorithm": ["dqn", "bi-res-dqn"], "seed": [0, 1], "hidden": (16,), "update_every": 3, "update_times": 2},
    ),
}
VECTORS = Space(3, 2, (-1.0, -1.0), (1.0, 1.0))
PIXELS = Space(4 * 2 * 3, 1, (0.0,), (1.0,), choices=2, pixels=Pixels(4, 2, 3))


@pytest.mark.parametrize("name", ["ddpg", pytest.param("dqn", marks=pytest.mark.slow)])
def test_an_overlapped_run_equals_one_in_turn_and_continues_exactly(name, tmp_path, quick, request, monkeypatch):
    if name == "ddpg":
        request.getfixturevalue("split")
    task, grid = RUNS[name]
    quick |= {"steps": 40, "eval_every": 20} | grid
    bires.train(task, out=tmp_path / "turns", **quick)
    monkeypatch.setattr(Placement, "ahead", True)
    bires.train(task, out=tmp_path / "overlapped", **quick)
    turns, overlapped = arrays(tmp_path / "turns"), arrays(tmp_path / "overlapped")
    assert turns.keys() == overlapped.keys()
    for key in turns:
        np.testing.assert_allclose(turns[key], overlapped[key], rtol=1e-3, atol=1e-4, err_msg=key)

    steps, asked = TrainingLoop._steps, []

    def stopping(self, until, stop):
        asked.append(until)
        if len(asked) == 3:  # at step 20, where the undisturbed run saves, too
            raise Stopped(self.step)
        steps(self, until, stop)

    monkeypatch.setattr(TrainingLoop, "_steps", stopping)
    with pytest.raises(Stopped):
        bires.train(task, out=tmp_path / "parts", **quick)
    bires.train(task, out=tmp_path / "parts", **quick)
    assert len(asked) > 3
    assert contents(tmp_path / "overlapped") == contents(tmp_path / "parts")
    assert_same_state(tmp_path / "overlapped", tmp_path / "parts")


@pytest.mark.parametrize(
    ("name", "workers"),
    [
        ("dqn", 0),
        pytest.param("ddpg", 2, marks=pytest.mark.slow),
        pytest.param("ddpg", 0, marks=pytest.mark.slow),
        pytest.param("dqn", 2, marks=pytest.mark.slow),
    ],
)
def test_whether_an_update_waits_changes_nothing(name, workers, tmp_path, quick, monkeypatch):
    """The buffer is small, so that some updates have to wait and others need not."""
    task, grid = RUNS[name]
    quick |= {"steps": 60, "eval_every": 30, "batch": 2, "warmup": 8, "workers": workers} | grid
    monkeypatch.setattr(Placement, "ahead", True)
    send, asked = EnvironmentBridge.send, []

    def noted(self, action, needed):
        asked.append(needed.any())
        return send(self, action, needed)

    monkeypatch.setattr(EnvironmentBridge, "send", noted)
    bires.train(task, out=tmp_path / "ahead", **quick)
    assert 2 <= sum(asked) < 0.9 * len(asked)
    monkeypatch.setattr(EnvironmentBridge, "send", lambda self, action, needed: send(self, action, ~needed | needed))
    bires.train(task, out=tmp_path / "after", **quick)
    assert contents(tmp_path / "ahead") == contents(tmp_path / "after")
    assert_same_state(tmp_path / "ahead", tmp_path / "after")


@pytest.mark.parametrize("space", [VECTORS, PIXELS], ids=["vectors", "pixels"])
def test_a_batch_reads_what_the_environments_say_exactly_when_it_says_so(space):
    """Once a ring is there with that step, and once with nonsense in place of what is not known before the step."""
    capacity, batch, rng = 12, 2, np.random.default_rng(0)

    def filled() -> Any:
        if space.pixels is None:
            return jnp.asarray(rng.standard_normal((capacity, replay.width(space))), jnp.float32)
        numbers = rng.standard_normal((capacity, 3)).astype(np.float32)
        rings = rng.integers(0, 256, (capacity, frame_size(space)), np.uint8), rng.random(capacity) < 0.2, numbers
        return Frames(*map(jnp.asarray, rings))

    def disturbed(storage: Any, clock: int) -> Any:
        if space.pixels is None:
            return storage.at[clock % capacity].set(77)
        return storage._replace(numbers=storage.numbers.at[clock % capacity].set(77))  # the frame is known before

    said = []
    for clock in (*range(2, 9), *range(20, 40)):
        for seed in range(8):
            key, now, storage = jax.random.key(seed), jnp.int32(clock), filled()
            one = replay.sample(space, key, storage, now, batch)
            two = replay.sample(space, key, disturbed(storage, clock), now, batch)
            differs = any(not np.array_equal(a, b) for a, b in zip(one, two, strict=True))
            said.append(bool(replay.reads_newest(space, key, capacity, now, batch)))
            assert said[-1] == differs
    assert 0.05 < np.mean(said) < 0.95 if space.pixels is None else not any(said)


@pytest.mark.parametrize("ahead", [True, False])
def test_a_member_diverges_alone(ahead, tmp_path, quick, monkeypatch):
    monkeypatch.setattr(Placement, "ahead", ahead)
    quick |= {"critic_lr": [1e-3, 1e30]}
    run = bires.train(TASK, algorithm="ddpg", seed=[0], out=tmp_path / "run", **quick)
    ended = {row["critic_lr"]: row["status"] for row in run.members.rows()}
    assert ended == {1e-3: "finished", 1e30: "diverged"}


@pytest.fixture(scope="module")
def calm(tmp_path_factory):
    """A run that nobody interrupts, with updates while the environments step (True) and in turn (False)."""
    runs = {}
    for ahead in (True, False):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Placement, "ahead", ahead)
            settings = QUICK | {"cohorts": "threads", "workers": 0, "seed": [0]}
            out = tmp_path_factory.mktemp("calm") / "run"
            runs[ahead] = bires.train(TASK, algorithm="ddpg", out=out, **settings).path
    return runs


@pytest.mark.parametrize("ahead", [True, False])
@pytest.mark.parametrize("moment", [3, 45])
def test_a_run_interrupted_during_a_step_can_go_on(ahead, moment, tmp_path, quick, calm, monkeypatch):
    """In the warm-up, and (moment 45) after it and an evaluation: each evaluation is one episode of 200 steps."""
    monkeypatch.setattr(Placement, "ahead", ahead)
    quick |= {"cohorts": "threads", "workers": 0, "seed": [0]}
    step, count = Slots.step, [0]

    def interrupted(self, slots):
        count[0] += 1
        if count[0] == 200 + moment:
            raise KeyboardInterrupt
        step(self, slots)

    monkeypatch.setattr(Slots, "step", interrupted)
    with pytest.raises(KeyboardInterrupt):
        bires.train(TASK, algorithm="ddpg", out=tmp_path / "run", **quick)
    bires.train(TASK, algorithm="ddpg", out=tmp_path / "run", **quick)
    assert contents(calm[ahead]) == contents(tmp_path / "run")
    assert_same_state(calm[ahead], tmp_path / "run")
