"""The measurements: each takes the best of several short rounds, as machines are noisy."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bires import rules
from bires.envs.adapter import probe, recipe
from bires.envs.pool import Pool
from bires.population.frames import Frames
from bires.rules import Needs
from bires.settings.config import Config
from bires.settings.keywords import make_config
from bires.settings.options import Options
from bires.training.cohort import Cohort
from bires.training.plan import make_plan
from bires.training.runners import CohortRunner, make_runner
from bires.types import Space

CAPACITY, PIXEL_CAPACITY = 100_000, 5_000
LONG = 1_000_000
"""Steps of the run whose plan is measured."""
DQN_SIZES = {"hidden": (64, 64), "batch": 32, "update_every": 4}
"""The defaults of Stable-Baselines3 for DQN on vectors."""


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
    """`best_rate` of several functions alternately, so that a busy moment of the machine affects all of them."""
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


def update_flops(space: Space, config: Config, rule: str) -> float | None:
    """Floating-point operations of one update's matrix products (two per multiply-add); None: not counted."""
    if space.pixels is not None:
        return None
    count = dqn_products if space.choices else ddpg_products
    return 2.0 * config.batch * count(space, config.hidden, rules.needs([rules.get(rule)]))


def dqn_products(space: Space, hidden: tuple[int, ...], need: Needs) -> int:
    """Multiply-adds of one DQN update for one transition."""
    assert space.choices is not None
    sizes = (space.observation, *hidden, space.choices)
    layers = [n * m for n, m in pairwise(sizes)]
    passes = 1 + need.online_succ + need.target_pred + need.target_succ
    return passes * sum(layers) + (1 + need.forward) * (2 * sum(layers) - layers[0])


def ddpg_products(space: Space, hidden: tuple[int, ...], need: Needs) -> int:
    """Multiply-adds of one DDPG update for one transition."""
    o, a, (h1, *rest) = space.observation, space.action, hidden
    inner = sum(n * m for n, m in zip((h1, *rest), rest, strict=False))
    actor = o * h1 + inner + hidden[-1] * a
    critic = o * h1 + inner + a * hidden[1] + hidden[-1]
    ends = 1 + need.online_succ
    passes = ends + need.target_pred + need.target_succ
    backward = 2 * critic - o * h1 - a * hidden[1]
    actor_backward = 2 * actor - o * h1
    through_critic = hidden[-1] + a * hidden[1] + (inner - h1 * hidden[1])
    return (
        critic * passes
        + actor * (need.online_succ + need.target_succ)
        + backward * (1 + need.forward)
        + actor
        + critic
        + through_critic
        + actor_backward
    )


@dataclass
class MeasuredPopulation:
    """A population past its warm-up, ready to be stepped with or without its environments."""

    runner: CohortRunner
    count: int
    clock: int

    def updates(self, count: int) -> None:
        """Updates of every member with the environments standing still."""
        self.clock = self.runner.each(updates, self.clock, count)[0]

    def steps(self, count: int) -> None:
        """Whole steps: act, step the environments, insert, sample, update."""
        self.runner.each(Cohort.run, self.clock, self.clock + count)
        self.clock += count

    def environments(self, count: int) -> None:
        """Steps of the environments alone."""
        self.runner.each(environments, count)

    def close(self) -> None:
        self.runner.close()


class Still:
    """A pool whose environments stand still."""

    def __init__(self, pool: Pool) -> None:
        self.arrays, self.failures = pool.arrays, pool.failures

    def send(self, group: int) -> None:
        """Nothing moves."""

    wait = send


def updates(cohort: Cohort, start: int, count: int) -> int:
    """Some updates of a cohort, with the steps between them; returns the number of the next step."""
    pool, still, stop = cohort.pool, Still(cohort.pool), start + count * cohort.program.update_every
    cohort.bridge.pool = still  # type: ignore[assignment]
    cohort.run(start, stop)
    cohort.bridge.pool = pool
    return stop


def environments(cohort: Cohort, count: int) -> None:
    for _ in range(count):
        cohort.pool.send(0)
        cohort.pool.wait(0)


def fill(cohort: Cohort) -> None:
    """A cohort at its start, but with a replay full of random transitions."""
    cohort.begin()
    storage = scrambled(cohort.state.storage, cohort.program.space, np.random.default_rng(0))
    cohort.state = cohort.state._replace(storage=jax.device_put(storage, cohort.device))
    if cohort.bridge.simulator is not None:  # any state will do, as long as the simulator can be in it
        environments(cohort, 1)
        for states in cohort.bridge.simulator.states.values():
            states[:] = cohort.pool.arrays.physics[: len(cohort.members), None]


def plain(task: str, space: Space, rule: str, members: int) -> Config:
    """The usual configuration of DDPG, or of DQN where actions are discrete, with one rule."""
    algorithm = "dqn" if space.choices else "ddpg"
    sizes = DQN_SIZES if space.choices and space.pixels is None else {}
    settings = {"algorithm": (algorithm,), "rule": (rule,), "seed": tuple(range(members)), "warmup": 1}
    return make_config(task, settings | sizes)


def build(task: str, rule: str, members: int, options: Options = Options()) -> MeasuredPopulation:  # noqa: B008
    """A population of one rule."""
    return population(plain(task, probe(recipe(task, "modern")), rule, members), options)


def population(config: Config, options: Options = Options(), evaluation_envs: int = 0) -> MeasuredPopulation:  # noqa: B008
    """A population as it would be planned for a long run, with so many evaluation environments per member."""
    capacity = PIXEL_CAPACITY if config.sight == "pixels" else CAPACITY
    plan = make_plan(replace(config, replay=capacity, steps=LONG), options)
    runner = make_runner(plan, evaluation_envs)
    try:
        runner.each(fill)
    except BaseException:
        runner.close()
        raise
    return MeasuredPopulation(runner, len(plan.members), capacity)


def scrambled(storage: Any, space: Space, rng: np.random.Generator) -> Any:
    """A replay of the same shape, full of random numbers or pixels; where actions are choices, the first of them."""
    if isinstance(storage, Frames):
        members, slots, size = storage.frames.shape
        frames = rng.integers(0, 256, (members, slots, size), np.uint8)
        numbers = np.zeros(storage.numbers.shape, np.float32)
        numbers[..., -1] = 1.0
        return Frames(frames, np.zeros((members, slots), bool), numbers)  # type: ignore[arg-type]
    rows = rng.standard_normal(storage.shape, np.float32)
    if space.choices:
        rows[..., space.observation] = 0.0
    return rows


def first_update_seconds(task: str) -> dict[str, float]:
    """Seconds from starting Python to the first update done, with an empty and with a filled compilation cache."""
    code = f"from bires.tools.bench.measure import build; b = build({task!r}, 'bi', 10); b.updates(1); b.close()"
    result = {}
    with tempfile.TemporaryDirectory() as cache:
        environment: dict[str, Any] = os.environ | {"XDG_CACHE_HOME": cache}
        environment.pop("JAX_COMPILATION_CACHE_DIR", None)
        for name in ("cold", "cached"):
            start = time.perf_counter()
            subprocess.run([sys.executable, "-c", code], env=environment, check=True)
            result[name] = time.perf_counter() - start
    return result
