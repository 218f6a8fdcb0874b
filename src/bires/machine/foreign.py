"""Foreign functions of XLA's, written in Python: its `xla/ffi/api/c_api.h`, which comes with jaxlib, in ctypes."""

from __future__ import annotations

import ctypes
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

VERSION = (0, 3)
"""The version of XLA's interface that this module was written for; later minor versions take its functions, too."""
HEADER = "xla/ffi/api/c_api.h"
WORD, ADDRESS = ctypes.c_size_t, ctypes.c_void_p
TYPES = {1: np.dtype(bool), 4: np.dtype(np.int32), 6: np.dtype(np.uint8), 8: np.dtype(np.uint32), 11: np.dtype("f4")}
"""XLA's number of a type → NumPy's type."""
METADATA = 1
"""XLA's number of a call that only asks for the function's version."""
INTERNAL = 13
"""XLA's number of an error that is not the caller's fault."""


def installed_version() -> tuple[int, int] | None:
    """The version of the interface that the installed jaxlib has; None: it does not say."""
    try:
        text = (Path(jax.ffi.include_dir()) / HEADER).read_text()
    except (OSError, AttributeError):
        return None
    found = dict(re.findall(r"#define XLA_FFI_API_(MAJOR|MINOR) (\d+)", text))
    return (int(found["MAJOR"]), int(found["MINOR"])) if len(found) == 2 else None


def fits(version: tuple[int, int] | None) -> bool:
    """Whether functions written for `VERSION` work with a version of the interface."""
    return version is not None and version[0] == VERSION[0] and version[1] >= VERSION[1]


class Place(NamedTuple):
    """Where an array lies in the memory of a device."""

    address: int
    shape: tuple[int, ...]
    kind: np.dtype[Any]

    @property
    def size(self) -> int:
        return math.prod(self.shape) * self.kind.itemsize

    def array(self) -> np.ndarray:
        """The array itself, if the memory is this machine's."""
        if not self.size:
            return np.empty(self.shape, self.kind)
        memory: Any = (ctypes.c_char * self.size).from_address(self.address)
        return np.ndarray(self.shape, self.kind, memory)


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

    def places(self) -> list[Place]:
        found = [self.buffers[i][0] for i in range(self.count)]
        return [Place(x.data or 0, tuple(x.shape[: x.rank]), TYPES[x.type]) for x in found]


class _Version(ctypes.Structure):
    _fields_ = (("size", WORD), ("extension", ADDRESS), ("major", ctypes.c_int), ("minor", ctypes.c_int))


class _Metadata(ctypes.Structure):
    _fields_ = (("size", WORD), ("version", _Version), ("traits", ctypes.c_uint32))


class _Extension(ctypes.Structure):
    _fields_ = (("size", WORD), ("type", ctypes.c_int), ("next", ADDRESS), ("metadata", ctypes.POINTER(_Metadata)))


class _Ask(ctypes.Structure):
    """What several of XLA's functions are given: a context, and room for what they find."""

    _fields_ = (("size", WORD), ("extension", ADDRESS), ("context", ADDRESS), ("found", ADDRESS))


class _Mistake(ctypes.Structure):
    _fields_ = (("size", WORD), ("extension", ADDRESS), ("message", ctypes.c_char_p), ("code", ctypes.c_int))


class _Api(ctypes.Structure):
    """XLA's own functions; of those after the last one here none is called."""

    _fields_ = (
        ("size", WORD),
        ("extension", ADDRESS),
        ("version", _Version),
        ("internal", ADDRESS),
        ("create_error", ctypes.CFUNCTYPE(ADDRESS, ctypes.POINTER(_Mistake))),
        ("error_message", ADDRESS),
        ("destroy_error", ADDRESS),
        ("register", ADDRESS),
        ("get_stream", ctypes.CFUNCTYPE(ADDRESS, ctypes.POINTER(_Ask))),
    )


class _Frame(ctypes.Structure):
    _fields_ = (
        ("size", WORD),
        ("extension", ctypes.POINTER(_Extension)),
        ("api", ctypes.POINTER(_Api)),
        ("context", ADDRESS),
        ("stage", ctypes.c_int),
        ("arguments", _Buffers),
        ("results", _Buffers),
    )


_Function = ctypes.CFUNCTYPE(ADDRESS, ctypes.POINTER(_Frame))


class Call(NamedTuple):
    """A call of a foreign function."""

    frame: Any
    arguments: list[Place]
    results: list[Place]

    @property
    def stream(self) -> int:
        """The stream of the device on which the call is made: CUDA's, for example."""
        ask = _Ask(ctypes.sizeof(_Ask), None, self.frame.context, None)
        if self.frame.api[0].get_stream(ctypes.byref(ask)):
            raise RuntimeError("XLA does not say on which stream it computes")
        return int(ask.found or 0)


def register(name: str, platform: str, serve: Callable[[Call], None]) -> None:
    """Makes a function known to XLA while the process lives. An exception in it ends the program that called it."""

    def called(pointer: Any) -> Any:
        frame = pointer[0]
        if frame.extension and frame.extension[0].type == METADATA:  # XLA asks for the version first
            version = frame.extension[0].metadata[0].version
            version.major, version.minor = VERSION
            return None
        try:
            serve(Call(frame, frame.arguments.places(), frame.results.places()))
        except BaseException as error:
            message = f"{type(error).__name__}: {error}".encode()
            return frame.api[0].create_error(ctypes.byref(_Mistake(ctypes.sizeof(_Mistake), None, message, INTERNAL)))
        return None

    function = _Function(called)
    _functions.append(function)
    foreign: Any = jax.ffi
    foreign.register_ffi_target(name, foreign.pycapsule(function), platform=platform)


_functions: list[Any] = []
