"""Planning with the simulator, on the device: what a program asks about its batches (`bires.training.simulator`)."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from bires.agents.base import Hyper, Learner
from bires.machine.hostcalls import FLAG, HostHandle, shape
from bires.planning.base import Imagined
from bires.planning.recipe import following_parts, key_of
from bires.population import replay
from bires.population.hosts import EnvironmentHost
from bires.population.program import Program
from bires.population.streams import IMAGINE, step_keys, stream
from bires.types import Space


class Drawn(NamedTuple):
    """What the simulator is to be asked about: every array has the members in front."""

    positions: jax.Array
    """Where the batch is in the replay: (batch,)."""
    actions: tuple[jax.Array, ...]
    """The first actions of each kind of planner: (width, batch, action)."""


def ask_simulator(
    program: Program,
    host: HostHandle[EnvironmentHost],
    keys: jax.Array,
    storage: Any,
    learner: Learner,
    hyper: Hyper,
    clock: jax.Array,
) -> tuple[tuple[Imagined, ...], jax.Array]:
    """What the simulator says about a batch of each member; whether to go on."""
    planning, count = program.planning, len(keys)
    assert planning is not None
    drawn = draw(program, keys, storage, learner, hyper, clock)
    blanks = imagined_shapes(program, count)
    answers, going = host.ask(EnvironmentHost.imagine, (blanks, FLAG), drawn.positions, *drawn.actions)
    found = [[answer] for answer in answers]
    for step in range(1, max(use.depth for use in planning.uses)):
        on = [n for n, use in enumerate(planning.uses) if use.depth > step]
        actions = [following(program, n, keys, learner, found[n][-1], clock, step) for n in on]
        answers, going = host.ask(EnvironmentHost.imagine_on, (tuple(blanks[n] for n in on), FLAG), *actions)
        for n, answer in zip(on, answers, strict=True):
            found[n].append(answer)
    return tuple(unpack_imagined(program.space, jnp.stack(rows, axis=1)) for rows in found), going


def following(
    program: Program, number: int, keys: jax.Array, learner: Learner, rows: jax.Array, clock: jax.Array, step: int
) -> jax.Array:
    """The actions of a kind of planner in a rollout's ``step``, after the answers (members, width, batch, ·)."""
    planning = program.planning
    assert planning is not None
    kind = planning.uses[number].kind

    def one(key: jax.Array, learner: Learner, seen: jax.Array) -> jax.Array:
        return kind.following(following_parts(planning, stream(key, IMAGINE, clock), step), learner, seen)

    seen = rows[..., -program.space.observation :].reshape(len(rows), -1, program.space.observation)
    action = jax.vmap(one)(keys, learner, seen)
    return action.reshape(*rows.shape[:-1], program.space.action)


def draw(program: Program, keys: jax.Array, storage: Any, learner: Learner, hyper: Hyper, clock: jax.Array) -> Drawn:
    """The batch of each member, as its update will sample it, and what to try in it."""
    planning = program.planning
    assert planning is not None

    def one(key: jax.Array, storage: jax.Array, learner: Learner, hyper: Hyper) -> Drawn:
        index = replay.positions(step_keys(key, clock)[0], storage.shape[0], clock, program.batch)
        batch = replay.unpack(program.space, storage[index])
        imagining = stream(key, IMAGINE, clock)
        parts = following_parts(planning, imagining, 0)
        actions = tuple(
            use.kind.first(parts, key_of(use.kind, imagining), learner, hyper, batch, use.width)
            for use in planning.uses
        )
        return Drawn(index, actions)

    return jax.vmap(one)(keys, storage, learner, hyper)


def imagined_shapes(program: Program, members: int) -> tuple[Any, ...]:
    """Shapes of the simulator's answers about one step, for each kind of planner."""
    planning, space = program.planning, program.space
    assert planning is not None
    row = space.action + 2 + space.observation
    return tuple(shape((members, use.width, program.batch, row), np.float32) for use in planning.uses)


def unpack_imagined(space: Space, rows: Any) -> Imagined:
    """Rows of [action, reward, discount, next observation]: one array, so one transfer to the device."""
    a = space.action
    return Imagined(rows[..., :a], rows[..., a], rows[..., a + 2 :], discount=rows[..., a + 1])
