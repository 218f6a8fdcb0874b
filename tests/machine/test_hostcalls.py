"""Programs that ask Python in between."""

import math
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bires.machine import foreign, hostcalls
from bires.machine.hostcalls import FLAG, Host, HostHandle, shape
from tests.helpers import TASK, command, contents


@pytest.fixture(params=["xla", "jax"])
def way(request):
    """Both ways of calling Python, also on a CPU, where one of them is usual."""
    hostcalls.use_foreign(hostcalls.wanted(request.param))
    yield request.param
    hostcalls.use_foreign(True)


class Counter(Host):
    """Adds what it is asked to add until there is enough."""

    def __init__(self, enough: float) -> None:
        super().__init__()
        self.enough, self.calls = enough, 0

    def add(self, total: np.ndarray, more: np.ndarray) -> tuple[np.ndarray, bool]:
        self.calls += 1
        if more[0] < 0:
            raise ValueError(f"asked to add {more[0]}")
        return total + more, total[0] + more[0] < self.enough


def add_up(handle: HostHandle[Counter], more: jax.Array) -> jax.Array:
    def body(carry: Any) -> Any:
        return handle.ask(Counter.add, (shape((2,), np.float32), FLAG), carry[0], more)

    return jax.lax.while_loop(lambda carry: carry[1], body, (jnp.zeros(2), jnp.ones((), bool)))[0]


def fresh() -> Any:
    """The program, not yet compiled."""
    return jax.jit(lambda handle, more: add_up(handle, more))


def test_a_program_calls_its_host_until_the_answer_is_stop(way):
    counter = Counter(10.0)
    np.testing.assert_array_equal(fresh()(counter.handle, np.array([3, 1], np.float32)), [12.0, 4.0])
    assert counter.calls == 4


def test_one_compiled_program_serves_every_host(way):
    program = fresh()
    for enough, total in ((10.0, 12.0), (20.0, 21.0)):
        counter = Counter(enough)
        assert program(counter.handle, np.array([3, 1], np.float32))[0] == total
    assert program._cache_size() == 1


def test_a_host_that_is_gone_gives_zeros(way):
    handle = Counter(10.0).handle
    np.testing.assert_array_equal(fresh()(handle, np.array([3, 1], np.float32)), [0.0, 0.0])


def test_arrays_of_every_type_reach_the_host_and_come_back(way):
    rng = np.random.default_rng(0)
    arrays: dict[str, Any] = {
        "a float": rng.standard_normal((3, 2)).astype(np.float32),
        "b bytes": rng.integers(0, 256, (4, 5), np.uint8),
        "c words": rng.integers(0, 2**32, 3, np.uint32),
        "d number": np.int32(-7),
        "e flags": np.array([True, False]),
        "f nothing": np.zeros((3, 0), np.float32),
    }

    class Echo(Host):
        def echo(self, *given: np.ndarray) -> Any:
            assert [(x.shape, x.dtype) for x in given] == [(x.shape, x.dtype) for x in arrays.values()]
            return dict(zip(arrays, (x.copy() for x in given), strict=True))

    echo = Echo()
    like = jax.tree.map(lambda x: shape(x.shape, x.dtype), arrays)
    with echo:
        found = jax.jit(lambda handle, given: handle.ask(Echo.echo, like, *given.values()))(echo.handle, arrays)
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], array, err_msg=name)


def test_an_unknown_type_is_refused_before_anything_runs():
    with pytest.raises(TypeError, match=r"'add' is asked with .*float16.*; known: bool, int32"):
        jax.jit(lambda handle, x: handle.ask(Counter.add, FLAG, x))(Counter(1.0).handle, np.float16(1))


def test_an_error_ends_the_program_and_is_raised_afterwards(way):
    counter, program = Counter(10.0), fresh()
    with pytest.raises(ValueError, match=r"asked to add -1.0"), counter:
        program(counter.handle, np.array([-1, 0], np.float32)).block_until_ready()
    assert counter.calls == 1
    with counter:
        assert program(counter.handle, np.array([5, 0], np.float32))[0] == 10.0


@pytest.fixture
def interruptible():
    """SIGINT as Python handles it; who starts tests in the background of a shell inherits that it is ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_interrupts_end_the_program_at_whatever_moment_they_come(way, interruptible):
    """Signals at random moments: Python would raise each of them where it is, be it half-way out of a question."""
    program, rng, counter, few = fresh(), np.random.default_rng(0), Counter(math.inf), Counter(1.0)
    program(few.handle, np.array([1, 0], np.float32))
    timers = [threading.Timer(after, os.kill, [os.getpid(), signal.SIGINT]) for after in rng.uniform(0.001, 0.01, 100)]

    def interrupted(timer: threading.Timer) -> None:
        with counter:
            timer.start()
            program(counter.handle, np.array([1, 0], np.float32)).block_until_ready()

    for timer in timers:
        with pytest.raises(KeyboardInterrupt):
            interrupted(timer)
        timer.join()
    assert counter.calls > 100
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_programs_of_two_threads_do_not_wait_for_each_other(way):
    program, counters = fresh(), [Counter(2000.0), Counter(2000.0)]
    with ThreadPoolExecutor(2) as threads:
        totals = list(threads.map(lambda c: float(program(c.handle, np.array([1, 0], np.float32))[0]), counters))
    assert totals == [2000.0, 2000.0]
    assert [counter.calls for counter in counters] == [2000, 2000]


def test_the_compilation_cache_keeps_programs_that_call_python(tmp_path):
    code = (
        "import jax, numpy as np\n"
        "from jax import monitoring\n"
        "events = []\n"
        "monitoring.register_event_listener(lambda name, **_: events.append(name))\n"
        f"from {__name__} import Counter, add_up\n"
        "Counter(1.0)\n"  # so that the second process asks another number
        "counter = Counter(10.0)\n" + "assert jax.jit(add_up)(counter.handle, np.array([3, 1], np.float32))[0] == 12\n"
        "print(sum(name.endswith('cache_hits') for name in events))"
    )
    settings = {"JAX_COMPILATION_CACHE_DIR": str(tmp_path), "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
    hits = []
    for text in (code, code.replace("Counter(1.0)\n", "")):
        ran = subprocess.run(
            [sys.executable, "-c", text], env=os.environ | settings, check=True, capture_output=True, text=True
        )
        hits.append(int(ran.stdout.split()[-1]))
    assert hits[0] == 0
    assert hits[1] > 0


@pytest.mark.parametrize(
    ("version", "accepted"), [((0, 3), True), ((0, 4), True), ((0, 2), False), ((1, 3), False), (None, False)]
)
def test_another_version_of_the_interface_is_left_to_jax(version, accepted, monkeypatch):
    monkeypatch.setattr(foreign, "installed_version", lambda: version)
    assert hostcalls.wanted("") == accepted
    assert not hostcalls.wanted("jax")


def test_the_installed_version_is_read():
    assert foreign.fits(foreign.installed_version())


TRAIN = f"train {TASK} --seeds 2 --steps 60 --warmup 20 --eval-every 30 --eval-episodes 1 --log-every 10"
TRAIN += " --batch 8 --hidden 16 16 --replay 50 --cohorts threads --workers 0 --quiet --out"


def test_both_ways_of_calling_python_train_the_same_agents(tmp_path, undisturbed):
    done = command(*TRAIN.split(), str(tmp_path / "jax"), env=os.environ | {"BIRES_HOST_CALLS": "jax"})
    assert done.returncode == 0, done.stderr
    assert contents(tmp_path / "jax") == contents(undisturbed(seeds=2))


def test_an_unknown_way_of_calling_python_is_refused(tmp_path):
    done = command(*TRAIN.split(), str(tmp_path / "run"), env=os.environ | {"BIRES_HOST_CALLS": "cuda"})
    assert done.returncode == 2
    assert "BIRES_HOST_CALLS is set to 'cuda'; accepted: xla" in done.stderr
    assert not (tmp_path / "run").exists()
