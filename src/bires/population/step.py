"""A population: members that train in one compiled program.

`vmap` happens in this package and nowhere else. The members are split into cohorts; each cohort lives on one device,
and one call takes many steps there: ask for the environments' step, insert, sample, update, act. Cohorts are
independent, so one updates while another's environments step.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from bires.agents import normalising
from bires.agents.base import Hyper, Learner
from bires.envs.slots import report_width
from bires.machine.branching import Due, repeated, when
from bires.machine.hostcalls import FLAG, HostHandle, shape
from bires.planning.base import Imagined
from bires.population import replay
from bires.population.evaluation import evaluate_members
from bires.population.hosts import EnvironmentHost, EvaluationHost, Incoming
from bires.population.imagination import ask_simulator
from bires.population.program import Program
from bires.population.state import CohortState, init, noticed
from bires.population.streams import STEP, WARMUP, step_keys, stream, update_key
from bires.population.updates import fit, improve
from bires.types import Space, Transition

barrier: Any = jax.lax.optimization_barrier  # JAX leaves it without types


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
    """The step of the environments, then the updates; says, too, who starts an episode, and whether to go on.

    Models that are learned are trained once, before the updates, and in steps without updates, too.
    """
    shapes = incoming_shapes(program.space, len(state.key))
    incoming, going = host.ask(EnvironmentHost.step, (shapes, FLAG), state.action)
    state, first = insert(program, state, incoming, clock, state.alive)
    if program.learning is not None:
        begun = clock >= program.learning.start
        state = when(begun, lambda state: fit(program, state, hyper, clock), state)

    def update(turn: jax.Array | int, carry: tuple[CohortState, jax.Array]) -> tuple[CohortState, jax.Array]:
        state, going = carry
        imagined: tuple[Imagined, ...] = ()
        if program.oracle:
            asked = (jax.vmap(lambda key: update_key(key, turn))(state.key), state.storage, state.learner, hyper)
            imagined, going = ask_simulator(program, host, *asked, clock)
        return improve(program, state, hyper, clock, turn, imagined), going

    state, going = repeated(due, program.update_times, update, (state, going))
    return state, first, going


def overlapped(
    program: Program, host: HostHandle[EnvironmentHost], state: CohortState, hyper: Hyper, clock: jax.Array, due: Due
) -> tuple[CohortState, jax.Array, jax.Array]:
    """The same; the updates are made while the environments step.

    What they sample is a function of the step's number, so it is known whether that includes the transition which the
    environments are about to make. If it does, the host waits for them before the updates; otherwise zeros hold its
    place meanwhile. Either way the same instructions compute the same numbers.
    """

    def reads(key: jax.Array, turn: jax.Array | int) -> jax.Array:
        sample = step_keys(update_key(key, turn), clock)[0]
        return replay.reads_newest(program.space, sample, program.capacity, clock, program.batch)

    def needed(key: jax.Array) -> jax.Array:
        if program.update_times == 1:
            return reads(key, 0)
        return jnp.any(jax.vmap(partial(reads, key))(jnp.arange(program.update_times)))

    shapes = incoming_shapes(program.space, len(state.key))
    rows = host.ask(EnvironmentHost.send, shapes.rows, state.action, jax.vmap(needed)(state.key) & due)
    begun, _ = insert(program, state, Incoming(rows, state.observation), clock, state.alive)
    better = repeated(due, program.update_times, lambda turn, state: improve(program, state, hyper, clock, turn), begun)
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
