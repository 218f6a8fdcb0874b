"""Compiled programs that ask Python in between, on any device.

Whom they ask is a number, given to the program when it is called; so it is compiled once for all that can be asked, and
the compilation cache can keep it. `jax.experimental.io_callback` is another way. It writes Python's function into the
program, which therefore is never cached; it puts every argument on a CPU device first (an agent beside an H200 made
1 265 steps/s with it, 1 500 to 2 250 without); and two programs of one process that used it hung.

On a CPU and on NVIDIA's GPUs a question is a foreign function of XLA's (see `bires.machine.foreign`); elsewhere it is
JAX's own call of Python with NumPy's arrays.
"""

from __future__ import annotations

import itertools
import signal
import threading
import weakref
from collections.abc import Sequence
from functools import cache, partial
from typing import Any, NamedTuple, Self

import jax
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import mlir

from bires.machine import foreign
from bires.machine.cuda import Staging
from bires.machine.foreign import TYPES, Call, Place

shape: Any = jax.ShapeDtypeStruct
FLAG = shape((), np.bool_)
"""An answer that says yes or no."""


class Line(NamedTuple):
    """A line to somebody who can be asked, as programs are given it."""

    number: Any

    def ask(self, name: str, results: Any, *arguments: Any, after: Sequence[Any] = ()) -> Any:
        """Inside a program: what the method ``name`` answers to some arrays, each time the program comes here.

        It is given NumPy's arrays, which are valid until it returns, and answers with a tree of arrays like ``results``
        (of shapes and types). Once it raises, zeros are the answer to everything.

        ``after``: arrays that the program computes before it asks, and that are not handed over. Where there is nothing
        else to hand over, a GPU need not have computed them yet: it is not waited for.
        """
        shapes, structure = jax.tree.flatten(results)
        kinds = {"results": tuple((x.shape, np.dtype(x.dtype)) for x in shapes), "given": len(arguments)}
        return jax.tree.unflatten(structure, _ask.bind(self.number, *arguments, *after, name=name, **kinds))


class Asked:
    """Somebody whom programs ask, within a ``with``: what went wrong is raised at its end, not into the program."""

    def __init__(self) -> None:
        number = next(_numbers)
        self.line = Line(np.int32(number))
        self.error: BaseException | None = None
        _asked[number] = self

    def __enter__(self) -> Self:
        """From now on an interrupt is an error like others, too: Python would raise it in the middle of a question."""
        self._handler = None
        if threading.current_thread() is threading.main_thread():
            handler = signal.getsignal(signal.SIGINT)
            if callable(handler):
                self._handler = handler
                signal.signal(signal.SIGINT, self._interrupt)
        return self

    def __exit__(self, *_: Any) -> None:
        if self._handler is not None:
            signal.signal(signal.SIGINT, self._handler)
        error, self.error = self.error, None
        if error is not None:
            raise error

    def _interrupt(self, number: int, frame: Any) -> None:
        assert self._handler is not None
        try:
            self._handler(number, frame)
        except BaseException as error:
            self.error = error


_numbers = itertools.count()
_asked: weakref.WeakValueDictionary[int, Asked] = weakref.WeakValueDictionary()


def _answer(name: str, places: Sequence[np.ndarray], number: Any, *arrays: np.ndarray) -> None:
    """Writes the answer to a question where it belongs."""
    asked = _asked.get(int(number))
    if asked is not None and asked.error is None:
        try:
            answers = jax.tree.leaves(getattr(asked, name)(*arrays))
            for place, answer in zip(places, answers, strict=True):
                place[...] = answer
            return
        except BaseException as error:
            asked.error = error
    for place in places:
        place[...] = 0


_ask: Any = Primitive("ask")
_ask.multiple_results = True


def _shapes(*_: Any, name: str, results: Any, given: int) -> list[Any]:
    return [jax.core.ShapedArray(*result) for result in results]


def _ask_python(context: Any, *operands: Any, name: str, results: Any, given: int) -> Any:
    def answer(number: np.ndarray, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
        places = tuple(np.empty(*result) for result in results)
        _answer(name, places, number, *arrays[:given])
        return places

    sides: Any = {"has_side_effect": True, "returns_token": False}
    ways = (list(operands), context.avals_in, context.avals_out)
    return mlir.emit_python_callback(context, answer, None, *ways, **sides)[0]


def _ask_foreign(platform: str, context: Any, *operands: Any, name: str, results: Any, given: int) -> Any:
    unknown = {np.dtype(x.dtype) for x in (*context.avals_in, *context.avals_out)} - {*TYPES.values()}
    if unknown:
        raise TypeError(f"{name!r} is asked with {unknown}; known: {', '.join(map(str, TYPES.values()))}")
    return jax.ffi.ffi_lowering(_registered(name, given, platform), has_side_effect=True)(context, *operands)


_ask.def_abstract_eval(_shapes)
mlir.register_lowering(_ask, _ask_python, cacheable=False)
PLATFORMS = {"cpu": "cpu", "cuda": "CUDA"}
"""Names of platforms: JAX's → XLA's."""
for _platform in PLATFORMS:
    mlir.register_lowering(_ask, partial(_ask_foreign, _platform), platform=_platform)


@cache
def _registered(name: str, given: int, platform: str) -> str:
    """The name under which XLA knows a method that is given so many arrays."""
    target = f"bires_{name}_{given}"
    serve = _serve if platform == "cpu" else _serve_cuda
    foreign.register(target, PLATFORMS[platform], partial(serve, name, given))
    return target


def _serve(name: str, given: int, call: Call) -> None:
    number, *arrays = (place.array() for place in call.arguments[: 1 + given])
    _answer(name, [place.array() for place in call.results], number, *arrays)


def _serve_cuda(name: str, given: int, call: Call) -> None:
    """The same for arrays on a GPU.

    A program is run by one thread. So who is asked without waiting is the one whom the thread has asked before.
    """
    stream, thread = call.stream, threading.get_ident()
    taken, arrays = call.arguments[: 1 + given], []
    if given or len(call.arguments) == 1:
        staging = _staging((thread, stream, name, "arguments"), taken)
        staging.fetch(taken, stream)
        number, *arrays = staging.arrays
        _speaking[thread] = int(number)
    staging = _staging((thread, stream, name, "results"), call.results)
    staging.wait()
    _answer(name, staging.arrays, _speaking[thread], *arrays)
    staging.send(call.results, stream)


_speaking: dict[int, int] = {}
"""Thread → whom its program asked last."""
_stagings: dict[Any, Staging] = {}


def _staging(what: tuple[Any, ...], places: Sequence[Place]) -> Staging:
    """The memory for some arrays of a question; a program that asks again finds it there."""
    key = (*what, *((place.shape, place.kind) for place in places))
    if key not in _stagings:
        _stagings[key] = Staging(places)
    return _stagings[key]
