"""A program: what a population computes, made from its configuration. How it is stepped is `population`'s business."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from threadpoolctl import threadpool_limits

from bires import rules
from bires.agents.base import Agent, Hyper, Learner
from bires.agents.ddpg import ddpg
from bires.agents.dqn import Design, dqn
from bires.errors import UserError
from bires.planning import fitting as training
from bires.planning.base import Planner
from bires.planning.fitting import Learning
from bires.planning.models import SCALES
from bires.population.planners import planner_of, plannings
from bires.population.streams import MODEL
from bires.settings.config import GRID, Config, Member
from bires.types import Space

SUMS = ("updates", "critic_loss", "q_mean", "delta")
"""Diagnostics that are summed between two rows of the metrics."""
PLANNING_SUMS = ("imagined_loss",)
"""More of them, where somebody plans."""


def hypers(program: Program, members: Sequence[Member]) -> Hyper:
    """The numbers of some members of a population, stacked; those of planning where anybody in it plans."""

    def column(name: str) -> jax.Array:
        return jnp.asarray([getattr(member, name) or 0.0 for member in members], jnp.float32)

    return Hyper(
        rule=rules.stack(rules.get(member.rule) for member in members),
        eta=column("eta"),
        **{name: column(name) for name in GRID},
        planning=plannings(members) if program.planner else None,
    )


def make_agent(config: Config, members: Sequence[Member], space: Space) -> Agent:
    """The agent of a population: it computes what the rules of its members read, and no more."""
    needs = rules.needs(rules.get(member.rule) for member in members)
    if config.agent == "dqn":
        if space.choices is None:
            raise UserError(
                f"Task {config.task!r} has continuous actions; {config.algorithm[0]} needs discrete ones. "
                "Use --algorithm ddpg bi-res-ddpg, or a task such as CartPole-v1."
            )
        return dqn(Design(space, config.hidden, config.optimiser, config.max_grad_norm, config.double_q), needs)
    if space.choices is not None:
        raise UserError(
            f"Task {config.task!r} has {space.choices} discrete actions; {config.algorithm[0]} needs continuous ones. "
            "Use --algorithm dqn bi-res-dqn, or a task such as cartpole-balance: see `bires list tasks`."
        )
    return ddpg(space, config.hidden, needs)


@dataclass(frozen=True)
class Program:
    """What all cohorts of a population share, and what the compiled functions are specialised for."""

    agent: Agent
    space: Space
    batch: int
    capacity: int
    warmup: int
    update_every: int
    planner: Planner | None = None
    learning: Learning | None = None
    """How models are learned; None: nobody plans, or the simulator is the model."""

    @property
    def oracle(self) -> bool:
        """Whether the simulator is the model."""
        return self.planner is not None and self.learning is None

    @property
    def sums(self) -> tuple[str, ...]:
        return SUMS + (PLANNING_SUMS if self.planner else ())


def make_program(config: Config, members: Sequence[Member], space: Space, capacity: int) -> Program:
    """The program of a population, with what its planners need and no more."""
    agent = make_agent(config, members, space)
    planner = planner_of(config, members, agent.parts)
    learning = None
    if planner is not None and config.model == "learned":
        horizon = max(config.horizon)
        start = max(config.warmup // 2, horizon + 1)
        learning = Learning(space, SCALES[config.model_scale], config.ensemble, horizon, start)
    return Program(agent, space, config.batch, capacity, config.warmup, config.update_every, planner, learning)


def work(program: Program) -> float:
    """About how many floating-point operations a member's step takes: six for each weight and sample of a batch."""
    learner, learned = jax.eval_shape(lambda: (program.agent.init(np.random.default_rng(0)), model(program, 0)))

    def weights(tree: Any) -> int:
        return sum(int(leaf.size) for leaf in jax.tree.leaves(tree))

    samples = weights(learner) / 4 * program.batch / program.update_every  # with its target and two moments each
    if program.learning is not None:
        scale = program.learning.scale
        samples += weights(learned.ensemble.networks) * scale.batch * scale.updates
    return 6.0 * samples


def learners(program: Program, seeds: Sequence[int]) -> Learner:
    """Fresh learners, each from its own seed, stacked."""
    with threadpool_limits(1):  # small matrices: on a busy machine BLAS threads wait for each other for seconds
        made = [program.agent.init(np.random.default_rng(seed)) for seed in seeds]
    return jax.tree.map(lambda *leaves: np.stack(leaves), *made)


def model(program: Program, seed: int) -> Any:
    """A fresh model of one member; None where none is learned."""
    return training.init(np.random.default_rng([seed, MODEL]), program.learning) if program.learning else None


def models(program: Program, seeds: Sequence[int]) -> Any:
    """Fresh models, each from its member's seed, stacked."""
    with threadpool_limits(1):
        made = [model(program, seed) for seed in seeds]
    return jax.tree.map(lambda *leaves: np.stack(leaves), *made)
