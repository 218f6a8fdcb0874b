"""The plan of a run: everything that is decided before its first step, decided once.

A plan is made from a configuration and options, with one environment that is built to be looked at and closed again.
The loop, the cohorts (here or in other processes), estimates and benchmarks follow it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, get_args

import jax
import numpy as np

from bires.envs.limits import LIMIT
from bires.envs.oracle import check
from bires.envs.recipe import Recipe
from bires.envs.repeating import repeats
from bires.envs.timing import step_seconds
from bires.errors import UserError, unknown
from bires.machine import hardware, mps
from bires.machine.hardware import Placement
from bires.machine.memory import gigabytes, require_memory, require_worker_memory
from bires.machine.terminal import counted
from bires.planning.fitting import columns as model_columns
from bires.population.program import Program, make_program, work
from bires.population.sizes import batch_bytes
from bires.population.state import shapes
from bires.runs.folder import Folder
from bires.settings import grid
from bires.settings.config import Config
from bires.settings.grid import Member
from bires.settings.options import Cohorts, Options
from bires.settings.recipes import recipe_of
from bires.settings.validation import validate
from bires.training.simulator import kept_states
from bires.types import Space


@dataclass(frozen=True)
class Plan:
    """What is trained, and where."""

    config: Config
    members: list[Member]
    recipe: Recipe
    program: Program
    placement: Placement
    processes: bool
    """Whether every cohort has a process of its own."""
    workers: int
    """Environment processes of the whole run."""
    ahead: bool
    """Whether updates are made while the environments step, where they can be."""
    physics: int
    """Numbers in a physics state, for planning with the simulator; else 0."""
    repeats: bool
    """Whether the task's episodes repeat for a seed, so that a resumed run is exact."""
    limited: bool
    """Whether the task had no time limit and got one."""

    @property
    def space(self) -> Space:
        return self.program.space

    @property
    def capacity(self) -> int:
        """Transitions in the replay of each member."""
        return self.program.capacity

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of metrics.csv that the agent, planners and models add."""
        learning = self.program.learning
        return (*self.program.metrics, *self.program.planning_sums, *(model_columns(learning) if learning else ()))

    @property
    def where(self) -> dict[str, Any]:
        """What the manifest says about the environment and the machine's part in the run."""
        placement = self.placement
        found = {
            "id": self.recipe.id,
            "platform": placement.platform,
            "cohorts": len(placement.cohorts),
            "processes": self.processes,
        }
        return found | {"workers": self.workers, "exact": self.repeats}

    def remarks(self) -> Iterator[str]:
        """What a user should know of the task before its first step."""
        if not self.repeats:
            yield (
                f"{self.config.task} does not repeat for a seed: its start or its steps differ from one environment to "
                "the next. This run will not be exact: trained again or resumed, its numbers will differ"
            )
        if self.limited:
            yield (
                f"{self.config.task} has no time limit of Gymnasium's: an episode that does not end by itself is cut "
                f"after {LIMIT} steps. Register it with max_episode_steps=… for another limit"
            )
        large = self.program.learning is not None and self.config.own["model_scale"] == "paper"
        if large and jax.default_backend() == "cpu":
            yield (
                "--model-scale paper (the default) is for accelerators: one step takes about 250 times DDPG's update. "
                "On a CPU use --model-scale small"
            )

    @property
    def kept(self) -> int:
        """Bytes of the physics states that the oracle keeps on the host."""
        return 8 * len(self.members) * self.capacity * self.physics * len(kept_states(self.program))

    def memory(self) -> tuple[int, int]:
        """Bytes of the population on its devices, and those of them that are replay."""
        members = shapes(self.program, len(self.members))

        def size(tree: Any) -> int:
            return sum(int(np.prod(x.shape)) * x.dtype.itemsize for x in jax.tree.leaves(tree))

        beside = self.kept if self.placement.platform == "cpu" else 0
        updates = len(self.members) * batch_bytes(self.config, self.space)
        return size(members) + updates + beside, size(members.storage) + beside

    def require_memory(self) -> int:
        """The bytes that are free where the population is to be, or a refusal that says what would fit."""
        total, replay = self.memory()
        if self.kept and self.placement.platform != "cpu":  # physics states stay on the host
            require_memory(jax.devices("cpu")[0], self.kept, self.kept, self.capacity)
        share = self.placement.largest_share
        first = self.placement.devices[0]
        require_worker_memory(self.workers, total if self.placement.platform == "cpu" else self.kept)
        return require_memory(first, int(share * total), int(share * replay), self.capacity)

    def describe(self) -> str:
        """A line about the run and one about its memory, once it is certain that it fits."""
        free, (total, replay) = self.require_memory(), self.memory()
        meant = "" if self.config.task.endswith(self.recipe.id) else f" ({self.recipe.id})"
        return (
            f"{counted(len(self.members), 'member')} on {self.config.task}{meant}: "
            f"{counted(len(self.placement.cohorts), 'cohort')} on {self.placement.platform}"
            f"{', each a process' if self.processes else ''}, {self.workers or 'no'} environment "
            f"worker{'' if self.workers == 1 else 's'}\nmemory: replay "
            f"{gigabytes(replay)} + learners {gigabytes(total - replay)} of "
            f"{gigabytes(free)} free"
        )


def make_plan(
    config: Config,
    options: Options,
    folder: Folder | None = None,
    begin: Callable[[Sequence[Member]], object] = lambda members: None,
) -> Plan:
    """The plan of a run, or a refusal; nothing is written.

    ``folder``: where the run is, if it may have begun already. ``begin`` is called with the members as soon as
    the configuration is known to be valid.
    """
    validate(config)
    if not 0 < options.checkpoint_minutes < math.inf:
        raise UserError(
            f"--checkpoint-minutes was given {options.checkpoint_minutes}; accepted: numbers above 0, such as 10."
        )
    members = grid.members(config)
    begin(members)
    recipe = recipe_of(config)
    with closing(recipe.build()) as environment:
        space = environment.space
        capacity = min(config.replay, config.steps + (space.pixels.stack if space.pixels else 0))
        program = make_program(config, members, space, capacity)
        require_capacity(config, program)
        step_s = step_seconds(environment)
        physics = check(recipe, environment) if program.oracle else 0
        same, limited = repeats(recipe, environment), environment.limited
    count, each = len(members), work(program)
    worthwhile = hardware.processes_pay(count, config.steps, each, step_s)
    processes = choose_processes(options, recipe, worthwhile, folder)
    placement = hardware.place(count, each, processes, step_s)
    ahead = placement.ahead and program.planning is None
    asked = options.workers
    if asked is None and processes and placement.platform == "cpu":
        asked = count if ahead and placement.spare else 0
    busy = math.inf if program.oracle else step_s
    workers = hardware.choose_workers(count * config.eval_episodes if asked else count, asked, recipe.portable, busy)
    if asked and workers < asked:
        options.say(f"--workers {asked} is more than is useful here; there are {workers}")
    return Plan(config, members, recipe, program, placement, processes, workers, ahead, physics, same, limited)


def require_capacity(config: Config, program: Program) -> None:
    """Refuses a replay of pixels without room for an observation and its successor, and one without rows for models."""
    space, capacity = program.space, program.capacity
    if space.pixels is not None and capacity < space.pixels.stack + 2:
        raise UserError(
            f"--replay {config.replay} and --steps {config.steps} leave room for {capacity} steps, fewer than "
            f"the frames of an observation; accepted, for pixels: from {space.pixels.stack + 2}."
        )
    if program.learning is not None and capacity <= program.learning.held_out:
        raise UserError(
            f"--replay was given {config.replay}; accepted with learned models: whole numbers from "
            f"{program.learning.held_out + 1}, as these are not trained on the newest {program.learning.held_out} "
            "transitions."
        )


def choose_processes(options: Options, recipe: Recipe, worthwhile: bool, folder: Folder | None) -> bool:
    """Whether cohorts have processes of their own; a run with environment workers on a CPU needs none.

    A run continues as it began: how numbers are rounded depends on the number of cohorts.
    """
    asked, portable = options.cohorts, recipe.portable
    if asked not in get_args(Cohorts):
        raise unknown("value of --cohorts", asked, get_args(Cohorts), "Leave it out, and it is chosen.")
    if asked == "by-size":
        enough = jax.default_backend() == "cpu" and options.workers
        before = began_with_processes(folder)
        wanted = worthwhile and not enough if before is None else before
        return bool(wanted and portable and hardware.can_share())
    if asked == "processes" and not (portable and hardware.can_share()):
        where = (
            f"several processes can use a GPU at once only with NVIDIA's {mps.CONTROL}, which does not start here"
            if portable
            else "this environment exists in this process only"
        )
        raise UserError(f"--cohorts was given processes, but {where}. Use --cohorts threads.")
    return asked == "processes"


def began_with_processes(folder: Folder | None) -> bool | None:
    """Whether the run in a folder began with processes on this platform; None: there is no such run."""
    return folder.had_processes(jax.default_backend()) if folder is not None else None
