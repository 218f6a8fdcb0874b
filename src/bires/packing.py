"""Many small arrays as one per type: what a call to an accelerator costs grows with the number of its buffers.

Large arrays stay as they are: copying them would cost more than passing them.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

LARGE = 2**20
"""Bytes from which on an array is left alone."""


class Parts(NamedTuple):
    """A packed tree."""

    small: dict[str, jax.Array]
    """Type → (members, everything small of that type)."""
    large: list[jax.Array]


class Leaf(NamedTuple):
    """What one array of a packed tree looks like unpacked."""

    shape: tuple[int, ...]
    """Of one member's part."""
    dtype: str
    large: bool


@dataclass(frozen=True, eq=False)
class Template:
    """What a packed tree looks like unpacked. There is one of each kind, so compiled functions are told by it."""

    structure: Any
    leaves: tuple[Leaf, ...]


@cache
def _template(structure: Any, leaves: tuple[Leaf, ...]) -> Template:
    return Template(structure, leaves)


def template(tree: Any) -> Template:
    """Of a tree whose arrays all have the members in front."""
    leaves, structure = jax.tree.flatten(tree)
    return _template(structure, tuple(Leaf(x.shape[1:], x.dtype.name, is_large(x)) for x in leaves))


def is_large(array: Any) -> bool:
    return bool(np.prod(array.shape) * array.dtype.itemsize >= LARGE)


def pack(like: Template, tree: Any) -> Parts:
    """The tree in few arrays."""
    small, large = defaultdict(list), []
    for leaf, array in zip(like.leaves, jax.tree.leaves(tree), strict=True):
        if leaf.large:
            large.append(array)
        else:
            small[leaf.dtype].append(array.reshape(len(array), int(np.prod(leaf.shape))))
    return Parts({name: jnp.concatenate(arrays, axis=1) for name, arrays in small.items()}, large)


def unpack(like: Template, parts: Parts) -> Any:
    """The tree that was packed."""
    leaves, large, begin = [], iter(parts.large), dict.fromkeys(parts.small, 0)
    for leaf in like.leaves:
        if leaf.large:
            leaves.append(next(large))
            continue
        end = begin[leaf.dtype] + int(np.prod(leaf.shape))
        part = parts.small[leaf.dtype][:, begin[leaf.dtype] : end]
        leaves.append(part.reshape(len(part), *leaf.shape))
        begin[leaf.dtype] = end
    return jax.tree.unflatten(like.structure, leaves)
