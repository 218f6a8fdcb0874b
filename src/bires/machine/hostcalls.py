"""Compiled programs that call Python while they run, on any device.

A program is given the handle of a host: an object whose methods it may call. The handle is a number, given to the
program when it is called; so a program is compiled once for all hosts, and the compilation cache can keep it.

On a CPU and on NVIDIA's GPUs a call is a foreign function of XLA's (see `bires.machine.foreign`). Elsewhere, with
another version of XLA's interface, or with `BIRES_HOST_CALLS=jax`, it is JAX's own callback: the same results, slower.
JAX's callback writes Python's function into the program, which therefore is never cached, and copies every argument to
a CPU device first (an agent beside an H200 made 1 265 steps/s with it, 1 500 to 2 250 without).
"""

from __future__ import annotations

import itertools
import os
import signal
import threading
import weakref
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any, Concatenate, Generic, NamedTuple, Self, TypeVar

import jax
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import mlir

from bires.errors import UserError
from bires.machine import foreign
from bires.machine.cuda import Staging
from bires.machine.foreign import TYPES, Call, Place

shape: Any = jax.ShapeDtypeStruct
FLAG = shape((), np.bool_)
"""An answer that says yes or no."""
SWITCH = "BIRES_HOST_CALLS"
"""The environment variable that chooses how programs call Python."""
H = TypeVar("H", bound="Host", covariant=True)


class HostHandle(NamedTuple, Generic[H]):
    """A host as programs are given it."""

    number: Any

    def ask(
        self, method: Callable[Concatenate[H, ...], Any], results: Any, *arguments: Any, after: Sequence[Any] = ()
    ) -> Any:
        """Inside a program: what a method of the host answers to some arrays, each time the program comes here.

        The method, such as ``EnvironmentHost.step``, is given NumPy's arrays, which are valid until it returns. It
        answers with a tree of arrays like ``results`` (of shapes and types). Once it raises, zeros are the answer to
        everything.

        ``after``: arrays that the program computes before it asks, and that are not handed over. Where there is nothing
        else to hand over, a GPU need not have computed them yet: it is not waited for.
        """
        shapes, structure = jax.tree.flatten(results)
        kinds = {"results": tuple((x.shape, np.dtype(x.dtype)) for x in shapes), "given": len(arguments)}
        answers = _ask.bind(self.number, *arguments, *after, name=method.__name__, **kinds)
        return jax.tree.unflatten(structure, answers)


class Host:
    """An object that programs call, within a ``with``: an error is raised at its end, not into the program."""

    def __init__(self) -> None:
        number = next(_numbers)
        self.handle: HostHandle[Self] = HostHandle(np.int32(number))
        self.error: BaseException | None = None
        _hosts[number] = self

    def __enter__(self) -> Self:
        """From now on an interrupt is an error like others, too: Python would raise it in the middle of a call."""
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
_hosts: weakref.WeakValueDictionary[int, Host] = weakref.WeakValueDictionary()


def _answer(name: str, places: Sequence[np.ndarray], number: Any, *arrays: np.ndarray) -> None:
    """Writes the answer to a call where it belongs."""
    host = _hosts.get(int(number))
    if host is not None and host.error is None:
        try:
            answers = jax.tree.leaves(getattr(host, name)(*arrays))
            for place, answer in zip(places, answers, strict=True):
                place[...] = answer
            return
        except BaseException as error:
            host.error = error
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


def wanted(asked: str) -> bool:
    """Whether foreign functions are used: unless the user switched them off, or they were written for another XLA."""
    if asked not in ("", "xla", "jax"):
        raise UserError(f"{SWITCH} is set to {asked!r}; accepted: xla (foreign functions), jax (JAX's own callback).")
    return asked != "jax" and foreign.fits(foreign.installed_version())


def use_foreign(use: bool) -> None:
    """How programs that are compiled from now on call Python."""
    for platform in PLATFORMS:
        lowering = partial(_ask_foreign, platform) if use else _ask_python
        mlir.register_lowering(_ask, lowering, platform=platform, cacheable=use)


use_foreign(wanted(os.environ.get(SWITCH, "")))


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

    A program is run by one thread. So a call without waiting is for the host that the thread has called before.
    """
    stream, thread = call.stream, threading.get_ident()
    taken, arrays = call.arguments[: 1 + given], []
    if given or len(call.arguments) == 1:
        staging = _staging((thread, stream, name, "arguments"), taken)
        staging.fetch(taken, stream)
        number, *arrays = staging.arrays
        _called[thread] = int(number)
    staging = _staging((thread, stream, name, "results"), call.results)
    staging.wait()
    _answer(name, staging.arrays, _called[thread], *arrays)
    staging.send(call.results, stream)


_called: dict[int, int] = {}
"""Thread → the host that its program called last."""
_stagings: dict[Any, Staging] = {}


def _staging(what: tuple[Any, ...], places: Sequence[Place]) -> Staging:
    """The memory for some arrays of a call; a program that calls again finds it there."""
    key = (*what, *((place.shape, place.kind) for place in places))
    if key not in _stagings:
        _stagings[key] = Staging(places)
    return _stagings[key]
