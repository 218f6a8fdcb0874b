"""How a population is spread over cores and devices."""

import threading
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import bires
from bires import hardware
from bires.api import make_config
from bires.hardware import Placement
from bires.options import Options
from bires.runs import Folder
from bires.trainer import Trainer
from tests.test_training import assert_same_state, contents


def placed(platform: str, cohorts: int) -> Placement:
    device: Any = SimpleNamespace(platform=platform)
    return Placement((device,) * cohorts, tuple(np.array_split(np.arange(20), cohorts)), {})


def at_once(turns: Any) -> int | None:
    """How many cohorts may step at once; None: all."""
    if isinstance(turns, nullcontext):
        return None
    assert isinstance(turns, threading.Semaphore)
    count = 0
    while turns.acquire(blocking=False):
        count += 1
    return count


@pytest.mark.parametrize(
    ("platform", "cohorts", "workers", "expected"),
    [
        ("gpu", 2, 16, 1),
        ("gpu", 4, 8, 2),
        ("gpu", 2, 8, None),
        ("gpu", 1, 32, None),
        ("gpu", 2, 0, None),
        ("cpu", 4, 16, None),
    ],
)
def test_cohorts_take_turns_where_their_workers_are_more_than_the_cores(
    platform, cohorts, workers, expected, monkeypatch
):
    monkeypatch.setattr(hardware, "cores", lambda: 16)
    assert at_once(placed(platform, cohorts).turns(workers)) == expected


@pytest.mark.parametrize(
    ("task", "settings", "cohorts"),
    [
        ("CartPole-v1", {"algorithm": "dqn", "hidden": (64, 64), "batch": 32, "update_every": 4}, 1),
        ("CartPole-v1", {"algorithm": "dqn"}, 2),
        ("pendulum-swingup", {"algorithm": "ddpg"}, 2),
    ],
)
def test_a_little_work_stays_on_one_core(task, settings, cohorts, tmp_path, monkeypatch):
    monkeypatch.setattr(hardware, "SMALL", 1e8)
    monkeypatch.delenv("JAX_NUM_CPU_DEVICES", raising=False)
    monkeypatch.setattr("jax.devices", lambda: [SimpleNamespace(platform="cpu")] * 2)
    config = make_config(task, settings | {"seed": tuple(range(8)), "replay": 100})
    trainer = Trainer(config, Folder(tmp_path), Options(workers=0))
    assert len(trainer.placement.cohorts) == cohorts
    assert sorted(int(i) for part in trainer.placement.cohorts for i in part) == list(range(8))
    monkeypatch.setenv("JAX_NUM_CPU_DEVICES", "2")
    assert len(hardware.place(8, 1.0).cohorts) == 2


def test_turns_change_nothing_but_the_time(tmp_path, quick, monkeypatch):
    quick |= {"algorithm": ["ddpg", "bi-res-ddpg"], "seed": [0, 1], "steps": 40, "eval_every": 20, "workers": 2}
    bires.train("pendulum-swingup", out=tmp_path / "free", **quick)
    taken: list[int] = []

    class Turn:
        def __enter__(self):
            assert lock.acquire(timeout=60)
            taken.append(threading.get_ident())

        def __exit__(self, *_):
            lock.release()

    lock = threading.Lock()
    monkeypatch.setattr(Placement, "turns", lambda self, workers: Turn())
    bires.train("pendulum-swingup", out=tmp_path / "turns", **quick)
    assert len(taken) == 40 * len(hardware.place(4).cohorts)
    assert contents(tmp_path / "free") == contents(tmp_path / "turns")
    assert_same_state(tmp_path / "free", tmp_path / "turns")
