"""All environments of a run: in this process, or spread over worker processes that share memory with this one."""

from __future__ import annotations

import json
import mmap
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace

import numpy as np

from bires.envs.actions import ActionLog
from bires.envs.helpers import LOST, QUESTIONS, StepThread, Worker, split
from bires.envs.memory import Layout, memory
from bires.envs.oracle import Oracle, Questions
from bires.envs.recipe import Recipe
from bires.envs.slots import ACTIVE, FAILED, Slots, Start
from bires.envs.worker import send, shared
from bires.errors import UserError
from bires.machine.blas import one_thread
from bires.machine.processes import ending
from bires.types import Space

ATTEMPTS = 3
"""How often a worker is lost in the same step before the environment that it was stepping is given up."""


class Pool:
    """Slots in groups; a group is stepped by `send` and `wait`."""

    def __init__(
        self,
        recipe: Recipe,
        space: Space,
        groups: Sequence[Sequence[int]],
        workers: int,
        oracle: OracleNeeds | None = None,
        in_thread: bool = False,
    ) -> None:
        """``in_thread``: without workers, steps are taken in a thread, so that `send` does not wait for them."""
        self.count = sum(len(group) for group in groups)
        self.groups = [np.asarray(group, int) for group in groups]
        self.failures: dict[int, str] = {}
        """Slot → traceback of the environment that raised."""
        self.healed = 0
        """Workers replaced so far."""
        self._starts: dict[int, Start] = {}
        self._episode = np.zeros(self.count, int)
        """In which episode each slot was when it was last asked to step."""
        self._stepped = np.zeros(self.count, bool)
        """Whether it was active then."""
        self._log = ActionLog(self.count, space.action)
        setup = {
            "recipe": asdict(recipe),
            "space": asdict(space),
            "slots": self.count,
            "oracle": asdict(oracle or OracleNeeds(0, 0)),
        }
        measured = Layout()
        shared(measured, setup)
        self._memory = memory(measured.nbytes)
        self.arrays, self.questions = shared(Layout(mmap.mmap(self._memory.fileno(), measured.nbytes)), setup)
        self._under_way = False
        """Whether this process has begun a step that it has not taken yet."""
        self._held = ExitStack()
        if workers == 0:
            self._held.enter_context(one_thread())  # workers are started with one
        self._local = Slots(recipe, self.arrays) if workers == 0 else None
        self._oracle = Oracle(recipe) if workers == 0 else None
        self._step_thread = StepThread(self._local.step) if self._local is not None and in_thread else None
        self._workers = [
            Worker(
                setup | {"groups": [split(group, workers, w) for group in groups], "share": [w, workers]},
                self._memory.fileno(),
            )
            for w in range(workers)
        ]
        try:
            self._start_workers()
        except BaseException:
            self.close()
            raise

    def _start_workers(self) -> None:
        for worker in self._workers:
            worker.launch()
        for worker in self._workers:
            try:
                worker.reply()
            except LOST:
                self._heal(worker)

    def rest(self, starts: Sequence[Start]) -> None:
        """Records the episodes of slots that take no more steps."""
        for start in starts:
            self._starts[start.slot] = start
            self._log.restart(start)
            self.arrays.episode[start.slot] = start.episode

    def forget(self, slot: int) -> None:
        """Stops a slot for good, and forgets its episode."""
        self.arrays.rest(slot)
        self.rest([replace(self._starts[slot], episode=0, actions=())])

    def begin(self, starts: Sequence[Start]) -> None:
        """Starts slots; returns when all of them have their first observation."""
        self.rest(starts)
        for start in starts:
            self.arrays.status[start.slot] = ACTIVE
        if self._local is not None:
            for start in starts:
                self._local.begin(start)
            self._collect(self._local)
            return
        for worker in self._workers:
            worker.ask_to_begin([start for start in starts if start.slot in worker.slots])
        for worker in self._workers:
            self._await(worker)

    def send(self, group: int) -> None:
        """Lets a group take one step with the actions in the arrays."""
        slots = self.groups[group]
        self._episode[slots] = self.arrays.episode[slots]
        self._stepped[slots] = self.arrays.status[slots] == ACTIVE
        going = slots[self._stepped[slots]]
        self._under_way = self._local is not None
        if self._step_thread is not None:
            self._step_thread.start(slots.tolist())
        for worker in self._workers:
            if worker.setup["groups"][group]:
                worker.ask_to_step(group)
        self._log.record(going, self.arrays.action)

    def wait(self, group: int) -> None:
        """Returns when the group's step is done and the arrays show it; without workers, that is when it is taken."""
        if self._local is not None and self._under_way:
            self._under_way = False
            if self._step_thread is not None:
                self._step_thread.finish()
            else:
                self._local.step(self.groups[group].tolist())
            self._collect(self._local)
        for worker in self._workers:
            while group in worker.pending:
                self._await(worker)
        slots = self.groups[group]
        self._log.forget(slots[self.arrays.first[slots]])

    def ask(self, owner: np.ndarray, state: np.ndarray, action: np.ndarray, moment: int = 0) -> None:
        """Asks the oracle, in step ``moment``, for the steps from these physics states with these actions."""
        questions, count = self.questions, len(owner)
        questions.asked[0], questions.moment[0] = count, moment
        questions.owner[:count], questions.state[:count], questions.action[:count] = owner, state, action
        if self._oracle is not None:
            self.failures.update(self._oracle.answer(questions, 0, 1))
            return
        for worker in self._workers:
            worker.ask_oracle()

    def answers(self) -> Questions:
        """Returns when the questions are answered; the answers are valid until the next questions."""
        for worker in self._workers:
            while QUESTIONS in worker.pending:
                self._await(worker)
        return self.questions

    def running(self, slot: int) -> Start:
        """How to rebuild the slot as it is now."""
        episode = int(self.arrays.episode[slot])
        return replace(self._starts[slot], episode=episode, actions=self._log.actions(slot))

    def close(self) -> None:
        for worker in self._workers:
            worker.kill()
        if self._step_thread is not None:
            self._step_thread.close()
        if self._local is not None:
            self._local.close()
        if self._oracle is not None:
            self._oracle.close()
        self._held.close()
        self._memory.close()

    @property
    def workers(self) -> int:
        """How many processes step its environments; 0: this one does."""
        return len(self._workers)

    def worker_pids(self) -> list[int]:
        return [worker.process.pid for worker in self._workers if worker.process is not None]

    def _await(self, worker: Worker) -> None:
        """One reply of a worker; a dead or hung worker is replaced and asked again."""
        while worker.pending:
            try:
                reply = worker.reply()
            except LOST:
                self._heal(worker)
                continue
            worker.pending.pop(0)
            worker.losses = 0
            self._report(reply)
            return

    def _report(self, reply: bytes) -> None:
        if reply:
            self.failures.update({int(slot): text for slot, text in json.loads(reply).items()})

    def _heal(self, worker: Worker) -> None:
        """A new process in the place of the old, its episodes rebuilt up to the steps that were under way."""
        self.healed += 1
        owed, actions = list(worker.pending), self.arrays.action[worker.slots].copy()
        while True:
            self._count_loss(worker)
            try:
                worker.kill()
                worker.launch()
                worker.reply()
                self._rebuild(worker, owed)
                break
            except LOST:  # this one, too
                worker.pending[:] = owed
        self.arrays.action[worker.slots] = actions
        worker.pending.clear()
        for group in owed:
            if group is None:
                worker.pending.append(None)  # a `begin` was under way: all its slots have just been begun
                send(worker.commands, b"[]")
            elif group == QUESTIONS:
                worker.ask_oracle()
            else:
                worker.ask_to_step(group)

    def _count_loss(self, worker: Worker) -> None:
        """Gives up the environment in whose step a process was lost again and again, as if it had raised."""
        worker.losses += 1
        guilty = [slot for slot in worker.slots if self.arrays.busy[slot]]
        self.arrays.busy[worker.slots] = False
        if worker.losses < ATTEMPTS:
            return
        assert worker.process is not None
        how = ending(worker.process)
        if not guilty:
            raise UserError(
                f"An environment worker was lost {ATTEMPTS} times in a row ({how}; what it said is above). Not enough "
                "memory, perhaps; --workers 0 steps the environments in this process."
            )
        worker.losses = 0
        for slot in guilty:
            self.arrays.rest(slot, FAILED)
            self.failures[slot] = f"The process that steps it was lost {ATTEMPTS} times in the same step ({how}).\n"

    def _rebuild(self, worker: Worker, owed: Sequence[int | None]) -> None:
        """Begins the worker's episodes again, up to where they were before the steps that it owes."""
        steps = [group for group in owed if group is not None and group != QUESTIONS]
        behind = {slot for group in steps for slot in worker.setup["groups"][group] if self._stepped[slot]}
        alive = [slot for slot in worker.slots if slot in self._starts and slot not in self.failures]
        idle = [slot for slot in alive if self.arrays.status[slot] != ACTIVE and slot not in behind]
        rebuilt = []
        for slot in alive:
            start = self.running(slot)
            if slot in behind:  # the lost process may have gone on to the next episode already
                start = replace(start, episode=int(self._episode[slot]), actions=start.actions[:-1])
            rebuilt.append(start)
        worker.ask_to_begin([start for start in rebuilt if start.slot not in idle])
        self._report(worker.reply())

    def _collect(self, slots: Slots) -> None:
        self.failures.update(slots.failures)
        slots.failures.clear()


@dataclass(frozen=True)
class OracleNeeds:
    """What the oracle takes: the size of a physics state, and how many questions may be asked at once."""

    physics: int
    rows: int
