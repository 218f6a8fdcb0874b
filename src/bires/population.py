"""A population: members that train in one compiled program.

`vmap` happens here and nowhere else. The members are split into cohorts; each cohort lives on one device and is stepped
by one call: insert, sample, update, act; beside an accelerator by two (see `bires.accelerated`). Cohorts are
independent, so one updates while another's environments step.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from bires import replay
from bires.agents.base import Hyper, Learner
from bires.models import training
from bires.planning import dyna, recipe
from bires.planning.base import Dreams, Imagined
from bires.program import DREAM, MODEL, STEP, WARMUP, Program, model
from bires.types import Params, Space, Transition

shape: Any = jax.ShapeDtypeStruct


class State(NamedTuple):
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
    """Learned models; None where nobody plans with them."""


def incoming_width(observation: int) -> int:
    """Floats per member that the environments report of one step."""
    return 3 + 2 * observation


def unpack_incoming(space: Space, incoming: Any) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array, jax.Array]:
    """Rows of [reward, discount, first, successor, next observation]: one array, so one transfer to the device.

    Where observations are pixels: rows of the first three, and the next observations; successors are not asked for.
    """
    if space.pixels is not None:
        rows, observation = incoming
        return rows[:, 0], rows[:, 1], rows[:, 2] > 0, observation, observation
    rows, o = incoming, space.observation
    return rows[:, 0], rows[:, 1], rows[:, 2] > 0, rows[:, 3 : 3 + o], rows[:, 3 + o :]


class Compiled(NamedTuple):
    """The functions of a program. Step number t is done by one of `warm`, `act` and `learn`, called with clock t after
    the environments took step t; each returns the action of step t + 1."""

    init: Callable[[Learner, jax.Array, jax.Array, Any], State]
    """Learners, seeds, first observations, models → members about to take step 0."""
    warm: Callable[[State, np.ndarray, np.int32], tuple[State, jax.Array]]
    """A step of the warm-up: insert, act at random."""
    act: Callable[[State, Hyper, np.ndarray, np.int32], tuple[State, jax.Array]]
    """The last step of the warm-up, or one between two updates: insert, act with the policy."""
    learn: Callable[[State, Hyper, np.ndarray, np.int32], tuple[State, jax.Array]]
    """A step after the warm-up: insert, sample, update, act with the policy."""
    fit: Callable[[State, np.int32], State]
    """Model updates alone, for the steps of the warm-up in which models learn."""
    draw: Callable[[State, Hyper, np.ndarray, np.int32], tuple[State, Drawn]]
    """The first part of `learn` where the oracle must be asked: insert, and say what is to be imagined."""
    steer: Callable[[Learner, np.ndarray], jax.Array]
    """The target policy's actions: (members, batch, observation) → (members, batch, action)."""
    finish: Callable[..., tuple[State, jax.Array]]
    """State, hyper, incoming, answers (two arrays or None), clock → the rest of `learn`."""
    policy: Callable[[Learner, np.ndarray], tuple[jax.Array, jax.Array]]
    """Noise-free actions and their values: (members, lanes, observation) → (members, lanes, ·)."""


def compiled(program: Program, options: dict[str, str | bool]) -> Compiled:
    """Jits the program; the state is donated, so a step writes in place."""
    jit = partial(jax.jit, compiler_options=options)
    return Compiled(
        init=jit(partial(init, program)),
        warm=jit(partial(warm, program), donate_argnums=0),
        act=jit(partial(act, program), donate_argnums=0),
        learn=jit(partial(learn, program), donate_argnums=0),
        fit=jit(partial(fit, program), donate_argnums=0),
        draw=jit(partial(draw, program), donate_argnums=0),
        steer=jit(partial(steer, program)),
        finish=jit(partial(finish, program), donate_argnums=0),
        policy=jit(partial(policy, program)),
    )


def stream(key: jax.Array, name: int, clock: jax.Array | int = 0) -> jax.Array:
    """The random key of one member for one purpose at one step."""
    return jax.random.fold_in(jax.random.fold_in(jax.random.wrap_key_data(key), name), clock)


def init(program: Program, learner: Learner, seeds: jax.Array, observation: jax.Array, model: Any) -> State:
    agent, count = program.agent, seeds.shape[0]
    keys = jax.vmap(lambda seed: jax.random.key_data(jax.random.key(seed)))(seeds)
    return State(
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


def shapes(program: Program, count: int) -> State:
    """What `init` makes of ``count`` members, as shapes."""
    one = jax.eval_shape(lambda: (program.agent.init(np.random.default_rng(0)), model(program, 0)))
    learner, learned = jax.tree.map(lambda x: shape((count, *x.shape), x.dtype), one)
    observation = shape((count, program.space.observation), program.space.dtype)
    made: State = jax.eval_shape(partial(init, program), learner, shape((count,), np.uint32), observation, learned)
    return made


def entry(program: Program, state: State, incoming: jax.Array) -> tuple[State, Any, jax.Array]:
    """What the environments' step leaves to be stored, and the state after it; says who starts an episode."""
    reward, discount, first, successor, observation = unpack_incoming(program.space, incoming)
    made = Transition(state.observation, state.action, reward, discount, successor)
    stored = replay.entry(program.space, made, state.first)
    return state._replace(observation=observation, first=first), stored, first


def insert(program: Program, state: State, incoming: jax.Array, clock: jax.Array) -> tuple[State, jax.Array]:
    """Stores the transition that the environments just finished; says who starts an episode."""
    state, made, first = entry(program, state, incoming)
    return state._replace(storage=replay.write(state.storage, made, clock)), first


def warm(program: Program, state: State, incoming: jax.Array, clock: jax.Array) -> tuple[State, jax.Array]:
    state, _ = insert(program, state, incoming, clock)
    action = jax.vmap(lambda key: program.agent.random(stream(key, WARMUP, clock + 1)))(state.key)
    return state._replace(action=action), action


def act(program: Program, state: State, hyper: Hyper, incoming: jax.Array, clock: jax.Array) -> tuple[State, jax.Array]:
    state, first = insert(program, state, incoming, clock)
    return keep_on(program, state, hyper, first, clock)


def step_keys(key: jax.Array, clock: jax.Array) -> jax.Array:
    """Two keys of a member for a step with an update: to sample its batch, and for the noise of the action after it."""
    return jax.random.split(stream(key, STEP, clock))


def explore(program: Program, state: State, hyper: Hyper, keys: jax.Array, first: jax.Array) -> tuple[State, jax.Array]:
    """The members' next actions; a frozen member's is zero."""
    chosen = jax.vmap(program.agent.explore)(keys, state.learner, hyper, state.observation, state.noise, first)
    action = jnp.where(state.alive[:, None], chosen[0], 0.0)
    return state._replace(action=action, noise=chosen[1]), action


def learn(
    program: Program, state: State, hyper: Hyper, incoming: jax.Array, clock: jax.Array
) -> tuple[State, jax.Array]:
    state, first = insert(program, state, incoming, clock)
    return move_on(program, improve(program, state, hyper, clock), hyper, first, clock)


def keep_on(
    program: Program, state: State, hyper: Hyper, first: jax.Array, clock: jax.Array
) -> tuple[State, jax.Array]:
    """Acts with the policy in a step without an update."""
    return explore(program, state, hyper, jax.vmap(lambda key: stream(key, STEP, clock))(state.key), first)


def move_on(
    program: Program, state: State, hyper: Hyper, first: jax.Array, clock: jax.Array
) -> tuple[State, jax.Array]:
    """Acts with the policy that step ``clock`` has just improved."""
    return explore(program, state, hyper, jax.vmap(lambda key: step_keys(key, clock)[1])(state.key), first)


def improve(program: Program, state: State, hyper: Hyper, clock: jax.Array, dreams: Dreams | None = None) -> State:
    """Sample and update; models first, where they are learned."""
    if program.learning is not None:
        state = fit(program, state, clock)

    def update(
        key: jax.Array, storage: jax.Array, learner: Learner, hyper: Hyper, alive: jax.Array, model: Any, dreams: Dreams
    ) -> tuple[Learner, jax.Array, jax.Array]:
        batch = replay.sample(program.space, step_keys(key, clock)[0], storage, clock, program.batch)
        if program.planner is None:
            learner, seen = program.agent.update(learner, hyper, batch, alive)
            more = []
        else:
            if program.learning is not None:
                predict = training.predict(program.learning, model)
                dreams = recipe.imagine(program.planner, predict, stream(key, DREAM, clock), learner, hyper, batch)
            learner, seen, loss = recipe.update(program.planner, learner, hyper, batch, dreams, alive)
            more = [loss]
        sums = jnp.where(seen.alive, jnp.stack([jnp.ones(()), seen.critic_loss, seen.q_mean, seen.delta, *more]), 0.0)
        return learner, seen.alive, sums

    learner, alive, sums = jax.vmap(update)(
        state.key, state.storage, state.learner, hyper, state.alive, state.model, dreams or Dreams()
    )
    return noticed(state, alive, clock)._replace(learner=learner, sums=state.sums + sums)


def noticed(state: State, alive: jax.Array, clock: jax.Array) -> State:
    """Who is no longer alive has diverged in step ``clock``."""
    return state._replace(alive=alive, diverged_at=jnp.where(state.alive & ~alive, clock + 1, state.diverged_at))


def fit(program: Program, state: State, clock: jax.Array) -> State:
    learning = program.learning
    assert learning is not None

    def one(key: jax.Array, storage: jax.Array, model: Any, alive: jax.Array) -> tuple[Any, jax.Array]:
        return training.fit(learning, model, stream(key, MODEL, clock), storage, clock, alive)

    fitted, alive = jax.vmap(one)(state.key, state.storage, state.model, state.alive)
    return noticed(state, alive, clock)._replace(model=fitted)


class Drawn(NamedTuple):
    """What the oracle is to be asked about: every array has the members in front."""

    positions: jax.Array
    """Where the batch is in the replay: (batch,)."""
    nearby: jax.Array | None
    """Dyna's noisy actions in the batch's states: (P, batch, action)."""
    first: jax.Array | None
    """The target policy's actions in the batch's successors, where MVE begins: (batch, action)."""


def draw(program: Program, state: State, hyper: Hyper, incoming: jax.Array, clock: jax.Array) -> tuple[State, Drawn]:
    planner = program.planner
    assert planner is not None
    state, _ = insert(program, state, incoming, clock)

    def one(key: jax.Array, storage: jax.Array, learner: Learner, hyper: Hyper) -> Drawn:
        index = replay.positions(step_keys(key, clock)[0], storage.shape[0], clock, program.batch)
        batch = replay.unpack(program.space, storage[index])
        nearby = first = None
        if planner.steps:
            assert hyper.planning is not None
            nearby = dyna.proposals(stream(key, DREAM, clock), batch.action, hyper.planning.noise, planner.steps)
        if planner.horizon:
            first = planner.parts.target_action(learner, batch.next_observation)
        return Drawn(index, nearby, first)

    return state, jax.vmap(one)(state.key, state.storage, state.learner, hyper)


def steer(program: Program, learner: Learner, observation: jax.Array) -> jax.Array:
    assert program.planner is not None
    return jax.vmap(program.planner.parts.target_action)(learner, observation)


def finish(
    program: Program, state: State, hyper: Hyper, incoming: jax.Array, answers: Dreams, clock: jax.Array
) -> tuple[State, jax.Array]:
    first = unpack_incoming(program.space, incoming)[2]
    dreams = Dreams(*(None if part is None else unpack_imagined(program.space, part) for part in answers))
    return move_on(program, improve(program, state, hyper, clock, dreams), hyper, first, clock)


def unpack_imagined(space: Space, rows: Any) -> Imagined:
    """Rows of [action, reward, next observation]: one array, so one transfer to the device."""
    a = space.action
    return Imagined(rows[..., :a], rows[..., a], rows[..., a + 1 :])


def policy(program: Program, learner: Learner, observation: jax.Array) -> tuple[jax.Array, jax.Array]:
    def one(learner: Learner, observation: jax.Array) -> tuple[jax.Array, jax.Array]:
        action = program.agent.greedy(learner, observation)
        return action, program.agent.value(learner, observation, action)

    return jax.vmap(one)(learner, observation)
