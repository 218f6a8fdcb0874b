"""A cohort: members that share a device, with their environments.

Cohorts know nothing of each other; a `bires.crew` gives each a thread or a process of its own. While one waits for its
device another's environments step, and nobody waits for the slowest before the trainer asks for a common moment.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from bires import accelerated
from bires.accelerated import Packed
from bires.agents.base import Hyper
from bires.config import Config, Member
from bires.dreaming import Dreamer, oracle_needs
from bires.envs.adapter import Recipe
from bires.envs.pool import Pool
from bires.envs.slots import IDLE, TRAIN, Start
from bires.errors import UserError
from bires.evaluation import Lanes, evaluate
from bires.models import training
from bires.population import Compiled, State, incoming_width
from bires.program import Program, hypers, learners, models


class Crowd(NamedTuple):
    """How many environments a cohort has, how many processes step them, and how it is kept on its device."""

    lanes: int
    """Evaluation environments per member."""
    workers: int
    physics: int = 0
    """Numbers in a physics state, where the oracle is asked."""
    packed: bool = False
    """Whether its device is an accelerator, beside which it is kept in few arrays (see `bires.accelerated`)."""


class Common(NamedTuple):
    """What the cohorts of a run share."""

    config: Config
    recipe: Recipe
    program: Program
    compiled: Compiled
    accelerated: accelerated.Functions
    crowd: Crowd


class Frozen(NamedTuple):
    """A member that ended early."""

    member: int
    step: int
    traceback: str | None
    """Of the environment that raised; None: the member's own numbers diverged."""


class Cohort:
    """Members that share a device: their state there, and their environments here."""

    def __init__(self, common: Common, members: Sequence[Member], device: Any) -> None:
        self.members, self.device, self.config = members, device, common.config
        self.program, self.compiled, self.accelerated = common.program, common.compiled, common.accelerated
        program, crowd, count = common.program, common.crowd, len(members)
        groups = [range(count), range(count, count + count * crowd.lanes)] if crowd.lanes else [range(count)]
        self.pool = Pool(
            common.recipe, program.space, groups, crowd.workers, oracle_needs(program, crowd.physics, count)
        )
        self.dreamer = Dreamer(self.pool, members, program) if program.oracle else None
        self.lanes = Lanes(self.pool, 1, members, common.config) if crowd.lanes else None
        self.hyper: Hyper = jax.device_put(hypers(program, members), device)
        self._packs = crowd.packed and self.dreamer is None
        self._state: State | None = None
        self._packed: Packed | None = None
        self.action: Any
        self.returning: dict[str, np.ndarray] = {}
        """The replay on its way back from a checkpoint."""
        self.frozen: list[Frozen] = []
        """Members that froze since the trainer last looked."""
        self.running_return = np.zeros(count)
        self.finished_sum, self.finished_count = np.zeros(count), np.zeros(count, int)

    @property
    def state(self) -> State:
        """The members on their device."""
        if self._packed is not None:
            self.state = self._packed.state
        assert self._state is not None
        return self._state

    @state.setter
    def state(self, state: State) -> None:
        self._state, self._packed = state, None

    def begin(self) -> None:
        """Fresh members at the start of their first episodes."""
        self.pool.begin([Start(i, member.seed, TRAIN) for i, member in enumerate(self.members)])
        if self.pool.failures:
            slot, text = next(iter(self.pool.failures.items()))
            raise UserError(f"The environment of member {self.members[slot].member} cannot start (step 0):\n{text}")
        seeds = np.array([member.seed for member in self.members], np.uint32)
        observation = self.pool.board.observation[: len(self.members)].copy()
        numbers = seeds.tolist()
        fresh = (learners(self.program, numbers), seeds, observation, models(self.program, numbers))
        self.state = self.compiled.init(*jax.device_put(fresh, self.device))
        self.action = self.state.action

    def run(self, start: int, stop: int) -> None:
        """The steps [start, stop) of all members."""
        for clock in range(start, stop):
            self.step_environments(clock)
            self.learn(clock)
            if self.pool.failures:
                self._freeze_failed(clock + 1)
        self.action.block_until_ready()

    def step_environments(self, clock: int) -> None:
        """Waits for the actions and lets the environments take a step; beside an accelerator, it updates meanwhile."""
        self.pool.board.action[: len(self.members)] = np.asarray(self.action)
        self.pool.send(0)
        if self._packs and self._updates(clock):
            self._pack(clock).update_ahead()
        self.pool.wait(0)

    def learn(self, clock: int) -> None:
        """Starts the rest of the members' step number ``clock`` on the device."""
        incoming, now = self.gather(), np.int32(clock)
        if self.dreamer is not None:
            self.dreamer.keep(clock)
        if self._updates(clock):
            self.update(incoming, clock)
            return
        if clock < self.config.warmup - 1:
            self.state, self.action = self.compiled.warm(self.state, incoming, now)
        elif self._packs:
            self.action = self._pack(clock).act(incoming)
        else:
            self.state, self.action = self.compiled.act(self.state, self.hyper, incoming, now)
        if self.program.learning is not None and clock >= self.program.learning.start:
            self.state = self.compiled.fit(self.state, now)

    def update(self, incoming: Any, clock: int) -> None:
        """One call; two beside an accelerator, or around the simulator's answers."""
        compiled, now = self.compiled, np.int32(clock)
        if self._packs:
            packed = self._pack(clock)
            packed.update(incoming)
            self.action = packed.act(incoming)
        elif self.dreamer is None:
            self.state, self.action = compiled.learn(self.state, self.hyper, incoming, now)
        else:
            self.state, drawn = compiled.draw(self.state, self.hyper, incoming, now)
            answers = self.dreamer.dream(compiled, self.state, drawn)
            self.state, self.action = compiled.finish(self.state, self.hyper, incoming, answers, now)

    def _updates(self, clock: int) -> bool:
        """Whether there is an update in this step."""
        past = clock - self.config.warmup
        return past >= 0 and past % self.config.update_every == 0

    def _pack(self, clock: int) -> Packed:
        """The members packed, about to take step ``clock``."""
        if self._packed is None:
            state, compiled = self.state, self.accelerated
            self._packed = Packed(self.program, compiled, state, self.hyper, clock, self.device)
            self._state = None
        return self._packed

    def evaluate(self, step: int, gone: dict[int, int]) -> list[tuple[Any, ...]]:
        """Rows of evaluations.csv without their step, of the members that are not gone."""
        assert self.lanes is not None
        active = np.array([member.member not in gone for member in self.members])
        rows = evaluate(self.lanes, self.compiled.policy, self.state.learner, active)
        self._freeze_failed(step)
        return rows

    def notice_divergence(self) -> None:
        """Lets the environments of members rest that froze since the last look."""
        steps = np.asarray(self.state.diverged_at)
        for i in np.flatnonzero(steps >= 0):
            if self.pool.board.status[i] != IDLE:
                self._freeze(int(i), int(steps[i]), None)

    def take_frozen(self) -> list[Frozen]:
        frozen, self.frozen = self.frozen, []
        return frozen

    def take_metrics(self) -> list[tuple[Any, ...]]:
        """Rows of metrics.csv without their step, since the last call."""
        sums = np.asarray(self.state.sums, float)
        rows = []
        for i, member in enumerate(self.members):
            updates, episodes = sums[i, 0], int(self.finished_count[i])
            means = sums[i, 1:] / updates if updates else [None] * (sums.shape[1] - 1)
            train_return = self.finished_sum[i] / episodes if episodes else None
            rows.append((member.member, episodes, train_return, int(updates), *means, *self._model_errors(i)))
        self.state = self.state._replace(sums=jax.device_put(np.zeros_like(self.state.sums), self.device))
        if self.program.learning is not None:
            empty = jax.tree.map(np.zeros_like, self.state.model.tally)
            model = self.state.model._replace(tally=jax.device_put(empty, self.device))
            self.state = self.state._replace(model=model)
        self.finished_sum[:], self.finished_count[:] = 0.0, 0
        return rows

    def _model_errors(self, i: int) -> list[float | None]:
        if self.program.learning is None:
            return []
        return training.summary(self.program.learning, jax.tree.map(lambda x: np.asarray(x)[i], self.state.model.tally))

    def _freeze_failed(self, step: int) -> None:
        """An environment that raised ends its member."""
        count = len(self.members)
        for slot, text in list(self.pool.failures.items()):
            member = slot if slot < count or self.lanes is None else (slot - count) // self.lanes.per_member
            self._freeze(member, step, text)
            del self.pool.failures[slot]

    def _freeze(self, i: int, step: int, text: str | None) -> None:
        """Member i of the cohort stays as it is from now on."""
        if self.pool.board.status[i] == IDLE:
            return
        self.pool.board.rest(i)
        mine = np.arange(len(self.members)) == i
        alive = np.asarray(self.state.alive) & ~mine
        at = np.where(mine, step, np.asarray(self.state.diverged_at)).astype(np.int32)
        self.state = self.state._replace(
            alive=jax.device_put(alive, self.device), diverged_at=jax.device_put(at, self.device)
        )
        self.frozen.append(Frozen(self.members[i].member, step, text))

    def gather(self) -> Any:
        """The board's rows as the device takes them; here, and only here, the protocol decides what an end is.

        Here, too, a game's rewards are clipped to their signs, and a lost life is made an end.
        """
        board, count, width = self.pool.board, len(self.members), self.pool.board.observation.shape[1]
        pixels = board.observation.dtype == np.uint8
        ends, over = board.terminated[:count].copy(), board.terminated[:count] | board.truncated[:count]
        if self.config.protocol == "paper":
            ends = over
        reward = board.reward[:count]
        # New arrays: the device may still read the last ones.
        rows = np.empty((count, incoming_width(0 if pixels else width)), np.float32)
        rows[:, 0] = np.sign(reward) if pixels else reward
        rows[:, 1] = ~(ends | board.life_lost[:count])
        rows[:, 2] = board.first[:count]
        if not pixels:
            rows[:, 3 : 3 + width] = board.next_observation[:count]
            rows[:, 3 + width :] = board.observation[:count]
        self.running_return += reward
        if np.any(over):
            self.finished_sum[over] += self.running_return[over]
            self.finished_count[over] += 1
            self.running_return[over] = 0.0
        return (rows, board.observation[:count].copy()) if pixels else rows
