"""Work that is done now and then, or several times."""

import jax
import jax.numpy as jnp
import pytest

from bires.machine.branching import repeated


@pytest.mark.parametrize("times", [1, 3])
def test_work_is_repeated_where_it_is_due(times):
    def work(turn, carry):
        return carry.at[turn].add(1)

    none, all_of_them = jnp.zeros(4, int), (jnp.arange(4) < times).astype(int)
    for due, expected in ((False, none), (True, all_of_them)):
        for known in (due, jnp.asarray(due)):
            assert (repeated(known, times, work, none) == expected).all()
        assert (jax.jit(lambda due: repeated(due, times, work, none))(due) == expected).all()


@pytest.mark.parametrize("times", [1, 3])
def test_what_is_never_due_is_not_compiled(times):
    """The program of the warm-up has no updates."""

    def work(turn, carry):
        raise AssertionError("traced")

    assert repeated(False, times, work, 1.0) == 1.0
