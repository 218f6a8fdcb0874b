"""The cohorts of a run at work: each in a thread of this process, or each in a process of its own.

Work is a function of a cohort: `CohortRunner.each` runs it for all of them, wherever they are.
"""

from __future__ import annotations

import os
import subprocess
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection, Pipe, wait
from typing import Any, NamedTuple, Protocol

import numpy as np

from bires.envs.recipe import Recipe
from bires.errors import UserError
from bires.machine import hardware
from bires.machine.helper import MAY_FINISH, leave_output_to_parent
from bires.machine.processes import end, ending, launch_helper
from bires.population.program import Program, make_program
from bires.population.step import compiled
from bires.rules import OURS, RULES, Rule
from bires.settings import grid
from bires.settings.config import Config
from bires.settings.grid import Member
from bires.training.cohort import Cohort, Common, EnvironmentSetup
from bires.training.evaluation import LOOK_S
from bires.training.plan import Plan
from bires.types import Space


class CohortSetup(NamedTuple):
    """All it takes to make a run's cohorts in another process: of a plan, what can be sent there."""

    config: Config
    rules: Mapping[str, Rule]
    """The user's own, which a script may have added: no other process would know them."""
    recipe: Recipe
    space: Space
    capacity: int
    """Transitions in the replay of each member."""
    options: dict[str, str | bool]
    """The compiler's."""
    environments: EnvironmentSetup


class CohortRunner(Protocol):
    """The cohorts of a run, in the order of their members."""

    parts: Sequence[np.ndarray]
    """The members of each cohort."""

    def spread(self, work: Callable[..., Any], arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Does ``work(cohort, ...)`` for all cohorts at once, each with arguments of its own; returns their answers.

        The work is a function or method that can be imported.
        """

    def each(self, work: Callable[..., Any], *arguments: Any) -> list[Any]:
        """Does ``work(cohort, *arguments)`` for all cohorts at once; returns their answers."""
        return self.spread(work, [arguments] * len(self.parts))

    def evaluate(self, step: int, gone: dict[int, int], stop: Callable[[], bool]) -> list[Any]:
        """`Cohort.evaluate` for all cohorts at once; they give it up soon after ``stop`` says yes."""

    def close(self) -> None:
        """Ends threads and processes."""


def make_cohorts(
    setup: CohortSetup,
    members: Sequence[Member],
    program: Program,
    parts: Sequence[np.ndarray],
    devices: Sequence[Any],
) -> list[Cohort]:
    """Makes some cohorts of a run, all of the same compiled functions, from its members."""
    functions = compiled(program, setup.environments.ahead, setup.options)
    common = Common(setup.config, setup.recipe, program, functions, setup.environments)
    made: list[Cohort] = []
    try:
        for part, device in zip(parts, devices, strict=True):
            made.append(Cohort(common, [members[i] for i in part], device))
    except BaseException:
        for cohort in made:
            cohort.pool.close()
        raise
    return made


def setup_of(plan: Plan, evaluation_envs: int) -> CohortSetup:
    """What the cohorts of a plan need, with so many evaluation environments per member."""
    environments = EnvironmentSetup(
        evaluation_envs, plan.placement.workers_each(plan.workers), plan.physics, plan.ahead
    )
    own = {name: rule for name, rule in RULES.items() if name not in OURS}
    options = plan.placement.options
    return CohortSetup(plan.config, own, plan.recipe, plan.space, plan.capacity, options, environments)


def make_runner(plan: Plan, evaluation_envs: int) -> CohortRunner:
    """The cohorts of a plan, with so many evaluation environments per member."""
    place, setup = plan.placement, setup_of(plan, evaluation_envs)
    if plan.processes:
        return ProcessRunner(setup, place.cohorts, place.devices, place.threads)
    return ThreadRunner(make_cohorts(setup, plan.members, plan.program, place.cohorts, place.devices), place.cohorts)


class ThreadRunner(CohortRunner):
    """Cohorts in this process; where there are several, each with a thread of its own."""

    def __init__(self, cohorts: list[Cohort], parts: Sequence[np.ndarray]) -> None:
        self.cohorts, self.parts = cohorts, parts
        # Python handles signals in its main thread, which must not wait inside a program: on a CPU that asks Python.
        alone = len(cohorts) == 1 and cohorts[0].device.platform == "cpu"
        self._threads = None if alone else ThreadPoolExecutor(len(parts))

    def spread(self, work: Callable[..., Any], arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        if self._threads is None:
            return [work(self.cohorts[0], *arguments[0])]
        return list(self._threads.map(lambda cohort, given: work(cohort, *given), self.cohorts, arguments))

    def evaluate(self, step: int, gone: dict[int, int], stop: Callable[[], bool]) -> list[Any]:
        for cohort in self.cohorts:
            cohort.stop = stop
        return self.each(Cohort.evaluate, step, gone)

    def close(self) -> None:
        if self._threads is not None:
            self._threads.shutdown()
        for cohort in self.cohorts:
            cohort.pool.close()


STOP = None
"""What a process is sent while it evaluates, if it shall give that up."""


class Lost(Exception):
    """A cohort's process has ended."""


class ProcessRunner(CohortRunner):
    """Cohorts in processes of their own, each with some threads, on devices of the same kind."""

    def __init__(self, setup: CohortSetup, parts: Sequence[np.ndarray], devices: Sequence[Any], threads: int) -> None:
        self.parts = parts
        platform = str(devices[0].platform)
        self._processes: list[tuple[subprocess.Popen[bytes], Connection]] = []
        try:
            for number, (part, device) in enumerate(zip(parts, devices, strict=True)):
                ours, theirs = Pipe()
                with theirs:
                    arguments = (theirs.fileno(), number, threads)
                    variables = hardware.environment(platform) | ({} if platform == "cpu" else {MAY_FINISH: "1"})
                    process = launch_helper("bires.training.runners", arguments, arguments[:1], **variables)
                self._processes.append((process, ours))
                ours.send((setup, part, platform, device.local_hardware_id))
            if platform != "cpu":  # compiling is half a minute there, on all cores: once, and the others find it done
                first = {len(part): number for number, part in enumerate(parts)}
                self._ask(list(first.values()), Cohort.compile, [()] * len(first))
        except BaseException:
            self.close()
            raise

    @property
    def pids(self) -> list[int]:
        return [process.pid for process, _ in self._processes]

    def spread(self, work: Callable[..., Any], arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        return self._ask(range(len(self.parts)), work, arguments)

    def evaluate(self, step: int, gone: dict[int, int], stop: Callable[[], bool]) -> list[Any]:
        return self._ask(range(len(self.parts)), Cohort.evaluate, [(step, gone)] * len(self.parts), stop)

    def _ask(
        self,
        numbers: Sequence[int],
        work: Callable[..., Any],
        arguments: Sequence[tuple[Any, ...]],
        stop: Callable[[], bool] | None = None,
    ) -> list[Any]:
        """The answers of some processes; once ``stop`` says yes, they are told so."""
        pipes = [self._processes[number][1] for number in numbers]
        try:
            for pipe, given in zip(pipes, arguments, strict=True):
                pipe.send((work, given))
            while stop is not None and (busy := [pipe for pipe in pipes if not pipe.poll()]):
                if stop():
                    stop = None
                    for pipe in busy:
                        pipe.send(STOP)
                else:
                    wait(busy, LOOK_S)
            answers = [pipe.recv() for pipe in pipes]
        except (EOFError, ConnectionError) as error:
            raise Lost(self._ended()) from error
        for answer in answers:
            if isinstance(answer, Failed):
                raise answer.error from RuntimeError(f"in the process of a cohort:\n{answer.text}")
        return answers

    def close(self) -> None:
        for process, pipe in self._processes:
            pipe.close()
            end(process)

    def _ended(self) -> str:
        """What became of the first process that is not there any more."""
        for part, (process, _) in zip(self.parts, self._processes, strict=True):
            how = ending(process)
            if process.returncode is None:
                continue
            who = f"members {min(part)} to {max(part)}" if len(part) > 1 else f"member {min(part)}"
            return f"the process of {who} has ended ({how})"
        return "a cohort's process does not answer"


class Failed(NamedTuple):
    """An answer that is an exception."""

    error: BaseException
    text: str
    """Its traceback, which cannot be sent with it."""


def serve(pipe: Connection, number: int, threads: int) -> None:
    """Process ``number``: makes its cohort, then does the work it is sent until the other side closes the pipe."""
    setup, part, platform, which = pipe.recv()
    with hardware.confined(number, threads):
        device = hardware.only_device(platform, which)
    cohort: Cohort | None = None
    while True:
        message = pipe.recv()
        if message is STOP:  # it is done with what it should give up
            continue
        work, arguments = message
        try:
            if cohort is None:
                RULES.update(setup.rules)
                members = grid.members(setup.config)  # which imports the modules that the configuration names
                program = make_program(setup.config, members, setup.space, setup.capacity)
                [cohort] = make_cohorts(setup, members, program, [part], [device])
                cohort.stop = pipe.poll  # nothing else is sent while it works
            answer = work(cohort, *arguments)
        except Exception as error:
            known = isinstance(error, UserError | OSError)  # others may not survive being sent
            answer = Failed(error if known else RuntimeError(str(error)), traceback.format_exc())
        pipe.send(answer)


if __name__ == "__main__":
    from bires.training import runners

    leave_output_to_parent()
    try:
        runners.serve(Connection(int(sys.argv[1])), *map(int, sys.argv[2:4]))
    except (EOFError, ConnectionError):
        os._exit(0)  # the process that started this one is gone; nothing here needs to be closed
