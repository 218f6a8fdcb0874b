"""A program: what a population computes, made from its configuration. `bires.population.step` steps it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bires import rules
from bires.agents import registry
from bires.agents.base import ETA_USED, LR_SHARE, Agent, Design, Hyper, Learner, Schedule
from bires.agents.normalising import normalised
from bires.errors import UserError
from bires.machine.blas import one_thread
from bires.planning import fitting
from bires.planning.base import Planning
from bires.planning.fitting import Learning
from bires.planning.models import SCALES
from bires.population.planners import numbers_of, planning_of
from bires.population.sizes import require_room
from bires.population.streams import MODEL
from bires.rules import Needs
from bires.settings.config import Config
from bires.settings.grid import ETAS, RATES, Member
from bires.types import Space


def hypers(program: Program, members: Sequence[Member]) -> Hyper:
    """The numbers of some members of a population, stacked; those of planning where anybody in it plans."""

    def column(values: Iterable[float | None]) -> jax.Array:
        return jnp.asarray([value or 0.0 for value in values], jnp.float32)

    def schedule(names: Sequence[str]) -> Schedule | None:
        moves = names[0] in members[0].schedule
        return Schedule(*(column(member.schedule[name] for member in members) for name in names)) if moves else None

    return Hyper(
        rule=rules.stack((rules.get(member.rule) for member in members), program.needs),
        eta=column(member.eta for member in members),
        gamma=column(member.gamma for member in members),
        own={name: column(member.own[name] for member in members) for name in members[0].own},
        planning=numbers_of(program.planning, members) if program.planning else None,
        schedule=schedule(ETAS[1:]),
        rates=schedule(RATES),
    )


def require_actions(config: Config, space: Space) -> None:
    """Refuses a task whose actions are not of the agent's kind."""
    agent = config.agent
    found = "continuous" if space.choices is None else "discrete"
    if found != agent.actions:
        others = [spec for spec in registry.AGENTS.values() if spec.actions == found]
        able = " or ".join(f"--algorithm {' '.join(list(spec.algorithms)[:1])}" for spec in others)
        count = f"{space.choices} " if space.choices else ""
        raise UserError(
            f"Task {config.task!r} has {count}{found} actions; {config.algorithm[0]} needs {agent.actions} ones. "
            f"Use {able}, or another task: see `bires list tasks`."
        )


def rules_needs(members: Sequence[Member]) -> Needs:
    """What the rules of some members read and do."""
    return rules.needs(rules.get(member.rule) for member in members)


def make_agent(config: Config, members: Sequence[Member], space: Space) -> Agent:
    """The agent of a population: it computes what the rules of its members read, and no more."""
    agent = config.agent
    require_actions(config, space)
    own = {one.name: config.own[one.name] for one in agent.settings if not one.varies}
    made = agent.make(Design(space, config.hidden, own, rules_needs(members)))
    return normalised(made, space.observation) if config.normalise_observations else made


@dataclass(frozen=True)
class Program:
    """What all cohorts of a population share, and what the compiled functions are specialised for."""

    agent: Agent
    metrics: tuple[str, ...]
    """What the agent reports of an update."""
    space: Space
    batch: int
    capacity: int
    warmup: int
    update_every: int
    update_times: int
    planning: Planning | None
    learning: Learning | None
    """How models are learned; None: no member plans, or the simulator is the model."""
    normalised: bool
    """Whether learners keep the moments of their observations."""
    needs: Needs
    """What the rules of all members read and do."""
    rates: tuple[str, ...] = ()
    """The learning rates that move."""

    @property
    def oracle(self) -> bool:
        """Whether the simulator is the model."""
        return self.planning is not None and self.learning is None

    @property
    def sums(self) -> tuple[str, ...]:
        """Numbers that are summed between two rows of metrics.csv."""
        return ("updates", *self.metrics, *self.planning_sums)

    @property
    def planning_sums(self) -> tuple[str, ...]:
        """What planners report of an update; η only where a member's adapts."""
        if self.planning is None:
            return ()
        return ("imagined_loss", *(["imagined_eta"] if any(use.doubts for use in self.planning.uses) else []))


def least_warmup(config: Config) -> int:
    """The shortest warm-up after which learned models have something to train on."""
    return fitting.held_out(max(config.own["horizon"])) + 1


def make_program(config: Config, members: Sequence[Member], space: Space, capacity: int) -> Program:
    """The program of a population, with what its planners need and no more."""
    require_room(config, space)
    agent = make_agent(config, members, space)
    planning = planning_of(config, members, agent)
    learning = None
    if planning is not None and config.own["model"] == "learned":
        start = max(config.warmup // 2, least_warmup(config))
        if config.warmup < start:
            raise UserError(
                f"--warmup was given {config.warmup}; accepted with learned models: whole numbers from {start}, as "
                f"these are not trained on the newest {start - 1} transitions."
            )
        scale = replace(SCALES[config.own["model_scale"]], gaussian=config.own["model_noise"] == "gaussian")
        learning = Learning(space, scale, config.own["ensemble"], max(config.own["horizon"]), start)
    moving = members[0].schedule
    moves = "eta_end" in moving or any(rules.get(member.rule).adaptive for member in members)
    rates = config.agent.rates if "lr_end" in moving else ()
    return Program(
        agent,
        (*config.agent.metrics, *([ETA_USED] if moves else []), *([LR_SHARE] if rates else [])),
        space,
        config.batch,
        capacity,
        config.warmup,
        config.update_every,
        config.update_times,
        planning,
        learning,
        config.normalise_observations,
        rules_needs(members),
        rates,
    )


def work(program: Program) -> float:
    """About how many floating-point operations a member's step takes: six for each weight and sample of a batch."""
    learner, learned = member_shapes(program)

    def weights(tree: Any) -> int:
        return sum(int(leaf.size) for leaf in jax.tree.leaves(tree))

    # A weight has a target and two moments.
    samples = weights(learner) / 4 * program.batch * program.update_times / program.update_every
    if program.learning is not None:
        scale = program.learning.scale
        samples += weights(learned.ensemble.networks) * scale.batch * scale.updates
    return 6.0 * samples


def member_shapes(program: Program) -> tuple[Any, Any]:
    """What one member's learner and model (None where none is learned) look like, as shapes."""
    with one_thread():  # NumPy makes the weights, also where only their shapes are wanted
        learner, learned = jax.eval_shape(lambda: (program.agent.init(np.random.default_rng(0)), model(program, 0)))
    return learner, learned


def learners(program: Program, seeds: Sequence[int]) -> Learner:
    """Fresh learners, each from its own seed, stacked."""
    with one_thread():
        made = [program.agent.init(np.random.default_rng(seed)) for seed in seeds]
    return jax.tree.map(lambda *leaves: np.stack(leaves), *made)


def model(program: Program, seed: int) -> Any:
    """A fresh model of one member; None where none is learned."""
    return fitting.init(np.random.default_rng([seed, MODEL]), program.learning) if program.learning else None


def models(program: Program, seeds: Sequence[int]) -> Any:
    """Fresh models, each from its member's seed, stacked."""
    with one_thread():
        made = [model(program, seed) for seed in seeds]
    return jax.tree.map(lambda *leaves: np.stack(leaves), *made)
