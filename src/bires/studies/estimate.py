"""The cost of a study: members, steps, memory, and time from a short measurement on this machine."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from bires.envs.slots import TRAIN, episode_seed
from bires.machine.blas import one_thread
from bires.population.program import least_warmup
from bires.runs.folder import Folder
from bires.settings import config as configs
from bires.settings.options import Cohorts, Options, Progress, Stopped
from bires.studies.plan import Job
from bires.training.launch import begin_or_continue
from bires.training.plan import Plan, make_plan

SECONDS = 4.0
"""About how long the steps of a population are timed."""
EPISODE = 1_000
"""Assumed steps of an episode: DMControl's, and the time limit of MuJoCo's tasks."""


@dataclass(frozen=True)
class Cost:
    """What is left to do of one population."""

    job: Job
    members: int
    steps: int
    """Environment steps of all members in training."""
    evaluation_steps: int
    memory: int
    seconds: float


def costs(jobs: Sequence[Job], say: Callable[[str], object]) -> list[Cost]:
    """Measures one population of each kind in full and every task's environment alone; the rest is arithmetic.

    ``say`` is told what is measured: a kind takes as long as its programs take to compile.
    """
    measured: dict[str, tuple[float, float]] = {}
    result = []
    for job in jobs:
        plan = plan_of(job)
        own = environment_seconds(plan)
        kind = json.dumps({name: value for name, value in configs.to_json(job.config).items() if name != "task"})
        if kind not in measured:
            say(f"measuring {job.path.name} …")
            measured[kind] = (population_step_seconds(plan), own)
        step, environment = measured[kind]
        result.append(cost(job, plan, max(step + own - environment, own), own))
    return result


def cost(job: Job, plan: Plan, per_step: float, per_environment_step: float) -> Cost:
    config, members = job.config, len(plan.members)
    left = config.steps - job.step
    points = left // config.eval_every + (not job.started)
    evaluation = points * config.eval_episodes * EPISODE
    seconds = left * per_step + evaluation * per_environment_step
    return Cost(job, members, left * members, evaluation * members, plan.memory()[0], seconds)


def plan_of(job: Job) -> Plan:
    return make_plan(job.config, Options(), Folder(job.path))


def memory(job: Job) -> int:
    """Bytes of replay and learners, from shapes alone."""
    return plan_of(job).memory()[0]


def environment_seconds(plan: Plan) -> float:
    """Seconds for one step of every member's environment, when all worker processes step theirs at once."""
    with closing(plan.recipe.build()) as environment, one_thread():  # as it will be stepped
        low, high = np.asarray(environment.space.low), np.asarray(environment.space.high)
        action = ((low + high) / 2).astype(np.float32)
        environment.reset(episode_seed(0, TRAIN, 0))
        start, count = time.perf_counter(), 0
        while time.perf_counter() - start < SECONDS / 20:
            outcome = environment.step(action)
            count += 1
            if outcome.terminated or outcome.truncated:
                environment.reset(episode_seed(0, TRAIN, count))
        each = (time.perf_counter() - start) / count
    return each * len(plan.members) / max(1, len(plan.placement.cohorts) if plan.processes else plan.workers)


def population_step_seconds(plan: Plan) -> float:
    """Seconds of one step of the whole population with its updates, timed in a temporary run."""
    warmup = least_warmup(plan.config)
    short = replace(
        plan.config, steps=10_000, warmup=warmup, eval_every=10_000, eval_episodes=1, replay=10_000, log_every=10
    )
    cohorts: Cohorts = "processes" if plan.processes else "threads"
    seen: list[tuple[int, float]] = []

    def note(progress: Progress) -> None:
        if progress.step >= warmup + 10:  # by then everything is compiled
            seen.append((progress.step, time.perf_counter()))

    def enough() -> bool:
        return len(seen) > 1 and time.perf_counter() - seen[0][1] > SECONDS

    with tempfile.TemporaryDirectory() as folder:
        try:
            begin_or_continue(short, Path(folder) / "run", Options(cohorts=cohorts, report=note), enough)
        except Stopped:
            pass
    (first, begin), (last, end) = seen[0], seen[-1]
    return (end - begin) / (last - first)
