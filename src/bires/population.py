"""A population: members that train in one compiled program.

`vmap` happens here and nowhere else. The members are split into cohorts; each cohort lives on one device and is stepped
by one call: insert, sample, update, act. Cohorts are independent, so one updates while another's environments step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from threadpoolctl import threadpool_limits

from bires import replay, rules
from bires.agents.base import Agent, Hyper, Learner
from bires.agents.ddpg import ddpg
from bires.config import Config, Member
from bires.types import Params, Space, Transition

WARMUP, STEP = 1, 2
"""Streams of a member's random numbers."""
SUMS = ("updates", "critic_loss", "q_mean", "delta")
"""Diagnostics that are summed between two rows of the metrics."""


class State(NamedTuple):
    """A cohort: every array has the members in front."""

    learner: Learner
    storage: Any
    observation: jax.Array
    action: jax.Array
    noise: Params
    key: jax.Array
    """The member's own key (raw data); every random number is a function of it and the step's number."""
    alive: jax.Array
    diverged_at: jax.Array
    sums: jax.Array
    """Running `SUMS` since the last log."""


def incoming_width(observation: int) -> int:
    """Floats per member that the environments report of one step."""
    return 3 + 2 * observation


def unpack_incoming(space: Space, rows: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array, jax.Array]:
    """Rows of [reward, discount, first, successor, next observation]: one array, so one transfer to the device."""
    o = space.observation
    return rows[:, 0], rows[:, 1], rows[:, 2] > 0, rows[:, 3 : 3 + o], rows[:, 3 + o :]


def hypers(members: Sequence[Member]) -> Hyper:
    """The members' numbers, stacked."""

    def column(name: str) -> jax.Array:
        return jnp.asarray([getattr(member, name) or 0.0 for member in members], jnp.float32)

    return Hyper(
        rule=rules.stack(rules.get(member.rule) for member in members),
        eta=column("eta"),
        gamma=column("gamma"),
        tau=column("tau"),
        actor_lr=column("actor_lr"),
        critic_lr=column("critic_lr"),
        noise=column("noise"),
    )


def make_agent(config: Config, members: Sequence[Member], space: Space) -> Agent:
    """The agent of a population: it computes what the rules of its members read, and no more."""
    return ddpg(space, config.hidden, rules.needs(rules.get(member.rule) for member in members))


@dataclass(frozen=True)
class Program:
    """What all cohorts of a population share, and what the compiled functions are specialised for."""

    agent: Agent
    space: Space
    batch: int
    capacity: int


class Compiled(NamedTuple):
    """The functions of a program. Step number t is done by one of `warm`, `act` and `learn`, called with clock t after
    the environments took step t; each returns the action of step t + 1."""

    init: Callable[[Learner, jax.Array, jax.Array], State]
    """Learners, seeds, first observations → members about to take step 0."""
    warm: Callable[[State, np.ndarray, np.int32], tuple[State, jax.Array]]
    """A step of the warm-up: insert, act at random."""
    act: Callable[[State, Hyper, np.ndarray, np.int32], tuple[State, jax.Array]]
    """The last step of the warm-up: insert, act with the policy."""
    learn: Callable[[State, Hyper, np.ndarray, np.int32], tuple[State, jax.Array]]
    """A step after the warm-up: insert, sample, update, act with the policy."""
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
        policy=jit(partial(policy, program)),
    )


def learners(program: Program, seeds: Sequence[int]) -> Learner:
    """Fresh learners, each from its own seed, stacked."""
    with threadpool_limits(1):  # small matrices: on a busy machine BLAS threads wait for each other for seconds
        made = [program.agent.init(np.random.default_rng(seed)) for seed in seeds]
    return jax.tree.map(lambda *leaves: np.stack(leaves), *made)


def stream(key: jax.Array, name: int, clock: jax.Array | int = 0) -> jax.Array:
    """The random key of one member for one purpose at one step."""
    return jax.random.fold_in(jax.random.fold_in(jax.random.wrap_key_data(key), name), clock)


def init(program: Program, learner: Learner, seeds: jax.Array, observation: jax.Array) -> State:
    agent, count = program.agent, seeds.shape[0]
    keys = jax.vmap(lambda seed: jax.random.key_data(jax.random.key(seed)))(seeds)
    return State(
        learner=learner,
        storage=jnp.zeros((count, program.capacity, replay.width(program.space))),
        observation=observation,
        action=jax.vmap(lambda key: agent.random(stream(key, WARMUP)))(keys),
        noise=jax.vmap(lambda _: agent.init_noise())(keys),
        key=keys,
        alive=jnp.ones(count, bool),
        diverged_at=jnp.full(count, -1, jnp.int32),
        sums=jnp.zeros((count, len(SUMS))),
    )


def insert(program: Program, state: State, incoming: jax.Array, clock: jax.Array) -> tuple[State, jax.Array]:
    """Stores the transition that the environments just finished; says who starts an episode."""
    reward, discount, first, successor, observation = unpack_incoming(program.space, incoming)
    rows = replay.pack(Transition(state.observation, state.action, reward, discount, successor))
    return state._replace(storage=replay.insert(state.storage, rows, clock), observation=observation), first


def warm(program: Program, state: State, incoming: jax.Array, clock: jax.Array) -> tuple[State, jax.Array]:
    state, _ = insert(program, state, incoming, clock)
    action = jax.vmap(lambda key: program.agent.random(stream(key, WARMUP, clock + 1)))(state.key)
    return state._replace(action=action), action


def act(program: Program, state: State, hyper: Hyper, incoming: jax.Array, clock: jax.Array) -> tuple[State, jax.Array]:
    state, first = insert(program, state, incoming, clock)
    return explore(program, state, hyper, jax.vmap(lambda key: stream(key, STEP, clock))(state.key), first)


def explore(program: Program, state: State, hyper: Hyper, keys: jax.Array, first: jax.Array) -> tuple[State, jax.Array]:
    """The members' next actions; a frozen member's is zero."""
    chosen = jax.vmap(program.agent.explore)(keys, state.learner, hyper, state.observation, state.noise, first)
    action = jnp.where(state.alive[:, None], chosen[0], 0.0)
    return state._replace(action=action, noise=chosen[1]), action


def learn(
    program: Program, state: State, hyper: Hyper, incoming: jax.Array, clock: jax.Array
) -> tuple[State, jax.Array]:
    state, first = insert(program, state, incoming, clock)

    def update(
        key: jax.Array, storage: jax.Array, learner: Learner, hyper: Hyper, alive: jax.Array
    ) -> tuple[Learner, jax.Array, jax.Array, jax.Array]:
        sample_key, noise_key = jax.random.split(stream(key, STEP, clock))
        rows = replay.sample(sample_key, storage, clock, program.batch)
        learner, seen = program.agent.update(learner, hyper, replay.unpack(program.space, rows), alive)
        sums = jnp.where(seen.alive, jnp.stack([jnp.ones(()), seen.critic_loss, seen.q_mean, seen.delta]), 0.0)
        return learner, seen.alive, sums, noise_key

    learner, alive, sums, keys = jax.vmap(update)(state.key, state.storage, state.learner, hyper, state.alive)
    state = state._replace(
        learner=learner,
        alive=alive,
        diverged_at=jnp.where(state.alive & ~alive, clock + 1, state.diverged_at),
        sums=state.sums + sums,
    )
    return explore(program, state, hyper, keys, first)


def policy(program: Program, learner: Learner, observation: jax.Array) -> tuple[jax.Array, jax.Array]:
    def one(learner: Learner, observation: jax.Array) -> tuple[jax.Array, jax.Array]:
        action = program.agent.greedy(learner, observation)
        return action, program.agent.value(learner, observation, action)

    return jax.vmap(one)(learner, observation)
