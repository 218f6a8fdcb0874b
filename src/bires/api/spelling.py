"""Messages as a caller of functions reads them: `steps`, where the command line says `--steps`."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from bires.errors import UserError
from bires.settings.options import Stopped

P = ParamSpec("P")
T = TypeVar("T")

COMMAND = re.compile(r"(`(?:bires|pip|apt)[^`]*`)")
"""What is to be typed into a shell stays as it is."""
NUMBERS = re.compile(r"--([a-z][a-z-]*)((?: -?\d+(?:\.\d+)?(?:e[+-]?\d+)?)+)")
CHOSEN = "agent|algorithm|cohorts|log|model|planner|protocol|rule|study|to"
NAMES = re.compile(rf"--({CHOSEN}) (?!(?:was|were|is|are|and|or|names) )([\w:.-]*\w)")
RANGES = re.compile(r"--range (\w+) ([\d.e+-]+) ([\d.e+-]+) (log|linear)\b")
RANGE = re.compile(r"--range (?!was )(\w+)(?= was | were )")
PLACES = re.compile(r"--out (\S+)(?= \()")
SWITCHES = re.compile(r"--(keep-going|quiet|trust)\b(?! was)")
FLAGS = re.compile(r"--([a-z][a-z-]*[a-z])")
EARLIER = {("evaluate", "members"): "member", ("play", "path"): "video", ("tune", "range"): "ranges"}
"""Function and another name of an argument, an earlier one or the command line's, which is taken → its name."""


def as_typed(function: Callable[P, T]) -> Callable[P, T]:
    """The function, with arguments in its errors as they are spelled in Python; unknown ones are such errors, too."""
    signature = inspect.signature(function)

    @wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> T:
        given: Any = {EARLIER.get((function.__name__, name), name): value for name, value in kwargs.items()}
        try:
            signature.bind(*args, **given)
        except TypeError as error:
            raise refused(function.__name__, signature, args, error) from None
        try:
            return function(*args, **given)
        except (UserError, Stopped) as error:
            error.args = (in_python(str(error)),)
            raise

    return called


def refused(name: str, signature: inspect.Signature, args: tuple[Any, ...], error: TypeError) -> UserError:
    """The error for a call that a function does not take."""
    parts = [one for one in signature.parameters.values() if one.name != "self"]
    unnamed = [one.name for one in parts if one.kind is one.POSITIONAL_OR_KEYWORD]
    given = args[1:] if "self" in signature.parameters else args
    accepted = f"accepted: {', '.join(one.name for one in parts)}" if parts else "it takes no arguments"
    if len(given) <= len(unnamed):
        return UserError(f"{name}: {error}; {accepted}.")
    only = f"; only {' and '.join(unnamed)} may be" if unnamed else ""
    return UserError(f"{name}: {given[len(unnamed)]!r} was given without a name{only}; {accepted}.")


def in_python(message: str) -> str:
    """A message with `--steps 5` as `steps=5`, and `--eval-every` as `eval_every`."""
    return "".join(part if i % 2 else translated(part) for i, part in enumerate(COMMAND.split(message)))


def translated(text: str) -> str:
    text = RANGES.sub(lambda found: f'ranges={{"{found[1]}": ({found[2]}, {found[3]}, "{found[4]}")}}', text)
    text = RANGE.sub(lambda found: f"ranges[{found[1]!r}]", text).replace("--range ", "ranges ")
    text = NUMBERS.sub(lambda found: f"{argument(found[1])}={values(found[2].split())}", text)
    text = NAMES.sub(lambda found: f"{found[1]}={found[2]!r}", text)
    text = PLACES.sub(lambda found: f"out={found[1]!r}", text)
    text = SWITCHES.sub(lambda found: f"{argument(found[1])}=True", text)
    return FLAGS.sub(lambda found: argument(found[1]), text)


def argument(flag: str) -> str:
    return flag.replace("-", "_")


def values(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"({', '.join(words)})"


def folder(name: str, value: Any) -> Path:
    """An argument that names a folder, as a path."""
    if isinstance(value, str | os.PathLike) and str(value):
        return Path(value).expanduser()
    raise UserError(f"{name} was given {value!r}; accepted: the path of a folder, or a run.")
