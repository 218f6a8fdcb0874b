"""Arguments of an environment's constructor: what JSON can hold, so that a manifest keeps them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np
import tyro

from bires.errors import UserError


def number(value: Any) -> Any:
    """A number of NumPy's as Python's."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")


def arguments(given: Any) -> dict[str, Any]:
    """Arguments of an environment, as JSON keeps them; or an error."""
    try:
        kept = (
            json.loads(given)
            if isinstance(given, str)
            else json.loads(json.dumps(given, allow_nan=False, default=number))
        )
    except (TypeError, ValueError) as error:
        raise UserError(
            f"--env-kwargs was given {given!r}, which JSON cannot hold ({error}). For other values, name the task "
            "MODULE:FUNCTION, with a function of yours that builds the environment."
        ) from error
    if not isinstance(kept, dict):
        raise UserError(f"--env-kwargs was given {given!r}; accepted: names and values: '{{\"gravity\": 9.8}}'.")
    if "render_mode" in kept:
        raise UserError("--env-kwargs was given render_mode, which `bires play` chooses. Leave it out.")
    return kept


Arguments = Annotated[
    Mapping[str, Any],
    tyro.constructors.PrimitiveConstructorSpec(
        nargs=1,
        metavar="JSON",
        instance_from_str=lambda words: arguments(words[0]),
        is_instance=lambda value: isinstance(value, Mapping),
        str_from_instance=lambda value: [json.dumps(value)],
    ),
]
