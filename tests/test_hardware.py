"""How a population is spread over cores and devices."""

from types import SimpleNamespace

import pytest

from bires import hardware
from bires.api import make_config
from bires.options import Options
from bires.runs import Folder
from bires.trainer import Trainer


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
    trainer = Trainer(config, Folder(tmp_path), Options(workers=0, cohorts="threads"))
    assert len(trainer.placement.cohorts) == cohorts
    assert sorted(int(i) for part in trainer.placement.cohorts for i in part) == list(range(8))
    monkeypatch.setenv("JAX_NUM_CPU_DEVICES", "2")
    assert len(hardware.place(8, 1.0).cohorts) == 2
