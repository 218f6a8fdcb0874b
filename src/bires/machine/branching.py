"""Work that a compiled program does only now and then."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

Due = bool | jax.Array
"""Whether there is something to do: known when the program is compiled, or not."""


def when(due: Due, work: Callable[[Any], Any], carry: Any) -> Any:
    """``work(carry)`` if it is due. (A loop of one turn or none leaves arrays where they are; a branch copies them.)

    Under `jax.vmap` the work is skipped only where ``due`` is the same for all.
    """
    if isinstance(due, bool):
        return work(carry) if due else carry
    once = (jnp.zeros((), bool), carry)
    return jax.lax.while_loop(lambda loop: loop[0], lambda loop: (once[0], work(loop[1])), (due, carry))[1]


def repeated(due: Due, times: int, work: Callable[[jax.Array | int, Any], Any], carry: Any) -> Any:
    """``work(turn, carry)`` for turn 0, 1 … up to ``times``, if it is due."""
    if times == 1:
        return when(due, lambda carry: work(0, carry), carry)
    return when(due, lambda carry: jax.lax.fori_loop(0, times, work, carry), carry)
