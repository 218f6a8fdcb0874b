"""What planning costs: the oracle beside the plain environment, a model's update, and each planner beside DDPG."""

from __future__ import annotations

from contextlib import closing
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bires.envs.memory import Layout
from bires.envs.oracle import Oracle, Questions, check
from bires.envs.recipe import Recipe, probe, recipe
from bires.machine import hardware
from bires.planning import models as network
from bires.planning.fitting import HELD_OUT
from bires.planning.models import ModelScale
from bires.settings.config import Config
from bires.tools.bench import measure
from bires.types import Space, Transition

ALGORITHMS = ("dyna-ddpg", "res-dyna-ddpg", "mve-ddpg")
WARMUP = HELD_OUT + 1
"""The shortest that learned models allow."""
ROWS = 256
"""States that the oracle starts from, one after another."""


def measured(task: str, seconds: float, members: int) -> dict[str, Any]:
    """All measurements of planning."""
    made = recipe(task, "modern")
    space = probe(made)
    peak = measure.sgemm_peak(seconds / 4)
    models = {name: model_updates(space, scale, seconds) for name, scale in network.SCALES.items()}
    peak = max(peak, measure.sgemm_peak(seconds / 4))
    return {
        "task": task,
        "oracle": oracle_rates(made, space, seconds),
        "models": {
            name: {
                "updates_per_second": rate,
                "gflop_per_update": model_flops(space, network.SCALES[name]) / 1e9,
                "share_of_peak": rate * model_flops(space, network.SCALES[name]) / peak,
            }
            for name, rate in models.items()
        },
        "members": members,
        "steps": step_costs(task, seconds, members),
    }


def oracle_rates(made: Recipe, space: Space, seconds: float) -> dict[str, float]:
    """Steps per second of one environment on one core, and answers per second of the oracle from its states."""
    environment = made.build()
    physics = check(made, environment)
    size = Layout()
    Questions(size, ROWS, space, physics)
    questions = Questions(Layout(bytearray(size.nbytes)), ROWS, space, physics)
    oracle, rng = Oracle(made), np.random.default_rng(0)
    actions = rng.uniform(space.low, space.high, (ROWS, space.action)).astype(np.float32)
    environment.reset(0)
    state = environment.physics()
    assert state is not None
    for row in range(ROWS):
        questions.state[row], questions.action[row] = state.read(), actions[row]
        advance(environment, actions[row])

    def steps(count: int) -> None:
        for _ in range(count):
            for action in actions:
                advance(environment, action)

    def answers(count: int) -> None:
        for _ in range(count):
            questions.asked[0] = ROWS
            if oracle.answer(questions, 0, 1):
                raise RuntimeError("the oracle failed")

    plain, asked = measure.best_rates((steps, answers), ROWS, seconds)
    environment.close()
    oracle.close()
    return {"environment_steps_per_second": plain, "oracle_answers_per_second": asked, "share": asked / plain}


def advance(environment: Any, action: np.ndarray) -> None:
    outcome = environment.step(action)
    if outcome.terminated or outcome.truncated:
        environment.reset(0)


def model_flops(space: Space, scale: ModelScale) -> float:
    """Floating-point operations of one model update's matrix products: forward, ∂w, and ∂x but for the first layers."""
    total = 0
    for hidden, outputs in ((scale.change, space.observation), (scale.reward, 1)):
        sizes = (space.observation + space.action, *hidden, outputs)
        products = [n * m for n, m in pairwise(sizes)]
        total += 3 * sum(products) - products[0]
    return 2.0 * scale.batch * total


def model_updates(space: Space, scale: ModelScale, seconds: float) -> float:
    """Updates per second of the models of as many members as there are cores, each on a core of its own."""
    placement = hardware.place(hardware.cores())
    update = jax.jit(
        lambda ensemble, batch: network.update(ensemble, scale, batch, jnp.array(True))[0],
        compiler_options=placement.options,
        donate_argnums=0,
    )
    rng = np.random.default_rng(0)

    def normal(*shape: int) -> Any:
        return rng.standard_normal((1, scale.batch, *shape), np.float32)

    o, a = space.observation, space.action
    batch = Transition(normal(o), normal(a), normal(), normal(), normal(o))
    batches = [jax.device_put(batch, device) for device in placement.devices]
    ensembles = [jax.device_put(network.init(rng, space, scale, 1), device) for device in placement.devices]

    def work(count: int) -> None:
        for _ in range(count):
            ensembles[:] = [update(e, b) for e, b in zip(ensembles, batches, strict=True)]
        for ensemble in ensembles:
            ensemble.moments.rows.block_until_ready()

    return measure.best_rate(work, len(ensembles), seconds)


def step_costs(task: str, seconds: float, members: int) -> list[dict[str, Any]]:
    """Time of a whole training step, environments included, as a multiple of DDPG's."""
    seeds = tuple(range(members))
    plain = steps_per_second(Config(task, algorithm=("ddpg",), seed=seeds, warmup=WARMUP), seconds)
    rows: list[dict[str, Any]] = [{"algorithm": "ddpg", "model": None, "steps_per_second": plain, "times_ddpg": 1.0}]
    for model in ("oracle", "learned"):
        for name in ALGORITHMS:
            own = {"model": model, "model_scale": "small"}
            config = Config(task, algorithm=(name,), seed=seeds, warmup=WARMUP, own=own)
            rate = steps_per_second(config, seconds)
            rows.append({"algorithm": name, "model": model, "steps_per_second": rate, "times_ddpg": plain / rate})
    return rows


def steps_per_second(config: Config, seconds: float) -> float:
    with closing(measure.population(config)) as population:
        return measure.best_rate(population.steps, population.count, seconds, population.period)
