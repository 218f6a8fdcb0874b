"""Compiled programs that ask Python in between, on any device.

Whom they ask is a number, given to the program when it is called; so it is compiled once for all that can be asked, and
the compilation cache can keep it. `jax.experimental.io_callback` is another way. It writes Python's function into the
program, which therefore is never cached; it puts every argument on a CPU device first (an agent beside an H200 made
1 265 steps/s with it, 1 500 to 2 250 without); and two programs of one process that used it hung.

On a CPU a question is a foreign function of XLA's (its `xla/ffi/api/c_api.h`, which comes with jaxlib, describes the
structures below); elsewhere it is JAX's own call of Python with NumPy's arrays.
"""

from __future__ import annotations

import ctypes
import itertools
import math
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


class Line(NamedTuple):
    """A line to somebody who can be asked, as programs are given it."""

    number: Any

    def ask(self, name: str, results: Any, *arguments: Any) -> Any:
        """Inside a program: what the method ``name`` answers to some arrays, each time the program comes here.

        It is given NumPy's arrays, which are valid until it returns, and answers with a tree of arrays like ``results``
        (of shapes and types). Once it raises, zeros are the answer to everything.
        """
        shapes, structure = jax.tree.flatten(results)
        taken = tuple((x.shape, np.dtype(x.dtype)) for x in shapes)
        return jax.tree.unflatten(structure, _ask.bind(self.number, *arguments, name=name, results=taken))


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


def _shapes(*_: Any, name: str, results: Any) -> list[Any]:
    return [jax.core.ShapedArray(*result) for result in results]


def _ask_python(context: Any, *operands: Any, name: str, results: Any) -> Any:
    def answer(*arrays: np.ndarray) -> tuple[np.ndarray, ...]:
        places = tuple(np.empty(*result) for result in results)
        _answer(name, places, *arrays)
        return places

    sides: Any = {"has_side_effect": True, "returns_token": False}
    ways = (list(operands), context.avals_in, context.avals_out)
    return mlir.emit_python_callback(context, answer, None, *ways, **sides)[0]


def _ask_foreign(context: Any, *operands: Any, name: str, results: Any) -> Any:
    unknown = {np.dtype(x.dtype) for x in (*context.avals_in, *context.avals_out)} - {*TYPES.values()}
    if unknown:
        raise TypeError(f"{name!r} is asked with {unknown}; known: {', '.join(map(str, TYPES.values()))}")
    return jax.ffi.ffi_lowering(_registered(name), has_side_effect=True)(context, *operands)


_ask.def_abstract_eval(_shapes)
mlir.register_lowering(_ask, _ask_python, cacheable=False)
mlir.register_lowering(_ask, _ask_foreign, platform="cpu")

VERSION = (0, 3)
"""Of XLA's foreign functions, as written down here; XLA takes functions of earlier versions, too."""
WORD, ADDRESS = ctypes.c_size_t, ctypes.c_void_p
TYPES = {1: np.dtype(bool), 4: np.dtype(np.int32), 6: np.dtype(np.uint8), 8: np.dtype(np.uint32), 11: np.dtype("f4")}
"""XLA's number of a type → NumPy's type."""


class _Buffer(ctypes.Structure):
    _fields_ = (
        ("size", WORD),
        ("extension", ADDRESS),
        ("type", ctypes.c_int),
        ("data", ADDRESS),
        ("rank", ctypes.c_int64),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
    )


class _Buffers(ctypes.Structure):
    _fields_ = (
        ("size", WORD),
        ("extension", ADDRESS),
        ("count", ctypes.c_int64),
        ("types", ADDRESS),
        ("buffers", ctypes.POINTER(ctypes.POINTER(_Buffer))),
    )

    def arrays(self) -> list[np.ndarray]:
        return [_array(self.buffers[i][0]) for i in range(self.count)]


class _Version(ctypes.Structure):
    _fields_ = (("size", WORD), ("extension", ADDRESS), ("major", ctypes.c_int), ("minor", ctypes.c_int))


class _Metadata(ctypes.Structure):
    _fields_ = (("size", WORD), ("version", _Version), ("traits", ctypes.c_uint32))


class _Extension(ctypes.Structure):
    _fields_ = (("size", WORD), ("type", ctypes.c_int), ("next", ADDRESS), ("metadata", ctypes.POINTER(_Metadata)))


class _Frame(ctypes.Structure):
    _fields_ = (
        ("size", WORD),
        ("extension", ctypes.POINTER(_Extension)),
        ("api", ADDRESS),
        ("context", ADDRESS),
        ("stage", ctypes.c_int),
        ("arguments", _Buffers),
        ("results", _Buffers),
    )


_Function = ctypes.CFUNCTYPE(ADDRESS, ctypes.POINTER(_Frame))


def _array(buffer: Any) -> np.ndarray:
    shape, kind = tuple(buffer.shape[: buffer.rank]), TYPES[buffer.type]
    size = math.prod(shape) * kind.itemsize
    return np.ndarray(shape, kind, (ctypes.c_char * size).from_address(buffer.data)) if size else np.empty(shape, kind)


def _serve(name: str, pointer: Any) -> None:
    """A call from XLA: it asks for the version first, then for an answer."""
    frame = pointer[0]
    if frame.extension:
        version = frame.extension[0].metadata[0].version
        version.major, version.minor = VERSION
        return
    _answer(name, frame.results.arrays(), *frame.arguments.arrays())


@cache
def _registered(name: str) -> str:
    """The name under which XLA on a CPU knows a method."""
    target = f"bires_{name}"
    function = _Function(partial(_serve, name))
    _functions.append(function)  # as long as the process lives
    foreign: Any = jax.ffi
    foreign.register_ffi_target(target, foreign.pycapsule(function), platform="cpu")
    return target


_functions: list[Any] = []
