"""A cohort: members that share a device, with their environments.

Cohorts are independent; `bires.training.runners` gives each a thread or a process of its own. While one waits for its
device, another's environments step. They wait for each other only between the rounds of the training loop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from bires.agents.base import Hyper
from bires.envs.pool import Pool
from bires.envs.recipe import Recipe
from bires.envs.slots import IDLE, TRAIN, Start
from bires.errors import UserError
from bires.planning import fitting
from bires.population.program import Program, hypers, learners, models
from bires.population.state import CohortState, shapes
from bires.population.step import Compiled
from bires.settings.config import Config
from bires.settings.grid import Member
from bires.training.bridge import EnvironmentBridge
from bires.training.evaluation import EvaluationBridge, evaluate
from bires.training.simulator import oracle_needs


class EnvironmentSetup(NamedTuple):
    """The environments of a cohort, and how they are stepped."""

    evaluation_envs: int
    """Evaluation environments per member."""
    workers: int
    physics: int = 0
    """Numbers in a physics state, for planning with the simulator; else 0."""
    ahead: bool = False
    """Whether updates are made while the environments step, where they can be."""


class Common(NamedTuple):
    """What the cohorts of a run share."""

    config: Config
    recipe: Recipe
    program: Program
    compiled: Compiled
    environments: EnvironmentSetup


class Frozen(NamedTuple):
    """A member that ended early."""

    member: int
    step: int
    traceback: str | None
    """The traceback of the environment that raised; None: the member diverged."""


class Cohort:
    """Members that share a device: their state there, and their environments here."""

    def __init__(self, common: Common, members: Sequence[Member], device: Any) -> None:
        self.members, self.device = members, device
        self.program, self.compiled = common.program, common.compiled
        program, environments, count = common.program, common.environments, len(members)
        evaluating = range(count, count + count * environments.evaluation_envs)
        groups = [range(count), evaluating] if evaluating else [range(count)]
        oracle = oracle_needs(program, environments.physics, count)
        self.pool = Pool(common.recipe, program.space, groups, environments.workers, oracle, environments.ahead)
        self.bridge = EnvironmentBridge(self.pool, members, common.config, program)
        self.evaluation = EvaluationBridge(self.pool, 1, members, common.config) if evaluating else None
        self.hyper: Hyper = jax.device_put(hypers(program, members), device)
        self.state: CohortState
        """The members on their device."""
        self.returning: dict[str, jax.Array] = {}
        """The replay on its way back from a checkpoint."""
        self.stop: Callable[[], bool] = lambda: False
        """Whether an evaluation shall be given up."""
        self.frozen: list[Frozen] = []
        """Members that froze since `take_frozen` was last called."""

    def begin(self) -> None:
        """Fresh members at the start of their first episodes."""
        self.pool.begin([Start(i, member.seed, TRAIN) for i, member in enumerate(self.members)])
        if self.pool.failures:
            slot, text = next(iter(self.pool.failures.items()))
            raise UserError(f"The environment of member {self.members[slot].member} cannot start (step 0):\n{text}")
        seeds = np.array([member.seed for member in self.members], np.uint32)
        observation = self.pool.arrays.observation[: len(self.members)].copy()
        numbers = seeds.tolist()
        fresh = (learners(self.program, numbers), seeds, observation, models(self.program, numbers))
        self.state = self.compiled.init(*jax.device_put(fresh, self.device))

    def compile(self) -> None:
        """Compiles its programs, so that the compilation cache has them."""
        here: Any = jax.sharding.SingleDeviceSharding(self.device)
        state = jax.tree.map(lambda x: x.update(sharding=here), shapes(self.program, len(self.members)))
        programs: Any = self.compiled
        for steps in (programs.warm, programs.learn):
            steps.lower(self.bridge.handle, state, self.hyper, np.int32(0)).compile()
        if self.evaluation is not None:
            programs.evaluate_members.lower(
                self.evaluation.handle, state.learner, self.evaluation.observation()
            ).compile()

    def run(self, start: int, stop: int) -> None:
        """The steps [start, stop) of all members."""
        clock, warmup = start, self.program.warmup
        while clock < stop:
            steps, end = (self.compiled.learn, stop) if clock >= warmup else (self.compiled.warm, min(stop, warmup))
            with self.bridge.expecting(clock, end):
                self.state, reached = steps(self.bridge.handle, self.state, self.hyper, np.int32(clock))
                clock = int(reached)
            self._freeze_failed(clock)

    def evaluate(self, step: int, gone: dict[int, int]) -> list[tuple[Any, ...]] | None:
        """Rows of evaluations.csv without their step, of the members that are not gone; None: it was given up.

        Nothing that a checkpoint holds is changed; see `end_evaluation`.
        """
        assert self.evaluation is not None
        active = np.array([member.member not in gone for member in self.members])
        learner, act = self.state.learner, self.compiled.evaluate_members
        return evaluate(self.evaluation, act, learner, active, step, self.stop)

    def end_evaluation(self, step: int, given_up: bool) -> None:
        """Freezes members whose environments raised; an evaluation that was given up will find them again."""
        if given_up:
            self.pool.failures.clear()
        self._freeze_failed(step)

    def notice_divergence(self) -> None:
        """Stops the environments of members that diverged since the last call."""
        steps = np.asarray(self.state.diverged_at)
        for i in np.flatnonzero(steps >= 0):
            if self.pool.arrays.status[i] != IDLE:
                self._freeze(int(i), int(steps[i]), None)

    def stop_members(self, members: Sequence[int], step: int) -> None:
        """Freezes those of the members that are here: a callback stopped them."""
        for i, member in enumerate(self.members):
            if member.member in members and self.pool.arrays.status[i] != IDLE:
                self._end(i, step)

    def take_frozen(self) -> list[Frozen]:
        frozen, self.frozen = self.frozen, []
        return frozen

    def take_metrics(self) -> list[tuple[Any, ...]]:
        """Rows of metrics.csv without their step, since the last call."""
        sums = np.asarray(self.state.sums, float)
        rows = []
        for i, member in enumerate(self.members):
            updates, episodes = sums[i, 0], int(self.bridge.finished_count[i])
            means = sums[i, 1:] / updates if updates else [None] * (sums.shape[1] - 1)
            train_return = self.bridge.finished_sum[i] / episodes if episodes else None
            rows.append((member.member, episodes, train_return, int(updates), *means, *self._model_errors(i)))
        self.state = self.state._replace(sums=jax.device_put(np.zeros_like(self.state.sums), self.device))
        if self.program.learning is not None:
            empty = jax.tree.map(np.zeros_like, self.state.model.tally)
            model = self.state.model._replace(tally=jax.device_put(empty, self.device))
            self.state = self.state._replace(model=model)
        self.bridge.finished_sum[:], self.bridge.finished_count[:] = 0.0, 0
        return rows

    def _model_errors(self, i: int) -> list[float | None]:
        if self.program.learning is None:
            return []
        return fitting.summary(self.program.learning, jax.tree.map(lambda x: np.asarray(x)[i], self.state.model.tally))

    def _freeze_failed(self, step: int) -> None:
        """An environment that raised ends its member, unless that had diverged before."""
        if not self.pool.failures:
            return
        self.notice_divergence()
        count = len(self.members)
        for slot, text in list(self.pool.failures.items()):
            member = slot if slot < count or self.evaluation is None else (slot - count) // self.evaluation.per_member
            self._freeze(member, step, text)
            del self.pool.failures[slot]

    def _freeze(self, i: int, step: int, text: str | None) -> None:
        """Freezes member i of the cohort."""
        if self.pool.arrays.status[i] == IDLE:
            return
        self._end(i, step)
        at = np.asarray(self.state.diverged_at).copy()
        at[i] = step
        self.state = self.state._replace(diverged_at=jax.device_put(at, self.device))
        self.frozen.append(Frozen(self.members[i].member, step, text))

    def _end(self, i: int, step: int) -> None:
        """Member i takes no more steps, and learns no more."""
        self.pool.forget(i)
        self.bridge.forget(i, step)
        alive = np.asarray(self.state.alive).copy()
        alive[i] = False
        self.state = self.state._replace(alive=jax.device_put(alive, self.device))
