"""The updates of a step, for all members: models, where they are learned; then sample, learn, plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from bires.agents.base import ETA_USED, LR_SHARE, Hyper, Learner
from bires.machine.branching import Due, when
from bires.planning import fitting, recipe
from bires.planning.base import Imagined
from bires.population import replay
from bires.population.program import Program
from bires.population.state import CohortState, noticed
from bires.population.streams import DELAYED, IMAGINE, MODEL, UPDATE, step_keys, stream, update_key


def improve(
    program: Program,
    state: CohortState,
    hyper: Hyper,
    clock: jax.Array,
    turn: jax.Array | int = 0,
    imagined: tuple[Imagined, ...] = (),
) -> CohortState:
    """Sample and update. ``turn``: which update of the step it is; each has a batch and random numbers of its own."""
    due = delayed_due(program, clock, turn)

    def update(
        key: jax.Array,
        storage: jax.Array,
        learner: Learner,
        hyper: Hyper,
        alive: jax.Array,
        model: Any,
        imagined: tuple[Imagined, ...],
    ) -> tuple[Learner, jax.Array, jax.Array]:
        key = update_key(key, turn)
        if hyper.schedule is not None:
            hyper = hyper._replace(eta=hyper.schedule.at(hyper.eta, clock, program.warmup))
        said = {ETA_USED: hyper.eta}
        if hyper.rates is not None:
            said[LR_SHARE] = hyper.rates.left(clock, program.warmup)
            hyper = slowed(hyper, said[LR_SHARE], program.rates)
        batch = replay.sample(program.space, step_keys(key, clock)[0], storage, clock, program.batch)
        agent, drawn = program.agent, stream(key, UPDATE, clock)
        if program.planning is None:
            learner, seen = agent.update(drawn, learner, hyper, batch, alive)
            if (late := agent.delayed) is not None:
                again = stream(key, DELAYED, clock)
                learner, alive = when(
                    due, lambda carry: late(again, carry[0], hyper, batch, carry[1]), (learner, seen.alive)
                )
                seen = seen._replace(alive=alive)
            more = []
        else:
            if program.learning is not None:
                known = (program.learning, model)
                drawing, each = stream(key, IMAGINE, clock), fitting.predict_each(*known)
                imagined = recipe.imagine(program.planning, fitting.model(*known), drawing, learner, hyper, batch, each)
            planning = replace(program.planning, key=drawn)
            learner, seen, reported = recipe.update(planning, learner, hyper, batch, imagined, alive, due)
            more = [reported[name] for name in program.planning_sums]
        said |= seen.metrics
        told = [said[name] for name in program.metrics]
        return learner, seen.alive, jnp.where(seen.alive, jnp.stack([jnp.ones(()), *told, *more]), 0.0)

    learner, alive, sums = jax.vmap(update)(
        state.key, state.storage, state.learner, hyper, state.alive, state.model, imagined
    )
    return noticed(state, alive, clock)._replace(learner=learner, sums=state.sums + sums)


def slowed(hyper: Hyper, left: jax.Array, rates: Sequence[str]) -> Hyper:
    """The numbers of a member of whose learning rates a share is ``left``."""
    return hyper._replace(own={name: left * value if name in rates else value for name, value in hyper.own.items()})


def delayed_due(program: Program, clock: jax.Array, turn: jax.Array | int) -> Due:
    """Whether the delayed part is due in an update of step ``clock``: in every `Agent.delay`-th."""
    if program.agent.delay == 1:
        return True
    number = (clock - program.warmup) // program.update_every * program.update_times + turn
    return (number + 1) % program.agent.delay == 0


def fit(program: Program, state: CohortState, hyper: Hyper, clock: jax.Array) -> CohortState:
    """Trains the models. One that is not finite freezes its member, if the member plans with it."""
    learning = program.learning
    assert learning is not None
    assert hyper.planning is not None
    planning = jnp.any(jnp.stack(list(hyper.planning.uses.values())), axis=0)

    def one(key: jax.Array, storage: jax.Array, model: Any, alive: jax.Array) -> tuple[Any, jax.Array]:
        memory = fitting.Memory(partial(replay.at, program.space, storage), program.capacity, clock)
        return fitting.fit(learning, model, stream(key, MODEL, clock), memory, alive)

    fitted, finite = jax.vmap(one)(state.key, state.storage, state.model, state.alive)
    return noticed(state, state.alive & (finite | ~planning), clock)._replace(model=fitted)
