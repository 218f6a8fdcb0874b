"""A population: members that train in one compiled program.

`vmap` happens here and nowhere else. The members are split into cohorts; each cohort lives on one device, and one call
takes many steps there: ask for the environments' step, insert, sample, update, act. Cohorts are independent, so one
updates while another's environments step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from bires.agents import normalising
from bires.agents.base import ETA_USED, Hyper, Learner
from bires.envs.slots import report_width
from bires.machine.branching import Due, when
from bires.machine.hostcalls import FLAG, HostHandle, shape
from bires.planning import fitting, recipe
from bires.planning.base import Imagined
from bires.population import replay
from bires.population.evaluation import evaluate_members
from bires.population.hosts import EnvironmentHost, EvaluationHost, Incoming
from bires.population.imagination import ask_simulator
from bires.population.program import Program, member_shapes
from bires.population.streams import IMAGINE, MODEL, STEP, UPDATE, WARMUP, step_keys, stream
from bires.types import Params, Space, Transition

barrier: Any = jax.lax.optimization_barrier  # JAX leaves it without types


class CohortState(NamedTuple):
    """A cohort: every array has the members in front."""

    learner: Learner
    storage: Any
    observation: jax.Array
    first: jax.Array
    """Whether the observation starts an episode."""
    action: jax.Array
    noise: Params
    key: jax.Array
    """The member's own key (raw data); every random number is a function of it and the step's number."""
    alive: jax.Array
    diverged_at: jax.Array
    sums: jax.Array
    """Running `SUMS` since the last log."""
    model: Any = None
    """Learned models; None in a population without them."""


def incoming_shapes(space: Space, members: int) -> Incoming:
    seen = None if space.pixels is None else shape((members, space.observation), space.dtype)
    return Incoming(shape((members, report_width(space)), np.float32), seen)


def unpack_incoming(space: Space, incoming: Incoming) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array, jax.Array]:
    """Reward, discount, first, successor, next observation."""
    rows, o = incoming.rows, space.observation
    seen = (rows[:, 3 : 3 + o], rows[:, 3 + o :]) if space.pixels is None else (incoming.observation,) * 2
    return rows[:, 0], rows[:, 1], rows[:, 2] > 0, *seen


Steps = Callable[[HostHandle[EnvironmentHost], CohortState, Hyper, np.int32], tuple[CohortState, jax.Array]]
"""The host, state, hyper, the first step's number → the state after as many steps as the host wants, the next one's
number."""


class Compiled(NamedTuple):
    """The functions of a program."""

    init: Callable[[Learner, jax.Array, jax.Array, Any], CohortState]
    """Learners, seeds, first observations, models → members about to take step 0."""
    warm: Steps
    """Steps of the warm-up: no updates, and actions at random except the last."""
    learn: Steps
    """Steps after the warm-up."""
    evaluate_members: Callable[[HostHandle[EvaluationHost], Learner, np.ndarray], jax.Array]
    """The host, learners, first observations: acts until the host has seen enough episodes."""


def compiled(program: Program, ahead: bool, options: dict[str, str | bool]) -> Compiled:
    """Jits the program; the state is donated, so a step writes in place.

    ``ahead``: updates that need not wait for the environments do not.
    """
    jit = partial(jax.jit, compiler_options=options)
    return Compiled(
        init=jit(partial(init, program)),
        warm=jit(partial(repeat, partial(advance, program, False, ahead)), donate_argnums=1),
        learn=jit(partial(repeat, partial(advance, program, True, ahead)), donate_argnums=1),
        evaluate_members=jit(partial(evaluate_members, program)),
    )


Step = Callable[[HostHandle[EnvironmentHost], CohortState, Hyper, jax.Array], tuple[CohortState, jax.Array]]
"""The host, state, hyper, the step's number → the state after it, whether to go on."""


def repeat(
    step: Step, host: HostHandle[EnvironmentHost], state: CohortState, hyper: Hyper, clock: jax.Array
) -> tuple[CohortState, jax.Array]:
    """Steps from number ``clock`` on, at least one, until one says that it was the last; the next one's number."""

    def body(carry: tuple[CohortState, jax.Array, jax.Array]) -> tuple[CohortState, jax.Array, jax.Array]:
        state, clock, _ = carry
        state, going = step(host, state, hyper, clock)
        return state, clock + 1, going

    state, clock, _ = jax.lax.while_loop(lambda carry: carry[2], body, (state, clock, jnp.ones((), bool)))
    return state, clock


def init(program: Program, learner: Learner, seeds: jax.Array, observation: jax.Array, model: Any) -> CohortState:
    agent, count = program.agent, seeds.shape[0]
    keys = jax.vmap(lambda seed: jax.random.key_data(jax.random.key(seed)))(seeds)
    return CohortState(
        learner=learner,
        storage=replay.init(program.space, count, program.capacity),
        observation=observation,
        first=jnp.ones(count, bool),
        action=jax.vmap(lambda key: agent.random(stream(key, WARMUP)))(keys),
        noise=jax.vmap(lambda _: agent.init_noise())(keys),
        key=keys,
        alive=jnp.ones(count, bool),
        diverged_at=jnp.full(count, -1, jnp.int32),
        sums=jnp.zeros((count, len(program.sums))),
        model=model,
    )


def shapes(program: Program, count: int) -> CohortState:
    """What `init` makes of ``count`` members, as shapes."""
    learner, learned = jax.tree.map(lambda x: shape((count, *x.shape), x.dtype), member_shapes(program))
    observation = shape((count, program.space.observation), program.space.dtype)
    made: CohortState = jax.eval_shape(
        partial(init, program), learner, shape((count,), np.uint32), observation, learned
    )
    return made


def insert(
    program: Program, state: CohortState, incoming: Incoming, clock: jax.Array, alive: jax.Array
) -> tuple[CohortState, jax.Array]:
    """Stores the transition that the environments just finished; says who starts an episode.

    Members that are not ``alive`` store zeros, whether their environments have stopped already or not.
    """
    incoming = jax.tree.map(lambda x: jnp.where(alive[:, None], x, jnp.zeros_like(x)), incoming)
    reward, discount, first, successor, observation = unpack_incoming(program.space, incoming)
    made = Transition(state.observation, state.action, reward, discount, successor)
    storage = replay.write(program.space, state.storage, made, state.first, clock)
    return state._replace(observation=observation, first=first, storage=storage), first


def advance(
    program: Program,
    learning: bool,
    ahead: bool,
    host: HostHandle[EnvironmentHost],
    state: CohortState,
    hyper: Hyper,
    clock: jax.Array,
) -> tuple[CohortState, jax.Array]:
    """A step: ask for the environments', insert, update (if it is due), act; says whether to go on.

    ``learning``: whether the warm-up is over.
    """
    if program.normalised:
        state = state._replace(learner=jax.vmap(normalising.seen)(state.learner, state.observation, state.alive))
    due: Due = learning
    if learning and program.update_every > 1:
        due = (clock - program.warmup) % program.update_every == 0
    take = overlapped if learning and ahead and program.planning is None else in_turn
    state, first, going = take(program, host, state, hyper, clock, due)
    if program.learning is not None and due is not True:
        idle = (clock >= program.learning.start) & ~jnp.asarray(due)
        state = when(idle, lambda state: fit(program, state, hyper, clock), state)
    keys = jax.vmap(lambda key: stream(key, STEP, clock))(state.key)
    if due is not False:
        keys = jnp.where(due, jax.vmap(lambda key: step_keys(key, clock)[1])(state.key), keys)
    acted = explore(program, state, hyper, keys, first, clock)
    if not learning:
        chance = jax.vmap(lambda key: program.agent.random(stream(key, WARMUP, clock + 1)))(state.key)
        warming, still = clock + 1 < program.warmup, state._replace(action=chance)
        acted = jax.tree.map(lambda x, y: x if x is y else jnp.where(warming, x, y), still, acted)
    return acted, going


def in_turn(
    program: Program, host: HostHandle[EnvironmentHost], state: CohortState, hyper: Hyper, clock: jax.Array, due: Due
) -> tuple[CohortState, jax.Array, jax.Array]:
    """The step of the environments, then the update; says, too, who starts an episode, and whether to go on."""
    shapes = incoming_shapes(program.space, len(state.key))
    incoming, going = host.ask(EnvironmentHost.step, (shapes, FLAG), state.action)
    state, first = insert(program, state, incoming, clock, state.alive)

    def update(carry: tuple[CohortState, jax.Array]) -> tuple[CohortState, jax.Array]:
        state, going = carry
        imagined: tuple[Imagined, ...] = ()
        if program.oracle:
            asked = (state.key, state.storage, state.learner, hyper)
            imagined, going = ask_simulator(program, host, *asked, clock)
        return improve(program, state, hyper, clock, imagined), going

    state, going = when(due, update, (state, going))
    return state, first, going


def overlapped(
    program: Program, host: HostHandle[EnvironmentHost], state: CohortState, hyper: Hyper, clock: jax.Array, due: Due
) -> tuple[CohortState, jax.Array, jax.Array]:
    """The same; the update is made while the environments step.

    What it samples is a function of the step's number, so it is known whether that includes the transition which the
    environments are about to make. If it does, the host waits for them before the update; otherwise zeros hold its
    place meanwhile. Either way the same instructions compute the same numbers.
    """

    def reads(key: jax.Array) -> jax.Array:
        sample = step_keys(key, clock)[0]
        return replay.reads_newest(program.space, sample, program.capacity, clock, program.batch)

    shapes = incoming_shapes(program.space, len(state.key))
    rows = host.ask(EnvironmentHost.send, shapes.rows, state.action, jax.vmap(reads)(state.key) & due)
    begun, _ = insert(program, state, Incoming(rows, state.observation), clock, state.alive)
    better = when(due, lambda begun: improve(program, begun, hyper, clock), begun)
    better, moment = barrier((better, better.sums[0, 0]))
    incoming, going = host.ask(EnvironmentHost.receive, (shapes, FLAG), after=[moment])
    before = better._replace(observation=state.observation, first=state.first)
    better, first = insert(program, before, incoming, clock, state.alive)
    return better, first, going


def explore(
    program: Program, state: CohortState, hyper: Hyper, keys: jax.Array, first: jax.Array, clock: jax.Array
) -> CohortState:
    """The members' next actions; a frozen member's is zero. A member whose action is not finite has diverged."""
    action, noise = jax.vmap(program.agent.explore)(keys, state.learner, hyper, state.observation, state.noise, first)
    state = noticed(state, state.alive & jnp.isfinite(action).all(-1), clock)
    return state._replace(action=jnp.where(state.alive[:, None], action, 0.0), noise=noise)


def improve(
    program: Program, state: CohortState, hyper: Hyper, clock: jax.Array, imagined: tuple[Imagined, ...] = ()
) -> CohortState:
    """Sample and update; models first, where they are learned."""
    if program.learning is not None:
        state = fit(program, state, hyper, clock)
    due = delayed_due(program, clock)

    def update(
        key: jax.Array,
        storage: jax.Array,
        learner: Learner,
        hyper: Hyper,
        alive: jax.Array,
        model: Any,
        imagined: tuple[Imagined, ...],
    ) -> tuple[Learner, jax.Array, jax.Array]:
        if hyper.schedule is not None:
            hyper = hyper._replace(eta=hyper.schedule.at(hyper.eta, clock, program.warmup))
        batch = replay.sample(program.space, step_keys(key, clock)[0], storage, clock, program.batch)
        agent, drawn = program.agent, stream(key, UPDATE, clock)
        if program.planning is None:
            learner, seen = agent.update(drawn, learner, hyper, batch, alive)
            if (late := agent.delayed) is not None:
                again = jax.random.fold_in(drawn, 1)
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
        said = {ETA_USED: hyper.eta, **seen.metrics}
        told = [said[name] for name in program.metrics]
        return learner, seen.alive, jnp.where(seen.alive, jnp.stack([jnp.ones(()), *told, *more]), 0.0)

    learner, alive, sums = jax.vmap(update)(
        state.key, state.storage, state.learner, hyper, state.alive, state.model, imagined
    )
    return noticed(state, alive, clock)._replace(learner=learner, sums=state.sums + sums)


def delayed_due(program: Program, clock: jax.Array) -> Due:
    """Whether the delayed part of an update is due in step ``clock``: after every `Agent.delay`-th update."""
    if program.agent.delay == 1:
        return True
    number = (clock - program.warmup) // program.update_every
    return (number + 1) % program.agent.delay == 0


def noticed(state: CohortState, alive: jax.Array, clock: jax.Array) -> CohortState:
    """Records members that are no longer alive: they diverged in step ``clock``."""
    return state._replace(alive=alive, diverged_at=jnp.where(state.alive & ~alive, clock + 1, state.diverged_at))


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
