"""The table of faults: each is a function of a run under way, with what is expected of that run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


class Wrong(Exception):
    """A run did not do what is expected of it."""


class Missed(Exception):
    """The fault did not find its way in: the run had ended, or this machine does not allow it."""


class Impossible(Missed):
    """It never will, here: the reason is in words."""


@dataclass(frozen=True)
class Kind:
    """A kind of fault."""

    name: str
    expected: str
    """Of the run."""
    throw: Callable[[Any], None]
    """Throws it at a `Shaken` run, a moment after a checkpoint. The run may have ended when it returns, or not."""
    needs: str = ""
    """A part that not every run has: "worker" or "cohort"; "world": a run of its own, in a world that misbehaves."""


KINDS: dict[str, Kind] = {}


def kind(name: str, expected: str, needs: str = "") -> Callable[[Callable[[Any], None]], Callable[[Any], None]]:
    """Puts a function into the table."""

    def put(throw: Callable[[Any], None]) -> Callable[[Any], None]:
        KINDS[name] = Kind(name, expected, throw, needs)
        return throw

    return put
