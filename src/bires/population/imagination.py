"""Planning with the simulator, on the device: what a program asks about its batches (`bires.training.simulator`)."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from bires.agents.base import Hyper, Learner
from bires.machine.hostcalls import FLAG, HostHandle, shape
from bires.planning import dyna
from bires.planning.base import Imagination, Imagined
from bires.population import replay
from bires.population.hosts import EnvironmentHost
from bires.population.program import Program
from bires.population.streams import IMAGINE, step_keys, stream
from bires.types import Space


class Drawn(NamedTuple):
    """What the oracle is to be asked about: every array has the members in front."""

    positions: jax.Array
    """Where the batch is in the replay: (batch,)."""
    nearby: jax.Array | None
    """Dyna's noisy actions in the batch's states: (P, batch, action)."""
    first: jax.Array | None
    """The target policy's actions in the batch's successors, where MVE begins: (batch, action)."""


def ask_simulator(
    program: Program,
    host: HostHandle[EnvironmentHost],
    keys: jax.Array,
    storage: Any,
    learner: Learner,
    hyper: Hyper,
    clock: jax.Array,
) -> tuple[Imagination, jax.Array]:
    """What the simulator says about a batch of each member; whether to go on."""
    planner, count = program.planner, len(keys)
    assert planner is not None
    drawn = draw(program, keys, storage, learner, hyper, clock)
    nearby, walked = imagined_shapes(program, count)
    (nearby, answer), going = host.ask(EnvironmentHost.imagine, ((nearby, walked), FLAG), *jax.tree.leaves(drawn))
    rollout = [answer]
    for _ in range(1, planner.horizon):
        seen = answer[..., -program.space.observation :]
        action = planner.parts.clip(jax.vmap(planner.parts.target_action)(learner, seen))
        answer, going = host.ask(EnvironmentHost.imagine_on, (walked, FLAG), action)
        rollout.append(answer)
    return Imagination(
        None if nearby is None else unpack_imagined(program.space, nearby),
        None if answer is None else unpack_imagined(program.space, jnp.stack(rollout, axis=1)),
    ), going


def draw(program: Program, keys: jax.Array, storage: Any, learner: Learner, hyper: Hyper, clock: jax.Array) -> Drawn:
    """The batch of each member, as its update will sample it, and what to try in it."""
    planner = program.planner
    assert planner is not None

    def one(key: jax.Array, storage: jax.Array, learner: Learner, hyper: Hyper) -> Drawn:
        index = replay.positions(step_keys(key, clock)[0], storage.shape[0], clock, program.batch)
        batch = replay.unpack(program.space, storage[index])
        nearby = first = None
        if planner.steps:
            assert hyper.planning is not None
            imagining = stream(key, IMAGINE, clock)
            nearby = dyna.proposals(planner.parts, imagining, batch.action, hyper.planning.noise, planner.steps)
        if planner.horizon:
            first = planner.parts.clip(planner.parts.target_action(learner, batch.next_observation))
        return Drawn(index, nearby, first)

    return jax.vmap(one)(keys, storage, learner, hyper)


def imagined_shapes(program: Program, members: int) -> tuple[Any, Any]:
    """Shapes of the simulator's answers: Dyna's, and one step of MVE's; None: the population does not need them."""
    planner, space = program.planner, program.space
    assert planner is not None
    one = (program.batch, space.action + 1 + space.observation)
    return (
        shape((members, planner.steps, *one), np.float32) if planner.steps else None,
        shape((members, *one), np.float32) if planner.horizon else None,
    )


def unpack_imagined(space: Space, rows: Any) -> Imagined:
    """Rows of [action, reward, next observation]: one array, so one transfer to the device."""
    a = space.action
    return Imagined(rows[..., :a], rows[..., a], rows[..., a + 1 :])
