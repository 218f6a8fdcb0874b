"""A cohort beside an accelerator: kept in few arrays, and updated while its environments step.

What a call to an accelerator costs grows with the number of its buffers, so a cohort is packed, and nothing is sent to
it but what is new. A step is two calls: `update` and `act`. What an update samples is a function of the step's number;
unless that includes the transition which the environments are about to make, it need not wait for them. Whether it
does or not, the same programs compute the same numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
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
    update: Callable[..., Parts]
    insert: Callable[..., Any]
    act: Callable[..., tuple[Parts, Any, jax.Array, jax.Array]]
    newest: Callable[[jax.Array, np.int32], jax.Array]


def functions(program: Program, options: dict[str, str | bool]) -> Functions:
    jit = partial(jax.jit, compiler_options=options)
    return Functions(
        pack=jit(packing.pack, static_argnums=0),
        unpack=jit(packing.unpack, static_argnums=0),
        update=jit(partial(update, program), static_argnums=0, donate_argnums=1),
        insert=jit(partial(insert, program), static_argnums=0, donate_argnums=2),
        act=jit(partial(act, program), static_argnums=(0, 1), donate_argnums=(3, 5, 7)),
        newest=jit(partial(newest, program)),
    )


def update(program: Program, shape: Shape, learning: Parts, steady: Parts, storage: Any, clock: jax.Array) -> Parts:
    """The update of step ``clock``."""
    key, hyper = packing.unpack(shape.steady, steady)
    state = state_of(packing.unpack(shape.learning, learning), key=key, storage=storage)
    return packing.pack(shape.learning, fields(population.improve(program, state, hyper, clock), LEARNING))


def insert(program: Program, shape: Shape, acting: Parts, storage: Any, incoming: Any, clock: jax.Array) -> Any:
    """The replay with step ``clock`` in it."""
    state = state_of(packing.unpack(shape.acting, acting), storage=storage)
    return population.insert(program, state, incoming, clock)[0].storage


def act(
    program: Program,
    shape: Shape,
    learnt: bool,
    learning: Parts,
    acting: Parts,
    steady: Parts,
    storage: Any,
    incoming: Any,
    clock: jax.Array,
) -> tuple[Parts, Any, jax.Array, jax.Array]:
    """Stores step ``clock`` and acts; ``learnt``: whether that step had an update."""
    key, hyper = packing.unpack(shape.steady, steady)
    parts = packing.unpack(shape.learning, learning) | packing.unpack(shape.acting, acting)
    state = state_of(parts, key=key, storage=storage)
    if learnt:
        state, first = population.insert(program, state, incoming, clock)
        state, action = population.move_on(program, state, hyper, first, clock)
    else:
        state, action = population.act(program, state, hyper, incoming, clock)
    return packing.pack(shape.acting, fields(state, ACTING)), state.storage, clock + 1, action


def newest(program: Program, keys: jax.Array, clock: jax.Array) -> jax.Array:
    """For step ``clock`` and those after it: whether any member's update reads what that very step stores."""

    def reads(clock: jax.Array, key: jax.Array) -> jax.Array:
        sample = population.step_keys(key, clock)[0]
        return replay.reads_newest(program.space, sample, program.capacity, clock, program.batch)

    steps = clock + jnp.arange(AHEAD, dtype=jnp.int32)
    return jnp.any(jax.vmap(jax.vmap(reads, (None, 0)), (0, None))(steps, keys), axis=1)


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
        self._updated = False
        self._asked, self._waits = -AHEAD, np.zeros(AHEAD, bool)

    @property
    def state(self) -> State:
        """The members, unpacked."""
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
        self._storage = self._compiled.insert(self._shape, self._acting, self._storage, incoming, self._clock)
        self._update()

    def act(self, incoming: Any) -> jax.Array:
        """Stores this step and acts, which begins the next one."""
        self._acting, self._storage, self._clock, action = self._compiled.act(
            self._shape,
            self._updated,
            self._learning,
            self._acting,
            self._steady,
            self._storage,
            incoming,
            self._clock,
        )
        action.copy_to_host_async()
        self._now, self._updated = self._now + 1, False
        return action

    def _update(self) -> None:
        self._learning = self._compiled.update(self._shape, self._learning, self._steady, self._storage, self._clock)
        self._updated = True

    def _must_wait(self) -> bool:
        """Whether the update of this step reads what the environments have yet to say (learned models sample, too)."""
        if self._program.learning is not None:
            return True
        if not self._asked <= self._now < self._asked + AHEAD:
            self._asked = self._now
            self._waits = np.asarray(self._compiled.newest(self._keys, np.int32(self._now)))
        return bool(self._waits[self._now - self._asked])
