"""The measurements: each takes the best of several short rounds, as machines are noisy."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.interpreters.partial_eval import dce_jaxpr

from bires.agents import registry
from bires.envs.pool import Pool
from bires.population.frames import Frames
from bires.population.program import hypers, make_program
from bires.settings import grid
from bires.settings.config import Config
from bires.settings.keywords import make_config
from bires.settings.options import Options
from bires.training.cohort import Cohort
from bires.training.plan import make_plan
from bires.training.runners import CohortRunner, make_runner
from bires.types import Space, Transition

CAPACITY, PIXEL_CAPACITY = 100_000, 5_000
LONG = 1_000_000
"""Steps of the run whose plan is measured."""
DQN_SIZES: dict[str, Any] = {"hidden": (64, 64), "batch": 32, "update_every": 4}
"""The defaults of Stable-Baselines3 for DQN on vectors."""


def best_rate(work: Callable[[int], None], per_call: float, seconds: float, period: int = 1) -> float:
    """The best rate of ``work(n)``, which does ``n * per_call`` things, over rounds that fill the time.

    Rounds are whole periods: where only every second step has all the work, a round of one would seem twice as fast.
    """
    work(2 * period)
    start = time.perf_counter()
    work(2 * period)
    each = (time.perf_counter() - start) / 2
    rounds, best = 8, 0.0
    count = period * max(1, int(seconds / rounds / each))
    for _ in range(rounds):
        start = time.perf_counter()
        work(count)
        best = max(best, count * per_call / (time.perf_counter() - start))
    return best


def best_rates(works: Sequence[Callable[[int], None]], per_call: float, seconds: float, period: int = 1) -> list[float]:
    """`best_rate` of several functions alternately, so that a busy moment of the machine affects all of them."""
    found = [[best_rate(work, per_call, seconds / 8, period) for work in works] for _ in range(4)]
    return [max(rates) for rates in zip(*found, strict=True)]


def sgemm_peak(seconds: float) -> float:
    """FLOP/s of a large single-precision matrix product: with all cores, or on the first accelerator.

    On a CPU it is the best of NumPy's and XLA's: which library has the faster kernels depends on the processor.
    """
    on_cpu = jax.default_backend() == "cpu"
    size = 2048 if on_cpu else 8192
    a = np.random.default_rng(0).standard_normal((size, size), np.float32)
    b = a.T.copy()
    device = jax.device_put((a, b))
    multiply = jax.jit(lambda a, b: jnp.matmul(a, b, precision="float32"))

    def by_numpy(count: int) -> None:
        for _ in range(count):
            np.matmul(a, b)

    def by_xla(count: int) -> None:
        for _ in range(count):
            product = multiply(*device)
        product.block_until_ready()

    ways = (by_numpy, by_xla) if on_cpu else (by_xla,)
    return max(best_rate(work, 2.0 * size**3, seconds / len(ways)) for work in ways)


def update_flops(space: Space, config: Config) -> float | None:
    """Floating-point operations of one update's matrix products (two per multiply-add); None: not counted.

    What is delayed counts for its share. Products whose result nobody uses do not count.
    """
    if space.pixels is not None:
        return None
    members = grid.members(config)[:1]
    program = make_program(config, members, space, CAPACITY)
    agent = program.agent
    learner = agent.init(np.random.default_rng(0))
    hyper = jax.tree.map(lambda x: x[0], hypers(program, members))
    seen, action = (jnp.zeros((config.batch, size)) for size in (space.observation, space.action))
    number = jnp.zeros(config.batch)
    batch = Transition(seen, action, number, number, seen)
    asked = (jax.random.key(0), learner, hyper, batch, jnp.array(True))
    total = product_flops(agent.update, *asked)
    return total if agent.delayed is None else total + product_flops(agent.delayed, *asked) / agent.delay


def product_flops(function: Callable[..., Any], *arguments: Any) -> float:
    """Floating-point operations of the matrix products in a function."""
    traced = jax.make_jaxpr(function)(*arguments).jaxpr
    return walked(dce_jaxpr(traced, [True] * len(traced.outvars))[0])


def walked(traced: Any) -> float:
    total = 0.0
    for equation in traced.eqns:
        if equation.primitive.name == "dot_general":
            (summed, _), _ = equation.params["dimension_numbers"]
            inner = np.prod([equation.invars[0].aval.shape[axis] for axis in summed], dtype=float)
            total += 2.0 * float(inner) * equation.outvars[0].aval.size
        total += sum(walked(inner) for value in equation.params.values() if (inner := jaxpr_in(value)) is not None)
    return total


def jaxpr_in(value: Any) -> Any:
    """The program inside a parameter of an equation, if it is one."""
    return value if hasattr(value, "eqns") else getattr(value, "jaxpr", None)


@dataclass
class MeasuredPopulation:
    """A population past its warm-up, ready to be stepped with or without its environments."""

    runner: CohortRunner
    count: int
    clock: int
    period: int
    """Steps after which an update with all its parts comes again."""

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


def plain(task: str, agent: str, rule: str, members: int) -> Config:
    """The usual configuration of an agent with one rule."""
    module, colon, _ = agent.rpartition(":")
    baseline = f"{module}{colon}{registry.agent(agent).baseline}"
    config = make_config(task, {"algorithm": baseline, "rule": rule, "seeds": members, "warmup": 1})
    return replace(config, **DQN_SIZES) if agent == "dqn" and config.sight == "vector" else config


def build(task: str, agent: str, rule: str, members: int) -> MeasuredPopulation:
    """A population of one agent and rule."""
    return population(plain(task, agent, rule, members))


def population(config: Config) -> MeasuredPopulation:
    """A population as it would be planned for a long run."""
    capacity = PIXEL_CAPACITY if config.sight == "pixels" else CAPACITY
    plan = make_plan(replace(config, replay=capacity, steps=LONG), Options())
    runner = make_runner(plan, evaluation_envs=0)
    try:
        runner.each(fill)
    except BaseException:
        runner.close()
        raise
    period = plan.program.update_every * plan.program.agent.delay
    return MeasuredPopulation(runner, len(plan.members), capacity, period)


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


def first_update_seconds(task: str, agent: str) -> dict[str, float]:
    """Seconds from starting Python to the first update done, with an empty and with a filled compilation cache."""
    made = f"build({task!r}, {agent!r}, 'bi', 10)"
    code = f"from bires.tools.bench.measure import build; b = {made}; b.updates(1); b.close()"
    result = {}
    with tempfile.TemporaryDirectory() as cache:
        environment: dict[str, Any] = os.environ | {"XDG_CACHE_HOME": cache}
        environment.pop("JAX_COMPILATION_CACHE_DIR", None)
        for name in ("cold", "cached"):
            start = time.perf_counter()
            subprocess.run([sys.executable, "-c", code], env=environment, check=True)
            result[name] = time.perf_counter() - start
    return result
