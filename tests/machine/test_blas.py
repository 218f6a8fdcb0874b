"""Simulators that are stepped in this process do not wait for threads of BLAS."""

from contextlib import ExitStack

import numpy  # noqa: F401  (loads its BLAS)
from threadpoolctl import threadpool_info, threadpool_limits

from bires.envs.pool import Pool
from bires.envs.recipe import recipe
from bires.machine.blas import one_thread


def threads():
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


def test_products_of_environments_of_this_process_use_one_thread():
    made = recipe("Pendulum-v1", "modern")
    environment = made.build()
    environment.close()
    with threadpool_limits(2, user_api="blas"):
        assert threads() == {2}
        pool = Pool(made, environment.space, [[0]], workers=0)
        assert threads() == {1}
        pool.close()
        assert threads() == {2}
        pool.close()
        assert threads() == {2}


def test_holders_may_let_go_in_any_order():
    with threadpool_limits(2, user_api="blas"):
        first, second = ExitStack(), ExitStack()
        first.enter_context(one_thread())
        second.enter_context(one_thread())
        first.close()
        assert threads() == {1}
        second.close()
        assert threads() == {2}
