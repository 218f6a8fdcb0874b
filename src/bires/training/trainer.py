"""Training: one population, from its first step or from a checkpoint to its last step."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any, get_args

import jax
import numpy as np

from bires.envs.adapter import probe, step_seconds
from bires.envs.oracle import check
from bires.errors import UserError, unknown
from bires.machine import hardware, mps
from bires.planning.fitting import columns as model_columns
from bires.population.program import PLANNING_SUMS, make_program, work
from bires.population.step import shapes
from bires.runs.checkpoint import Checkpoint, Segment, Store
from bires.runs.folder import Folder
from bires.settings import grid
from bires.settings.config import Config
from bires.settings.options import Cohorts, Options, Progress, Stopped
from bires.settings.recipes import recipe_of
from bires.settings.validation import validate
from bires.training.cohort import Cohort, Crowd
from bires.training.evaluation import lanes_per_member
from bires.training.oracle import kept_states
from bires.training.runners import Crew, Processes, Sketch, Threads
from bires.training.snapshots import capture, restore

STRIDE, ROUND_S = 10, 0.5
"""Steps of the first round that the cohorts take by themselves; how long later ones should last, more or less.

Between rounds a run looks whether to stop."""


class Trainer:
    """A run under way."""

    def __init__(self, config: Config, folder: Folder, options: Options) -> None:
        validate(config)
        if not 0 < options.checkpoint_minutes < math.inf:
            raise UserError(
                f"--checkpoint-minutes was given {options.checkpoint_minutes}; accepted: numbers above 0, such as 10."
            )
        self.config, self.folder, self.options = config, folder, options
        self.members = grid.members(config)
        self.recipe = recipe_of(config)
        self.space = probe(self.recipe)
        self.capacity = min(config.replay, config.steps)
        if self.space.pixels is not None and self.capacity < self.space.pixels.stack + 2:
            raise UserError(
                f"--replay {config.replay} and --steps {config.steps} leave room for {self.capacity} steps, fewer than "
                f"the frames of an observation; accepted, for pixels: from {self.space.pixels.stack + 2}."
            )
        self.program = make_program(config, self.members, self.space, self.capacity)
        count, each, cost = len(self.members), work(self.program), step_seconds(self.recipe)
        self.processes = self._choose_processes(hardware.apart(count, config.steps, each, cost))
        self.placement = hardware.place(count, each, self.processes)
        self.physics = check(self.recipe) if self.program.oracle else 0
        self.diverged: dict[int, int] = {}
        self.returns: dict[int, float] = {}
        self.store = Store(folder.path)
        self.segments: list[Segment] = []
        self.saved_at, self.saved_step = time.monotonic(), -1
        self.step, self.stride = 0, STRIDE
        self.ahead = self.placement.ahead and self.program.planner is None
        asked = options.workers
        if asked is None and self.processes and self.placement.platform == "cpu":
            asked = count if self.ahead and self.placement.spare else 0
        busy = math.inf if self.program.oracle else cost
        self.workers = hardware.choose_workers(count, asked, self.recipe.portable, busy)

    def _choose_processes(self, worthwhile: bool) -> bool:
        """Whether cohorts have processes of their own; who asks for environment workers on a CPU needs none."""
        asked, portable = self.options.cohorts, self.recipe.portable
        if asked not in get_args(Cohorts):
            raise unknown("value of --cohorts", asked, get_args(Cohorts), "Leave it out, and it is chosen.")
        if asked == "by-size":
            backend = jax.default_backend()
            content = backend == "cpu" and self.options.workers
            before = self.folder.had_processes(backend)  # a run goes on as it began: the number of cohorts matters
            wanted = worthwhile and not content if before is None else before
            return bool(wanted and portable and hardware.can_share())
        if asked == "processes" and not (portable and hardware.can_share()):
            where = (
                f"several processes can use a GPU at once only with NVIDIA's {mps.CONTROL}, which does not start here"
                if portable
                else "this environment exists in this process only"
            )
            raise UserError(f"--cohorts was given processes, but {where}. Use --cohorts threads.")
        return asked == "processes"

    def plan(self) -> str:
        """Checks that the population fits; says what it takes."""
        total, replay = self.need()
        if self.kept and self.placement.platform != "cpu":  # physics states stay on the host
            hardware.require_memory(jax.devices("cpu")[0], self.kept, self.kept, self.capacity)
        share = self.placement.largest_share
        first = self.placement.devices[0]
        there = hardware.require_memory(first, int(share * total), int(share * replay), self.capacity)
        return (
            f"{number(self.members, 'member')} on {self.config.task}: {number(self.placement.cohorts, 'cohort')} on "
            f"{self.placement.platform}{', each a process' if self.processes else ''}, {self.workers or 'no'} "
            f"environment worker{'' if self.workers == 1 else 's'}; memory: replay "
            f"{hardware.gigabytes(replay)} + learners {hardware.gigabytes(total - replay)} of "
            f"{hardware.gigabytes(there)} free"
        )

    @property
    def kept(self) -> int:
        """Bytes of the physics states that the oracle keeps on the host."""
        return 8 * len(self.members) * self.capacity * self.physics * len(kept_states(self.program))

    def need(self) -> tuple[int, int]:
        """Bytes of the population on its devices, and those of them that are replay."""
        members = shapes(self.program, len(self.members))

        def size(tree: Any) -> int:
            return sum(int(np.prod(x.shape)) * x.dtype.itemsize for x in jax.tree.leaves(tree))

        beside = self.kept if self.placement.platform == "cpu" else 0
        return size(members) + beside, size(members.storage) + beside

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of metrics.csv that the agent, planners and models add."""
        learning = self.program.learning
        more = PLANNING_SUMS if self.program.planner else ()
        return (*self.program.metrics, *more, *(model_columns(learning) if learning else ()))

    def run(
        self,
        checkpoint: Checkpoint | None,
        stop: Callable[[], bool] = lambda: False,
        require_ours: Callable[[], object] = lambda: None,
    ) -> None:
        """Trains to the end, or raises `Stopped` once ``stop`` says so.

        ``require_ours`` is asked before anything is written; it raises where the folder is no longer ours.
        """
        config, self.require_ours = self.config, require_ours
        self.options.say(self.plan())
        if config.eval_every > config.steps:
            self.options.say(
                f"--eval-every {config.eval_every} is more than --steps {config.steps}: no trained policy is evaluated"
            )
        with ExitStack() as opened:
            holders = self.workers or len(self.placement.cohorts)
            self.crew = self.make_crew(lanes_per_member(len(self.members), config.eval_episodes, holders))
            opened.callback(self.crew.close)
            if checkpoint is None:
                self.crew.each(Cohort.begin)
            else:
                restore(self, checkpoint)
                self.saved_step = checkpoint.step
            sizes = checkpoint.data["sizes"] if checkpoint else None
            self.evaluations, self.metrics = (
                opened.enter_context(file) for file in self.folder.open(sizes, self.columns)
            )
            fresh = checkpoint is None
            while True:
                if self.step % config.eval_every == 0 and fresh:
                    self._evaluate()
                    self.save()
                fresh = True
                if self.step >= config.steps:
                    break
                until = min(
                    config.steps,
                    next_multiple(self.step, config.eval_every),
                    next_multiple(self.step, config.log_every),
                )
                self._steps(until, stop)
                if self.step < until:
                    self.save()
                    raise Stopped(self.step)
                if self.step % config.log_every == 0 or self.step == config.steps:
                    self._log()
            self.save()
            self.require_ours()
            self.folder.write_members(config, self.members, self.diverged, end=True)
            self.folder.finish()

    def _steps(self, until: int, stop: Callable[[], bool]) -> None:
        while self.step < until and not stop():
            self.require_ours()
            began, end = time.monotonic(), min(until, self.step + self.stride)
            self.crew.each(Cohort.run, self.step, end)
            each = (time.monotonic() - began) / (end - self.step)
            self.step, self.stride = end, max(1, min(2 * self.stride, int(ROUND_S / max(each, 1e-6))))
            self._record_frozen()
            if self.step < until and time.monotonic() - self.saved_at > 60 * self.options.checkpoint_minutes:
                self.save()

    def make_crew(self, lanes: int) -> Crew:
        """The cohorts, with so many evaluation environments per member."""
        place = self.placement
        crowd = Crowd(lanes, place.workers_each(self.workers), self.physics, self.ahead)
        sketch = Sketch(self.config, self.recipe, self.space, self.capacity, place.options, crowd)
        if self.processes:
            return Processes(sketch, place.cohorts, place.devices, place.threads)
        return Threads(sketch, place.cohorts, place.devices)

    def _evaluate(self) -> None:
        self._notice_divergence()
        parts = self.crew.each(Cohort.evaluate, self.step, self.diverged)
        rows = sorted(row for part in parts for row in part)
        self._record_frozen()
        self.require_ours()
        self.evaluations.write([(row[0], self.step, *row[1:]) for row in rows])
        self.returns = {row[0]: row[2] for row in rows}
        self._tell(evaluated=True)

    def _log(self) -> None:
        self._notice_divergence()
        rows = sorted(row for part in self.crew.each(Cohort.take_metrics) for row in part)
        self.require_ours()
        self.metrics.write([(row[0], self.step, *row[1:]) for row in rows if row[0] not in self.diverged])
        self._tell(evaluated=False)

    def _tell(self, evaluated: bool) -> None:
        self.options.report(Progress(self.step, self.config.steps, dict(self.returns), dict(self.diverged), evaluated))

    def _notice_divergence(self) -> None:
        self.crew.each(Cohort.notice_divergence)
        self._record_frozen()

    def _record_frozen(self) -> None:
        """Writes down who froze; when an environment's failure leaves nobody, the run ends with its traceback."""
        for member, step, text in (frozen for part in self.crew.each(Cohort.take_frozen) for frozen in part):
            self.diverged[member] = step
            self.require_ours()
            self.folder.write_members(self.config, self.members, self.diverged)
            last = len(self.diverged) == len(self.members)
            rest = "nobody is left" if last else "the others go on"
            if text is None:
                self.options.say(f"member {member} diverged at step {step}; {rest}")
                continue
            path = self.folder.keep_traceback(member, text)
            self.options.say(f"member {member}: its environment raised at step {step}; {rest} ({path})")
            if last:
                raise UserError(
                    f"The environment of member {member} raised at step {step}, and no member is left:\n{text}"
                )

    def save(self) -> None:
        """A checkpoint of this moment."""
        if self.saved_step == self.step:
            return
        self._notice_divergence()
        self.require_ours()
        self.saved_at = time.monotonic()
        try:
            self.store.save(capture(self))
            self.saved_step = self.step
        except OSError as error:
            self.store.clear_parts()
            if not self.options.keep_going:
                raise
            self.options.say(f"the checkpoint of step {self.step} cannot be written ({error}); going on without it")


def number(things: Sequence[Any], name: str) -> str:
    return f"{len(things)} {name}{'' if len(things) == 1 else 's'}"


def next_multiple(step: int, every: int) -> int:
    return (step // every + 1) * every
