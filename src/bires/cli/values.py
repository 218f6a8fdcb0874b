"""The values on a command line, checked before the parser reads them: its own messages show how it works inside."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import is_dataclass
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

import tyro

from bires.errors import UserError
from bires.settings.values import flag, is_number
from bires.types import accepted

MARKER: Any = tyro.conf.Positional
POSITIONAL = get_args(MARKER[Any])[1]
"""What marks an argument without a flag."""


class Argument(NamedTuple):
    """What a command takes."""

    name: str
    kind: Any
    """The type of one value; for a choice its `Literal`."""
    several: bool = False
    """Whether it takes more values than one."""
    positional: bool = False
    """Whether it is typed without a flag."""


def arguments_of(record: type) -> Iterator[Argument]:
    """The arguments of a command, also those of the records in it."""
    for name, hint in get_type_hints(record, include_extras=True).items():
        if isinstance(hint, type) and is_dataclass(hint):
            yield from arguments_of(hint)
        else:
            kind = bare(hint)
            several = get_origin(kind) is tuple
            yield Argument(name, bare(get_args(kind)[0]) if several else kind, several, POSITIONAL in get_args(hint))


def bare(hint: Any) -> Any:
    """A type without its annotations, and without None."""
    if get_origin(hint) is Annotated:
        return bare(get_args(hint)[0])
    if type(None) in get_args(hint):
        return bare(next(kind for kind in get_args(hint) if kind is not type(None)))
    return hint


def refuse_wrong_values(record: type, words: Sequence[str]) -> None:
    """Refuses flags without a value, and values that are not of their flag's type or not among its choices."""
    known = {argument.name: argument for argument in arguments_of(record)}
    for argument in known.values():
        if argument.positional and words[1:2] and not words[1].startswith("-"):
            refuse_wrong(f"`bires {words[0]}`", argument, words[1])
    for name, values in typed(words):
        found = known.get(name)
        if found is None or found.positional or found.kind is bool:
            continue
        if not values:
            raise UserError(f"{flag(name)} was given no value; give one{' or more' if found.several else ''}.")
        for value in values if found.several else values[:1]:
            refuse_wrong(flag(name), found, value)


def typed(words: Sequence[str]) -> list[tuple[str, list[str]]]:
    """The flags of a command line, by the names of their fields, each with what is typed after it."""
    found: list[tuple[str, list[str]]] = []
    for word in words:
        if word.startswith("--"):
            name, _, value = word[2:].partition("=")
            found.append((name.replace("-", "_"), [value] if value else []))
        elif found:
            found[-1][1].append(word)
    return found


def refuse_wrong(what: str, argument: Argument, value: str) -> None:
    kind, more = argument.kind, ""
    if get_origin(kind) is Literal:
        fits, words = value in get_args(kind), ", ".join(get_args(kind))
    elif kind in (int, float):
        fits, words = is_number(value) and (kind is float or float(value).is_integer()), accepted(kind)
        more = " Separate several values by spaces." if argument.several and ("," in value or "[" in value) else ""
    else:
        return
    if not fits:
        raise UserError(f"{what} was given {value!r}; accepted: {words}.{more}")
