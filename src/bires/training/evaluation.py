"""Evaluation: noise-free episodes, from new starts each time, for all members at once."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from bires.envs.episodes import is_end
from bires.envs.pool import Pool
from bires.envs.slots import ACTIVE, EVALUATE, Start
from bires.machine.hostcalls import HostHandle
from bires.population.hosts import EvaluationHost
from bires.settings.config import Config
from bires.settings.grid import Member

ENVIRONMENTS_PER_WORKER = 16
"""About how many evaluation environments a worker holds; a member's episodes take turns in its own."""
LOOK_S = 0.25
"""How often an evaluation looks whether it shall stop."""
BEGUN_AT_ONCE = 4
"""Environments of a worker that begin between two such looks: they may have to be built first."""


def evaluation_environments(members: int, episodes: int, workers: int) -> int:
    """Environments per member: enough to keep the workers busy, few enough to build quickly.

    At least two, if there are two episodes: networks round their values of a single observation in another way, and
    evaluations must not depend on the workers.
    """
    return max(min(2, episodes), min(episodes, ENVIRONMENTS_PER_WORKER * max(1, workers) // members))


class EvaluationBridge(EvaluationHost):
    """The evaluation environments of one cohort: a group of the pool, some for each member.

    The program that acts in them (`bires.population.evaluation.evaluate_members`) asks here for every step.
    """

    def __init__(
        self, pool: Pool, group: int, members: Sequence[Member], config: Config, stream: int = EVALUATE
    ) -> None:
        """``stream``: of the seeds of its episodes."""
        super().__init__()
        self.pool, self.group, self.members, self.config, self.stream = pool, group, members, config, stream
        self.slots = pool.groups[group]
        self.per_member = len(self.slots) // len(members)
        self.owner = np.repeat(np.arange(len(members)), self.per_member)
        self.gamma = np.array([member.gamma for member in members])[self.owner]
        self.stop: Callable[[], bool] = lambda: False
        """Whether the evaluation under way shall be given up."""
        self.given_up, self._looked = False, 0.0

    def starts(self, active: np.ndarray, number: int) -> list[Start]:
        """The first episodes of evaluation ``number``. Episode j of a member runs in its environment j mod count."""
        episodes = self.config.eval_episodes
        self.returns: list[list[float]] = [[] for _ in self.members]
        self.lengths: list[list[int]] = [[] for _ in self.members]
        size = len(self.slots)
        self.q_sum, self.error_sum, self.steps = np.zeros(size), np.zeros(size), np.zeros(size)
        self.running_return, self.running_length = np.zeros(size), np.zeros(size, int)
        self.residual, self.open = np.zeros(size), np.zeros(size, bool)
        self.ended, self.final = np.zeros(size, bool), np.zeros(size, bool)
        return [
            Start(
                int(slot),
                self.members[int(who)].seed,
                self.stream,
                i % self.per_member,
                self.per_member,
                episodes,
                evaluation=number,
            )
            for i, (slot, who) in enumerate(zip(self.slots, self.owner, strict=True))
            if active[who]
        ]

    def begin(self, starts: Sequence[Start], stop: Callable[[], bool]) -> None:
        """Starts the first episodes, unless asked to stop."""
        self.stop, self.given_up, self._looked = stop, False, time.monotonic()
        pieces = -(-len(starts) // (BEGUN_AT_ONCE * max(1, self.pool.workers)))
        for piece in range(pieces):  # every so many-th, so that all workers have some
            if self._stopping():
                return
            self.pool.begin(starts[piece::pieces])

    def _stopping(self) -> bool:
        """Looks, now and then, whether to stop."""
        if not self.given_up and time.monotonic() - self._looked >= LOOK_S:
            self._looked = time.monotonic()
            self.given_up = self.stop()
        return self.given_up

    @property
    def going(self) -> np.ndarray:
        mask: np.ndarray = self.pool.arrays.status[self.slots] == ACTIVE
        return mask

    def observation(self) -> np.ndarray:
        """What to act on: (members, environments, ·)."""
        return self._rows(self.pool.arrays.observation)

    def successor(self) -> np.ndarray:
        """The true successors of the last actions."""
        return self._rows(self.pool.arrays.next_observation)

    @np.errstate(over="ignore", invalid="ignore")  # values of a member that has diverged
    def evaluate(self, action: np.ndarray, value: np.ndarray, last: np.ndarray) -> tuple[np.ndarray, bool, bool]:
        """One step of every running episode, with the values of these actions and those of the last successors.

        What to act on next; whether any episode ended, so that its last successor is to be valued; whether to go on.
        """
        scale = self.config.reward_scale  # learners value scaled rewards
        value, last = value.reshape(-1).astype(float) / scale, last.reshape(-1).astype(float) / scale
        self._settle(self.open, value)  # the previous step's Bellman errors need these values, too
        self._settle(self.ended, np.where(self.final, 0.0, last))
        arrays, slots, went = self.pool.arrays, self.slots, self.going
        arrays.action[slots[went]] = action.reshape(len(slots), -1)[went]
        self.pool.send(self.group)
        self.pool.wait(self.group)
        if self.pool.failures:
            went = went & ~np.isin(slots, list(self.pool.failures))
        self.running_return[went] += arrays.reward[slots[went]]
        self.running_length[went] += 1
        self.steps[went] += 1
        self.q_sum[went] += value[went]
        self.residual = arrays.reward[slots] - value
        terminated, truncated = arrays.terminated[slots], arrays.truncated[slots]
        self.final = is_end(self.config.protocol, terminated, truncated)
        self.ended = went & (terminated | truncated)
        self.open = went & ~self.ended
        for i in np.flatnonzero(self.ended):
            self.returns[self.owner[i]].append(float(self.running_return[i]))
            self.lengths[self.owner[i]].append(int(self.running_length[i]))
            self.running_return[i], self.running_length[i] = 0.0, 0
        ended = bool(self.ended.any())
        more = ended or bool(self.going.any())
        return self.observation(), ended, more and not self._stopping()

    @np.errstate(invalid="ignore")
    def row(self, who: int) -> tuple[Any, ...]:
        """A row of evaluations.csv without its step."""
        mine, returns = self.owner == who, np.array(self.returns[who])
        steps = self.steps[mine].sum()
        return (
            self.members[who].member,
            len(returns),
            float(returns.mean()),
            float(returns.std()),
            float(returns.min()),
            float(returns.max()),
            float(np.mean(self.lengths[who])),
            float(self.q_sum[mine].sum() / steps),
            float(self.error_sum[mine].sum() / steps),
        )

    def _settle(self, mask: np.ndarray, successor: np.ndarray) -> None:
        """Adds (r − Q(s, a) + γ · Q(s', μ(s')))² for transitions whose successor's value is now known."""
        self.error_sum[mask] += (self.residual[mask] + self.gamma[mask] * successor[mask]) ** 2

    def _rows(self, array: np.ndarray) -> np.ndarray:
        rows: np.ndarray = array[self.slots].reshape(len(self.members), self.per_member, -1)
        return rows


EvaluateMembers = Callable[[HostHandle[EvaluationHost], Any, np.ndarray], jax.Array]
"""The host, learners, first observations: acts until the host has seen all episodes."""


def evaluation_number(config: Config, step: int) -> int:
    """Evaluations are numbered from 0, the one before the first step."""
    return step // config.eval_every


def evaluate(
    bridge: EvaluationBridge,
    evaluate_members: EvaluateMembers,
    learners: Any,
    active: np.ndarray,
    step: int,
    stop: Callable[[], bool] = lambda: False,
) -> list[tuple[Any, ...]] | None:
    """Evaluates the active members of a cohort at a step; the rows of evaluations.csv without their step.

    None: ``stop`` said yes, and the evaluation was given up. A member whose environment raised has no row.

    Beside the returns: the means, over all transitions of these episodes, of Q(s, μ(s)) and of the squared Bellman
    error (r + γ · discount · Q(s', μ(s')) − Q(s, μ(s)))².
    """
    bridge.begin(bridge.starts(active, evaluation_number(bridge.config, step)), stop)
    if np.any(bridge.going) and not bridge.given_up:
        with bridge:
            evaluate_members(bridge.handle, learners, bridge.observation()).block_until_ready()
    if bridge.given_up:
        return None
    whole = [len(returns) == bridge.config.eval_episodes for returns in bridge.returns]
    return [bridge.row(who) for who in range(len(bridge.members)) if active[who] and whole[who]]
