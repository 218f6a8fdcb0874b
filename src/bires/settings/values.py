"""Values of settings, as they are typed or given in Python: of the type that a setting has, and within its bounds."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from numbers import Real
from typing import Annotated, Any, Literal, get_args, get_origin

import tyro

from bires.errors import UserError
from bires.types import Setting, accepted


def whole(text: str) -> int:
    """A whole number, which may be written 1e6."""
    number = float(text)
    if not number.is_integer():
        raise ValueError(f"{text} is not a whole number")
    return int(number)


def number_type(parse: Callable[[str], Any], metavar: str) -> Any:
    """How the command line reads a number, and shows one that was not given."""
    return tyro.constructors.PrimitiveConstructorSpec(
        nargs=1,
        metavar=metavar,
        instance_from_str=lambda words: parse(words[0]),
        is_instance=lambda value: isinstance(value, int | float),
        str_from_instance=lambda value: [str(int(value) if isinstance(value, Omitted) else value)],
    )


class Omitted(int):
    """A number that was not given; what help shows in its place."""


class OmittedValues(tuple):
    """Values that were not given; what help shows in their place."""

    __slots__ = ()


BY_AGENT, VALUES_BY_AGENT = Omitted(-1), OmittedValues()
"""Defaults of settings that depend on the agent; no configuration keeps them."""


Whole = Annotated[int, number_type(whole, "INT")]


Number = Annotated[float, number_type(float, "FLOAT")]


def flag(name: str) -> str:
    """A field as the command line spells it."""
    return "--" + name.replace("_", "-")


def is_number(word: str) -> bool:
    """Whether a word is a number."""
    try:
        float(word)
        return True
    except ValueError:
        return False


def settled_own(setting: Setting, value: Any) -> Any:
    """The same for a setting of an agent, a planner or a family, with its bounds checked."""
    if not setting.varies:
        require_one(setting.name, value)
        return bounded(setting, value)
    values = tuple(bounded(setting, one) for one in several(value))
    if not values:
        raise UserError(f"{flag(setting.name)} was given no value; give one or more.")
    return values


def require_one(name: str, value: Any) -> None:
    """Refuses several values of a setting that all members share."""
    if isinstance(value, list | tuple | range) and len(value) > 1:
        raise UserError(
            f"{flag(name)} was given {' '.join(map(str, value))}; it cannot vary within one program. Give one value; "
            "to compare several, train one run for each and see `bires report`."
        )


def plain(value: Any) -> Any:
    """A value that is an array without axes as Python's; others as they are."""
    return value.item() if getattr(value, "shape", None) == () and hasattr(value, "item") else value


def several(value: Any) -> Iterable[Any]:
    value = plain(value)
    return value if isinstance(value, Iterable) and not isinstance(value, str | Mapping) else (value,)


def bounded(setting: Setting, value: Any) -> Any:
    """One value of a setting, of its type and within its bounds."""
    kind = Literal[setting.choices] if setting.choices else setting.type
    found = proper(setting.name, value, kind)
    if isinstance(found, float) and not math.isfinite(found):
        raise UserError(f"{flag(setting.name)} was given {found}; accepted: finite numbers.")
    if isinstance(found, bool | str) or setting.low <= found <= setting.high:
        return found
    hint = f" ({setting.hint})" if setting.hint else ""
    given = f"{found:g}" if isinstance(found, float) else shown(found)
    raise UserError(f"{flag(setting.name)} was given {given}; accepted: {setting.accepted}{hint}.")


def proper(name: str, value: Any, kind: Any) -> Any:
    """One value, converted to its type; whole numbers may be written 1e6, and NumPy's and JAX's are accepted."""
    value = plain(value)
    number = isinstance(value, Real) and not isinstance(value, bool)
    try:
        if number and (kind is float or (kind is int and float(value).is_integer())):
            return kind(value)
    except OverflowError:  # a whole number beyond all floats
        raise UserError(f"{flag(name)} was given {shown(value)}; accepted: {accepted(kind)}.") from None
    if get_origin(kind) is Literal:
        if not isinstance(value, str) or value not in get_args(kind):
            raise UserError(f"{flag(name)} was given {value!r}; accepted: {', '.join(get_args(kind))}.")
        return value
    if isinstance(value, kind) and not number and isinstance(value, bool) == (kind is bool):
        return value
    if name == "task":
        place = f"{getattr(value, '__module__', '')}:{getattr(value, '__qualname__', '.')}"
        this = f" Here: {place!r}." if callable(value) and not {".", "<"} & set(place.partition(":")[2]) else ""
        if name_of := getattr(getattr(value, "spec", None), "id", None):  # an environment that Gymnasium made
            this = f" Here: {name_of!r}, whose arguments are env_kwargs."
        raise UserError(
            f"task was given {value!r}; accepted: one task, as text: a Gymnasium id, or MODULE:FUNCTION of one that "
            f"builds your environment.{this} For several tasks: bires.train_each([…])."
        )
    raise UserError(f"{flag(name)} was given {value!r}; accepted: {accepted(kind)}.")


def shown(value: Any) -> str:
    """A value in a message: a number of many digits by how many it has."""
    if isinstance(value, int) and abs(value) >= 10**20:
        return f"a number of {int(math.log10(abs(value))) + 1} digits"
    return str(value)
