"""A cohort beside an accelerator: kept in few arrays, and updated while its environments step.

What a call to an accelerator costs grows with the number of its buffers, so a cohort is packed, and nothing is sent to
it but what is new. A step is two calls. `act` is short, as the environments wait for it: what they did is stored by the
next `update`. What an update samples is a function of the step's number; unless that includes the transition which the
environments are about to make, it need not wait for them. Whether it does or not, the same programs compute the same
numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from bires import packing, population, replay
from bires.agents.base import Hyper
from bires.packing import Parts, Template
from bires.population import State
from bires.program import Program

LEARNING = ("learner", "alive", "diverged_at", "sums", "model")
ACTING = ("observation", "first", "action", "noise")
"""Those fields of a `State` that updates change, and those that acting changes."""
HOST = jax.memory.Space.Host
AHEAD = 256
"""For so many steps at once it is found out whose updates must wait for the environments."""


class Shape(NamedTuple):
    """What the parts of a packed cohort look like unpacked."""

    learning: Template
    acting: Template
    steady: Template


class Functions(NamedTuple):
    """A program, jitted for packed cohorts; what a call changes is donated to it."""

    pack: Callable[[Template, Any], Parts]
    unpack: Callable[[Template, Parts], Any]
    update: Callable[..., tuple[Parts, Any]]
    act: Callable[..., tuple[Parts, Pending, jax.Array, jax.Array]]
    """Given, too: whether the step had an update, and whether the program itself can write into the host's memory."""
    entry: Callable[[Shape, Parts, Any], Any]
    write: Callable[[Any, Any, jax.Array], Any]
    read: Callable[[Any, jax.Array], Any]
    newest: Callable[[jax.Array, np.int32], jax.Array]


class Pending(NamedTuple):
    """A step that is to be stored, and its number."""

    made: Any
    clock: jax.Array


def functions(program: Program, options: dict[str, str | bool]) -> Functions:
    jit = partial(jax.jit, compiler_options=options)
    return Functions(
        pack=jit(packing.pack, static_argnums=0),
        unpack=jit(packing.unpack, static_argnums=0),
        update=jit(partial(update, program), static_argnums=0, donate_argnums=(1, 3)),
        act=jit(partial(act, program), static_argnums=(0, 1, 2), donate_argnums=4),
        entry=jit(partial(entry, program), static_argnums=0),
        write=jit(replay.write, donate_argnums=0),
        read=jit(replay.read),
        newest=jit(partial(newest, program)),
    )


def update(
    program: Program, shape: Shape, learning: Parts, steady: Parts, storage: Any, pending: Pending, clock: jax.Array
) -> tuple[Parts, Any]:
    """Stores the pending step, then the update of step ``clock``."""
    key, hyper = packing.unpack(shape.steady, steady)
    storage = replay.write(storage, *pending)
    state = state_of(packing.unpack(shape.learning, learning), key=key, storage=storage)
    return packing.pack(shape.learning, fields(population.improve(program, state, hyper, clock), LEARNING)), storage


def act(
    program: Program,
    shape: Shape,
    learnt: bool,
    to_host: bool,
    learning: Parts,
    acting: Parts,
    steady: Parts,
    incoming: Any,
    clock: jax.Array,
) -> tuple[Parts, Pending, jax.Array, jax.Array]:
    """Acts after step ``clock``, which is then pending: the acting part, that step, the next one's number, actions."""
    key, hyper = packing.unpack(shape.steady, steady)
    state = state_of(packing.unpack(shape.learning, learning) | packing.unpack(shape.acting, acting), key=key)
    state, made, first = population.entry(program, state, incoming)
    going = population.move_on if learnt else population.keep_on
    state, action = going(program, state, hyper, first, clock)
    if to_host:
        action = jax.device_put(action, HOST)
    return packing.pack(shape.acting, fields(state, ACTING)), Pending(made, clock), clock + 1, action


def entry(program: Program, shape: Shape, acting: Parts, incoming: Any) -> Any:
    """What is to be stored of the step under way."""
    return population.entry(program, state_of(packing.unpack(shape.acting, acting)), incoming)[1]


def newest(program: Program, keys: jax.Array, clock: jax.Array) -> jax.Array:
    """For step ``clock`` and those after it: whether any member's update reads what that very step stores."""

    def reads(clock: jax.Array, key: jax.Array) -> jax.Array:
        sample = population.step_keys(key, clock)[0]
        return replay.reads_newest(program.space, sample, program.capacity, clock, program.batch)

    steps = clock + jnp.arange(AHEAD, dtype=jnp.int32)
    return jnp.any(jax.vmap(jax.vmap(reads, (None, 0)), (0, None))(steps, keys), axis=1)


@cache
def writes_to_host(device: Any) -> bool:
    """Whether a program can write into the host's memory, which is quicker than fetching what it wrote into its own."""
    try:
        twice = jax.jit(lambda x: (x, jax.device_put(2 * x, HOST)))(jax.device_put(np.arange(3), device))[1]
        return bool(np.array_equal(twice, [0, 2, 4]))
    except Exception:  # whatever a backend says that has no such memory
        return False


def fields(state: State, names: Sequence[str]) -> dict[str, Any]:
    return {name: getattr(state, name) for name in names}


def state_of(parts: dict[str, Any], **more: Any) -> State:
    """A state of which some fields are there."""
    return State(**{**dict.fromkeys(State._fields), **parts, **more})


class Packed:
    """A cohort on its accelerator, about to take step ``clock``."""

    def __init__(self, program: Program, compiled: Functions, state: State, hyper: Hyper, clock: int, device: Any):
        trees = fields(state, LEARNING), fields(state, ACTING), (state.key, hyper)
        self._program, self._compiled = program, compiled
        self._shape = Shape(*map(packing.template, trees))
        self._learning, self._acting, self._steady = map(compiled.pack, self._shape, trees)
        self._storage, self._keys = state.storage, state.key
        self._clock, self._now = jax.device_put(np.int32(clock), device), clock
        before = jax.device_put(np.int32(clock - 1), device)
        self._pending = Pending(compiled.read(self._storage, before), before)  # stored already, and once more
        self._updated = False
        self._asked, self._waits = -AHEAD, np.zeros(AHEAD, bool)
        self._device, self._to_host = device, writes_to_host(device)

    @property
    def state(self) -> State:
        """The members, unpacked."""
        self._store()
        parts = zip(self._shape, (self._learning, self._acting, self._steady), strict=True)
        learning, acting, (key, _) = (self._compiled.unpack(shape, part) for shape, part in parts)
        return state_of(learning | acting, key=key, storage=self._storage)

    def update_ahead(self) -> None:
        """Starts the update of this step if it need not wait for the environments."""
        if not self._must_wait():
            self._update()

    def update(self, incoming: Any) -> None:
        """Starts the update of this step now, unless that has been done."""
        if self._updated:
            return
        self._store()
        self._pending = Pending(self._compiled.entry(self._shape, self._acting, incoming), self._clock)
        self._update()

    def act(self, incoming: Any) -> jax.Array:
        """Acts with what the environments report of this step, which begins the next one."""
        if not self._updated:
            self._store()
        incoming = jax.device_put(incoming, self._device)  # takes half the time that a call takes to do it
        self._acting, self._pending, self._clock, action = self._compiled.act(
            self._shape,
            self._updated,
            self._to_host,
            self._learning,
            self._acting,
            self._steady,
            incoming,
            self._clock,
        )
        if not self._to_host:
            action.copy_to_host_async()
        self._now, self._updated = self._now + 1, False
        return action

    def _store(self) -> None:
        self._storage = self._compiled.write(self._storage, *self._pending)

    def _update(self) -> None:
        self._learning, self._storage = self._compiled.update(
            self._shape, self._learning, self._steady, self._storage, self._pending, self._clock
        )
        self._updated = True

    def _must_wait(self) -> bool:
        """Whether the update of this step reads what the environments have yet to say (learned models sample, too)."""
        if self._program.learning is not None:
            return True
        if not self._asked <= self._now < self._asked + AHEAD:
            self._asked = self._now
            self._waits = np.asarray(self._compiled.newest(self._keys, np.int32(self._now)))
        return bool(self._waits[self._now - self._asked])
