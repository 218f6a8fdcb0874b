"""Trees of arrays as checkpoints hold them: leaves by their path, with the members in front."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from bires.population.program import Program, member_shapes
from bires.runs.checkpoint import Checkpoint, CorruptCheckpoint


def flatten(state: Any) -> dict[str, Any]:
    """Leaves by their path."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(state)
    return {jax.tree_util.keystr(path, simple=True, separator="."): leaf for path, leaf in leaves}


def unflatten(template: Any, arrays: dict[str, np.ndarray], members: np.ndarray) -> Any:
    """The tree with these leaves, for some members; a leaf of another shape or type is refused."""
    paths, structure = jax.tree_util.tree_flatten_with_path(template)
    leaves = []
    for path, expected in paths:
        name = jax.tree_util.keystr(path, simple=True, separator=".")
        array = arrays.get(name)
        fits = array is not None and array.shape[1:] == expected.shape[1:] and len(array) > members.max()
        if array is None or not fits or array.dtype != expected.dtype:
            found = "nothing" if array is None else f"{array.dtype} {array.shape}"
            raise CorruptCheckpoint(f"array {name!r}: {found} where {expected.dtype} {expected.shape} was expected")
        leaves.append(array[members])
    return jax.tree_util.tree_unflatten(structure, leaves)


def unflatten_learners(program: Program, checkpoint: Checkpoint, members: np.ndarray) -> Any:
    """The learners of some members of a checkpoint."""
    learner, _ = member_shapes(program)
    shape: Any = jax.ShapeDtypeStruct
    template = jax.tree.map(lambda x: shape((1, *x.shape), x.dtype), learner)
    prefix = "state/learner."
    named = {k.removeprefix(prefix): v for k, v in checkpoint.arrays.items() if k.startswith(prefix)}
    return unflatten(template, named, members)
