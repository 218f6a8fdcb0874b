"""Functions of the user's own that are called after every evaluation, and may end members early."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from bires.errors import UserError, unknown
from bires.machine.modules import import_users
from bires.runs.run import Run
from bires.settings.grid import Member, numbered

ACCEPTED = "None (go on), False (stop the run), or the numbers of the members to stop, such as [0, 3]"


@dataclass(frozen=True)
class Evaluation:
    """What a callback gets: one evaluation of the members that are still trained."""

    step: int
    """The step of this evaluation."""
    steps: int
    """The last step of the run."""
    members: Mapping[int, Member]
    """Those that were evaluated, by number: their algorithm, η, seed …"""
    returns: Mapping[int, float]
    """Member → mean return of this evaluation."""
    metrics: Mapping[int, Mapping[str, float]]
    """Member → its row of evaluations.csv: return_std, length_mean, q_mean, bellman_error …"""
    run: Run
    """The run folder so far, with this evaluation: `evaluation.run.evaluations` is the whole curve."""


Callback = Callable[[Evaluation], Any]
"""Returns None or True to go on, False to stop the run, or the numbers of the members to stop."""


def load_callback(name: str) -> Callback:
    """The function MODULE:FUNCTION; what it raises is an error of the user's."""
    module, _, short = name.rpartition(":")
    if not module:
        raise UserError(f"--callback was given {name!r}; accepted: MODULE:FUNCTION, such as my_callbacks:{name}.")
    found = vars(import_users(module, "--callback"))
    if not callable(found.get(short)):
        known = [key for key, value in found.items() if callable(value) and not key.startswith("_")]
        raise unknown("callback", name, [f"{module}:{key}" for key in known], "Give MODULE:FUNCTION.")

    def called(evaluation: Evaluation) -> Any:
        try:
            return found[short](evaluation)
        except Exception as error:
            raise UserError(
                f"The callback {name} raised at step {evaluation.step}; a run that has a checkpoint can be continued "
                f"from there:\n{traceback.format_exc()}"
            ) from error

    called.__module__, called.__qualname__ = module, short
    return called


def name_of(callback: Callback) -> str:
    """What a manifest calls a callback."""
    kind = callback if hasattr(callback, "__qualname__") else type(callback)
    return f"{kind.__module__}:{kind.__qualname__}"


def to_stop(callback: Callback, evaluation: Evaluation, count: int) -> list[int]:
    """Asks a callback which of the evaluated members to stop, of ``count`` in the run."""
    answer = callback(evaluation)
    answer = bool(answer) if isinstance(answer, np.bool_) else answer
    if answer is None or answer is True:
        return []
    if answer is False:
        return sorted(evaluation.members)
    numbers = list(answer) if isinstance(answer, Iterable) and not isinstance(answer, str | bytes) else [answer]
    if not all(isinstance(number, int | np.integer) and not isinstance(number, bool) for number in numbers):
        raise UserError(f"The callback returned {answer!r}; accepted: {ACCEPTED}.")
    chosen = {int(number) for number in numbers}
    if strange := chosen - set(range(count)):
        raise UserError(f"The callback returned member {min(strange)}; the run has {numbered(count)}.")
    return sorted(chosen & evaluation.members.keys())
