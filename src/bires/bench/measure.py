"""The measurements: each takes the best of several short rounds, as machines are noisy."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bires import config as configs
from bires import hardware, rules
from bires.cohort import Cohort, Crowd
from bires.config import Config
from bires.envs.adapter import probe, recipe_of
from bires.envs.oracle import check
from bires.hardware import choose_workers
from bires.population import Compiled, compiled, incoming_width
from bires.program import make_program
from bires.types import Space

CAPACITY = 100_000


def best_rate(work: Callable[[int], None], per_call: float, seconds: float) -> float:
    """The best rate of ``work(n)``, which does ``n * per_call`` things, over rounds that fill the time."""
    work(2)
    start = time.perf_counter()
    work(3)
    each = (time.perf_counter() - start) / 3
    rounds, best = 8, 0.0
    count = max(1, int(seconds / rounds / each))
    for _ in range(rounds):
        start = time.perf_counter()
        work(count)
        best = max(best, count * per_call / (time.perf_counter() - start))
    return best


def best_rates(works: Sequence[Callable[[int], None]], per_call: float, seconds: float) -> list[float]:
    """`best_rate` of several things in turns, so that a busy moment of the machine meets all of them."""
    found = [[best_rate(work, per_call, seconds / 8) for work in works] for _ in range(4)]
    return [max(rates) for rates in zip(*found, strict=True)]


def sgemm_peak(seconds: float) -> float:
    """FLOP/s of a large single-precision matrix product: with all cores, or on the first accelerator."""
    on_cpu = jax.default_backend() == "cpu"
    size = 2048 if on_cpu else 8192
    a: Any = np.random.default_rng(0).standard_normal((size, size), np.float32)
    if not on_cpu:
        a = jax.device_put(a)
    b = a.T.copy()
    multiply = np.matmul if on_cpu else jax.jit(lambda a, b: jnp.matmul(a, b, precision="float32"))

    def work(count: int) -> None:
        for _ in range(count):
            product: Any = multiply(a, b)
        if not on_cpu:
            product.block_until_ready()

    return best_rate(work, 2.0 * size**3, seconds)


def update_flops(space: Space, hidden: tuple[int, ...], batch: int, rule: str) -> float:
    """Floating-point operations of one DDPG update's matrix products (two per multiply-add)."""
    need = rules.needs([rules.get(rule)])
    o, a, (h1, *rest) = space.observation, space.action, hidden
    inner = sum(n * m for n, m in zip((h1, *rest), rest, strict=False))
    actor = o * h1 + inner + hidden[-1] * a
    critic = o * h1 + inner + a * hidden[1] + hidden[-1]
    ends = 1 + need.online_succ
    passes = ends + need.target_pred + need.target_succ
    backward = 2 * critic - o * h1 - a * hidden[1]
    actor_backward = 2 * actor - o * h1
    through_critic = hidden[-1] + a * hidden[1] + (inner - h1 * hidden[1])
    total = (
        critic * passes
        + actor * (need.online_succ + need.target_succ)
        + backward * (1 + need.forward)
        + actor
        + critic
        + through_critic
        + actor_backward
    )
    return 2.0 * batch * total


@dataclass
class Bench:
    """A population of one rule, ready to be stepped with or without its environments."""

    cohorts: list[Cohort]
    compiled: Compiled
    threads: ThreadPoolExecutor
    count: int
    clock: int = 1

    def updates(self, count: int) -> None:
        """Updates of every member with the environments standing still."""

        def work(cohort: Cohort) -> None:
            rows = np.zeros((len(cohort.members), incoming_width(cohort.pool.board.observation.shape[1])), np.float32)
            for clock in range(self.clock, self.clock + count):
                cohort.state, cohort.action = self.compiled.learn(cohort.state, cohort.hyper, rows, np.int32(clock))
                np.asarray(cohort.action)

        self._each(work)
        self.clock += count

    def steps(self, count: int) -> None:
        """Whole steps: act, step the environments, insert, sample, update."""
        self._each(lambda cohort: cohort.run(self.compiled, self.clock, self.clock + count))
        self.clock += count

    def environments(self, count: int) -> None:
        """Steps of the environments alone."""

        def work(cohort: Cohort) -> None:
            for _ in range(count):
                cohort.pool.send(0)
                cohort.pool.wait(0)

        self._each(work)

    def close(self) -> None:
        self.threads.shutdown()
        for cohort in self.cohorts:
            cohort.pool.close()

    def _each(self, work: Callable[[Cohort], None]) -> None:
        list(self.threads.map(work, self.cohorts))


def build(task: str, rule: str, members: int, workers: int | None = None) -> Bench:
    """A DDPG population of one rule."""
    return population(Config(task, rule=(rule,), seed=tuple(range(members)), warmup=1), workers)


def population(config: Config, workers: int | None = None) -> Bench:
    """A population past its warm-up, its replay full of random transitions."""
    everyone = configs.members(config)
    made = recipe_of(config)
    placement = hardware.place(len(everyone))
    program = make_program(config, everyone, probe(made), CAPACITY)
    count = choose_workers(len(everyone), workers, made.portable)
    physics = check(made) if program.oracle else 0
    crowd = Crowd(0, placement.workers_each(count), physics)
    functions = compiled(program, placement.options)
    rng = np.random.default_rng(0)
    cohorts = []
    for ids, device in zip(placement.cohorts, placement.devices, strict=True):
        cohort = Cohort([everyone[i] for i in ids], device, made, program, config, crowd)
        cohort.begin(functions)
        rows = rng.standard_normal(cohort.state.storage.shape, np.float32)
        cohort.state = cohort.state._replace(storage=jax.device_put(rows, device))
        if cohort.dreamer is not None:  # any state will do, as long as the simulator can be in it
            cohort.step_environments()
            for states in cohort.dreamer.states.values():
                states[:] = cohort.pool.board.physics[: len(ids), None]
        cohorts.append(cohort)
    return Bench(cohorts, functions, ThreadPoolExecutor(len(cohorts)), len(everyone), CAPACITY)


def first_update_seconds(task: str) -> dict[str, float]:
    """Seconds from starting Python to the first update done, with an empty and with a filled compilation cache."""
    code = f"from bires.bench.measure import build; b = build({task!r}, 'bi', 10); b.updates(1); b.close()"
    result = {}
    with tempfile.TemporaryDirectory() as cache:
        environment: dict[str, Any] = os.environ | {"XDG_CACHE_HOME": cache}
        environment.pop("JAX_COMPILATION_CACHE_DIR", None)
        for name in ("cold", "cached"):
            start = time.perf_counter()
            subprocess.run([sys.executable, "-c", code], env=environment, check=True)
            result[name] = time.perf_counter() - start
    return result
