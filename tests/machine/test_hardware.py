"""How a population is spread over cores and devices."""

from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest

from bires.errors import UserError
from bires.machine import hardware
from bires.machine.memory import free_memory, require_memory
from bires.settings.keywords import make_config
from bires.settings.options import Options
from bires.training.plan import make_plan


@pytest.mark.parametrize(
    ("task", "settings", "cohorts"),
    [
        ("CartPole-v1", {"algorithm": "dqn", "hidden": (64, 64), "batch": 32, "update_every": 4}, 1),
        ("CartPole-v1", {"algorithm": "dqn"}, 2),
        ("pendulum-swingup", {"algorithm": "ddpg"}, 2),
    ],
)
def test_a_little_work_stays_on_one_core(task, settings, cohorts, monkeypatch):
    monkeypatch.setattr(hardware, "FLOPS_FOR_SEVERAL_COHORTS", 1e8)
    monkeypatch.delenv("JAX_NUM_CPU_DEVICES", raising=False)
    monkeypatch.setattr("jax.devices", lambda: [SimpleNamespace(platform="cpu")] * 2)
    config = make_config(task, settings | {"seed": tuple(range(8)), "replay": 100})
    plan = make_plan(config, Options(workers=0, cohorts="threads"))
    assert len(plan.placement.cohorts) == cohorts
    assert sorted(int(i) for part in plan.placement.cohorts for i in part) == list(range(8))
    monkeypatch.setenv("JAX_NUM_CPU_DEVICES", "2")
    assert len(hardware.place(8, 1.0).cohorts) == 2


@pytest.mark.parametrize(
    ("members", "cores", "apart", "cohorts", "workers"),
    [
        (1, 16, False, 1, 0),
        (8, 16, False, 1, 8),
        (31, 16, False, 1, 16),
        (32, 16, True, 4, 16),
        (88, 16, True, 4, 22),
        (175, 16, True, 4, 32),
        (175, 8, True, 2, 16),
        (175, 4, False, 2, 8),
    ],
)
def test_beside_an_accelerator_few_processes_have_many_workers(members, cores, apart, cohorts, workers, monkeypatch):
    monkeypatch.delenv("JAX_NUM_CPU_DEVICES", raising=False)
    monkeypatch.setattr(hardware, "cores", lambda: cores)
    monkeypatch.setattr(hardware, "prefer_precision", lambda: None)
    monkeypatch.setattr("jax.default_backend", lambda: "gpu")
    monkeypatch.setattr("jax.devices", lambda: [SimpleNamespace(platform="gpu")])
    assert hardware.processes_pay(members, 10**6, 2e8, 1e-4) == apart
    assert len(hardware.place(members, 2e8, apart).cohorts) == cohorts
    assert hardware.choose_workers(members, None, True, 1e-4) == workers
    assert hardware.choose_workers(10, None, True, 45e-6) == min(10, cores), "quick ones too: cores wait for it"


class Device(NamedTuple):
    platform: str
    id: int


def test_a_memory_holds_the_cohorts_of_its_device():
    cohorts = tuple(np.array_split(np.arange(10), 4))  # 3, 3, 2 and 2 members
    one, two = Device("gpu", 0), Device("gpu", 1)
    assert hardware.Placement((one, two, one, two), cohorts, {}).largest_share == pytest.approx(0.5)
    assert hardware.Placement((one, one, one, two), cohorts, {}).largest_share == pytest.approx(0.8)
    assert hardware.Placement((Device("cpu", 0), Device("cpu", 1)), cohorts[:2], {}).largest_share == 1.0


def test_a_containers_limit_is_seen(tmp_path):
    free = free_memory(tmp_path / "none")
    assert free > 10**8
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "memory.current").write_text("70000000\n")
    (tmp_path / "memory.stat").write_text("anon 5\ninactive_file 20000000\n")
    assert free_memory(tmp_path) == pytest.approx(free, rel=0.2)
    (tmp_path / "memory.max").write_text("100000000\n")
    assert free_memory(tmp_path) == 50_000_000


@pytest.mark.parametrize(
    ("needed", "replay", "advice"),
    [
        (20e9, 18e9, r"free on gpu:0\. --replay 333333 would fit; or train fewer members at once\.$"),
        (30e9, 10e9, r"free on gpu:0\. No replay would fit: train fewer members at once\.$"),
    ],
)
def test_a_population_that_does_not_fit_is_refused_with_what_would(needed, replay, advice):
    class Device:
        platform = "gpu"

        def memory_stats(self):
            return {"bytes_limit": 10e9, "bytes_in_use": 0}

        def __str__(self):
            return "gpu:0"

    with pytest.raises(UserError, match=advice):
        require_memory(Device(), int(needed), int(replay), 1_000_000)
