"""Many small arrays as one per type: what a call to an accelerator costs grows with the number of its buffers."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


@dataclass(frozen=True, eq=False)
class Template:
    """What a packed tree looks like unpacked. There is one of each kind, so compiled functions are told by it."""

    structure: Any
    leaves: tuple[tuple[tuple[int, ...], str], ...]
    """Shape of one member's part, and type."""


@cache
def _template(structure: Any, leaves: tuple[tuple[tuple[int, ...], str], ...]) -> Template:
    return Template(structure, leaves)


def template(tree: Any) -> Template:
    """Of a tree whose arrays all have the members in front."""
    leaves, structure = jax.tree.flatten(tree)
    return _template(structure, tuple((leaf.shape[1:], leaf.dtype.name) for leaf in leaves))


def pack(tree: Any) -> dict[str, jax.Array]:
    """Type → (members, everything of that type)."""
    parts = defaultdict(list)
    for leaf in jax.tree.leaves(tree):
        parts[leaf.dtype.name].append(leaf.reshape(len(leaf), int(np.prod(leaf.shape[1:]))))
    return {name: jnp.concatenate(arrays, axis=1) for name, arrays in parts.items()}


def unpack(like: Template, arrays: dict[str, jax.Array]) -> Any:
    """The tree that was packed."""
    leaves, begin = [], dict.fromkeys(arrays, 0)
    for shape, name in like.leaves:
        end = begin[name] + int(np.prod(shape))
        part = arrays[name][:, begin[name] : end]
        leaves.append(part.reshape(len(part), *shape))
        begin[name] = end
    return jax.tree.unflatten(like.structure, leaves)
