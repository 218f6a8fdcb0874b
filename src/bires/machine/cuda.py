"""Copies between a GPU and Python in the middle of a program, by CUDA's driver."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from bires.machine.foreign import ADDRESS, WORD, Place

ALIGNMENT = 64
NO_TIMES = 2
"""The flag of an event that records no time."""
FUNCTIONS = {
    "cuMemHostAlloc": (ctypes.POINTER(ADDRESS), WORD, ctypes.c_uint),
    "cuEventCreate": (ctypes.POINTER(ADDRESS), ctypes.c_uint),
    "cuEventRecord": (ADDRESS, ADDRESS),
    "cuEventSynchronize": (ADDRESS,),
    "cuStreamSynchronize": (ADDRESS,),
    "cuMemcpyDtoHAsync_v2": (ADDRESS, ctypes.c_uint64, WORD, ADDRESS),
    "cuMemcpyHtoDAsync_v2": (ctypes.c_uint64, ADDRESS, WORD, ADDRESS),
}


@cache
def driver() -> Any:
    """The driver's library; its functions raise what they return."""
    library = ctypes.CDLL("libcuda.so.1")

    def check(code: int, function: Any, _: Any) -> None:
        if code:
            raise RuntimeError(f"{function.__name__} of CUDA's driver says {code}")

    for name, types in FUNCTIONS.items():
        function = getattr(library, name)
        function.argtypes, function.errcheck = types, check
    return library


class Staging:
    """Page-locked memory for some arrays on their way from or to a device."""

    def __init__(self, places: Sequence[Place]) -> None:
        self._cuda = driver()
        starts = np.cumsum([0, *(-(-place.size // ALIGNMENT) * ALIGNMENT for place in places)]).tolist()
        memory, self._event = ADDRESS(), ADDRESS()
        self._cuda.cuMemHostAlloc(ctypes.byref(memory), max(starts[-1], 1), 0)
        self._cuda.cuEventCreate(ctypes.byref(self._event), NO_TIMES)
        here = [Place((memory.value or 0) + start, x.shape, x.kind) for start, x in zip(starts, places, strict=False)]
        self.arrays = [place.array() for place in here]
        self._parts = [(i, place.address, place.size) for i, place in enumerate(here) if place.size]

    def fetch(self, places: Sequence[Place], stream: int) -> None:
        """Copies arrays from the device; returns when they are here."""
        for i, here, size in self._parts:
            self._cuda.cuMemcpyDtoHAsync_v2(here, places[i].address, size, stream)
        self._cuda.cuStreamSynchronize(stream)

    def send(self, places: Sequence[Place], stream: int) -> None:
        """Copies the arrays to the device before whatever it does next on the stream; does not wait for that."""
        for i, here, size in self._parts:
            self._cuda.cuMemcpyHtoDAsync_v2(places[i].address, here, size, stream)
        self._cuda.cuEventRecord(self._event, stream)

    def wait(self) -> None:
        """Returns when the arrays that were sent have left, so that others can be written here."""
        self._cuda.cuEventSynchronize(self._event)
