"""What a search for settings adds to a configuration: values drawn from ranges, and when the worse trials stop."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from bires.errors import UserError

EXAMPLE = "--range critic_lr 1e-4 1e-2 log"


@dataclass(frozen=True)
class Tuning:
    """A search: its trials are the combinations of the grid with each draw."""

    draws: Mapping[str, tuple[Any, ...]]
    """Setting → its value in each draw; nothing where only lists are searched."""
    rungs: tuple[int, ...]
    """Steps after whose evaluation the worse half of the trials is stopped."""

    @property
    def count(self) -> int:
        """How many draws there are."""
        return len(next(iter(self.draws.values()), (None,)))

    def values(self, number: int) -> dict[str, tuple[Any, ...]]:
        """Those of one draw, each alone in its tuple."""
        return {name: (values[number],) for name, values in self.draws.items()}


def to_json(tuning: Tuning) -> dict[str, Any]:
    """A search as plain data."""
    return {"draws": {name: list(values) for name, values in tuning.draws.items()}, "rungs": list(tuning.rungs)}


def from_json(data: Mapping[str, Any] | None) -> Tuning | None:
    """The search that a manifest keeps."""
    if data is None:
        return None
    return Tuning({name: tuple(values) for name, values in data["draws"].items()}, tuple(data["rungs"]))


class Range(NamedTuple):
    """Numbers from ``low`` to ``high``, drawn evenly, or evenly by their logarithm."""

    low: float
    high: float
    log: bool = False

    def at(self, share: float) -> float:
        """The number at a share of the way from low to high, with four digits behind those that both ends share."""
        width = self.high - self.low
        shared = max(0, math.floor(math.log10(max(abs(self.low), abs(self.high)) / width)))
        found = self.low * (self.high / self.low) ** share if self.log else self.low + width * share
        return float(np.clip(float(f"{found:.{4 + shared}g}"), self.low, self.high))


def range_of(name: str, words: Sequence[Any]) -> Range:
    """LOW, HIGH and perhaps `log` or `linear`, as typed or as given in Python."""
    given = " ".join(map(str, words))
    wrong = f"--range {name} was given {given or 'nothing'}; accepted: LOW HIGH, then log or nothing: {EXAMPLE}."
    if len(words) not in (2, 3) or (len(words) == 3 and words[2] not in ("log", "linear")):
        raise UserError(wrong)
    try:
        low, high = float(words[0]), float(words[1])
    except (TypeError, ValueError):
        raise UserError(wrong) from None
    log = len(words) == 3 and words[2] == "log"
    if not (math.isfinite(high - low) and low < high):
        raise UserError(f"--range {name} was given {low:g} to {high:g}; accepted: finite numbers, the lower first.")
    if log and low <= 0:
        raise UserError(f"--range {name} was given {low:g} to {high:g} log; accepted for log: numbers above 0.")
    return Range(low, high, log)


def ranges_of(given: Mapping[str, Sequence[Any]] | Sequence[Sequence[str]]) -> dict[str, Range]:
    """Ranges by the setting's name: of a mapping, or of words such as critic_lr 1e-4 1e-2 log."""
    rows = [(name, words) for name, words in given.items()] if isinstance(given, Mapping) else split(given)
    found: dict[str, Range] = {}
    for name, words in rows:
        if name in found:
            raise UserError(f"--range {name} was given twice; give one range for each setting.")
        if not isinstance(name, str):
            raise UserError(f"--range was given {name!r}; accepted: the name of a setting, such as {EXAMPLE}.")
        found[name] = range_of(
            name, tuple(words) if isinstance(words, Iterable) and not isinstance(words, str) else (words,)
        )
    return found


def split(given: Sequence[Sequence[str]]) -> list[tuple[str, Sequence[str]]]:
    shape = f"accepted: SETTING LOW HIGH [log], such as {EXAMPLE}."
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise UserError(f"--range was given {given!r}; {shape}")
    if not all(given):
        raise UserError(f"--range was given nothing; {shape}")
    for words in given:
        if isinstance(words, str) or not isinstance(words, Sequence) or not isinstance(words[0], str):
            raise UserError(f"--range was given {words!r}; {shape}")
    return [(words[0].lstrip("-").replace("-", "_"), words[1:]) for words in given]


def draw(ranges: Mapping[str, Range], whole: set[str], count: int, seed: int) -> dict[str, tuple[Any, ...]]:
    """Points of a scrambled Sobol sequence, which fill the ranges more evenly than independent draws.

    ``whole``: settings that are whole numbers.
    """
    if not ranges:
        return {}
    from scipy.stats import qmc

    sequence = qmc.Sobol(len(ranges), scramble=True, rng=np.random.default_rng(seed))
    points = sequence.random_base2(math.ceil(math.log2(count)) if count > 1 else 0)[:count]
    found: dict[str, tuple[Any, ...]] = {}
    for (name, one), shares in zip(ranges.items(), points.T, strict=True):
        values = tuple(one.at(float(share)) for share in shares)
        found[name] = tuple(map(round, values)) if name in whole else values
    return found


def rungs(steps: int, warmup: int, every: int, halvings: int) -> tuple[int, ...]:
    """steps / 2ᵏ, …, steps / 4, steps / 2, each at the next evaluation; those in the warm-up and at the end are left
    out."""
    useful = min(halvings, steps.bit_length())  # beyond that the first evaluation comes again and again
    found = {math.ceil(steps / 2**k / every) * every for k in range(1, useful + 1)}
    return tuple(sorted(step for step in found if warmup < step < steps))
