"""The settings under which all tests run: what they compile, how long they keep it, and the settings of a quick run.

Most of the time goes into compiling programs that run for a moment. Hence XLA and LLVM hardly optimise them, and one
cache keeps all of them for this process, the processes that tests start (they inherit the variables), and next time.
"""

import ctypes
import gc
import os
import shutil
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

CACHE = Path(__file__).parents[1] / ".pytest_cache" / "d" / "xla"
QUICK_COMPILATION = ["--xla_backend_optimization_level=0"]
if version("jaxlib").startswith("0.10."):  # newer ones do not know these, and end the process over it
    QUICK_COMPILATION += ["--xla_cpu_use_fusion_emitters=false", "--xla_cpu_parallel_codegen_split_count=1"]
if QUICK_COMPILATION[0] not in os.environ.get("XLA_FLAGS", ""):  # workers inherit it
    os.environ["XLA_FLAGS"] = " ".join([os.environ.get("XLA_FLAGS", ""), *QUICK_COMPILATION]).strip()
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(CACHE))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # idle threads of BLAS spin and take time from other processes

import jax  # noqa: E402
import psutil  # noqa: E402
import pytest  # noqa: E402

import bires  # noqa: E402
from bires.agents.registry import AGENTS  # noqa: E402
from bires.envs.families import FAMILIES  # noqa: E402
from bires.machine import hardware  # noqa: E402
from bires.planning.registry import PLANNERS  # noqa: E402
from bires.rules import RULES  # noqa: E402
from bires.runs.run import Run  # noqa: E402
from bires.training import loop  # noqa: E402

pytest.register_assert_rewrite("tests.helpers")

from tests.helpers import QUICK, TASK  # noqa: E402

hardware.prepare()
loop.CHECKPOINT_SHARE = 1e9  # tests evaluate so often that checkpoints would be left out, now these and now those
SHIPPED = [(registry, dict[str, Any](registry)) for registry in (RULES, AGENTS, PLANNERS, FAMILIES)]
"""What the package has by itself, before any test adds something of its own."""
MEMORY_LIMIT = 1_000_000_000
"""Compiled programs are dropped after a test that leaves the process with more bytes than this."""


@pytest.fixture(autouse=True, scope="module")
def registries():
    """What tests of one module add to the registries is gone in the next: these are listed in messages."""
    before = [(registry, dict[str, Any](registry)) for registry, _ in SHIPPED]
    yield
    refill(before)


@pytest.fixture(autouse=True)
def memory():
    """Drops compiled programs when they have taken much memory: there are thousands of them."""
    yield
    if psutil.Process().memory_info().rss < MEMORY_LIMIT:
        return
    jax.clear_caches()
    gc.collect()
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except AttributeError:  # not the C library of GNU
        pass


def refill(registries: list[tuple[dict[str, Any], dict[str, Any]]]) -> None:
    """Gives each registry some contents."""
    for registry, contents in registries:
        registry.clear()
        registry.update(contents)


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """A folder of the reader's own, whose modules can be imported; what they added is gone afterwards.

    It begins with what the package has by itself, whatever other tests added.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    before = [(registry, dict[str, Any](registry)) for registry, _ in SHIPPED]
    refill(SHIPPED)
    yield tmp_path
    refill(before)
    for name, module in list(sys.modules.items()):
        if (getattr(module, "__file__", None) or "").startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.fixture
def split(monkeypatch):
    """Splits a population over the cores as a real one is; those of tests are so small that they would not be."""
    monkeypatch.setattr(hardware, "FLOPS_FOR_SEVERAL_COHORTS", 0.0)


@pytest.fixture
def whole(monkeypatch):
    """Keeps a population in one cohort: one program is compiled for all members, not one for each size of a cohort."""
    monkeypatch.setattr(hardware, "FLOPS_FOR_SEVERAL_COHORTS", float("inf"))


@pytest.fixture
def stepwise(monkeypatch):
    """Lets a run look at every step whether to stop."""
    monkeypatch.setattr(loop, "STRIDE", 1)
    monkeypatch.setattr(loop, "ROUND_S", 0.0)


@pytest.fixture
def optimised(monkeypatch):
    """Optimises the programs of runs: for large networks that pays within a few steps."""
    monkeypatch.setitem(hardware.CPU_OPTIONS, "xla_backend_optimization_level", "3")


@pytest.fixture
def quick():
    """Settings of a run that takes seconds."""
    return dict(QUICK)


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory):
    """A function that trains a run with quick settings, once for all tests that compare others with it.

    Its folder is for reading; `copied` gives a test one of its own.
    """
    kept: dict[str, Path] = {}

    def train(task: str = TASK, **settings: Any) -> Path:
        key = f"{task} {sorted(settings.items())}"
        if key not in kept:
            out = tmp_path_factory.mktemp("undisturbed") / "run"
            bires.train(task, out=out, **QUICK | {"workers": 0, "cohorts": "threads"} | settings)
            kept[key] = out
        return kept[key]

    return train


@pytest.fixture
def copied(undisturbed, tmp_path):
    """A function that gives a test a finished quick run of its own."""

    def copy(**settings: Any) -> Run:
        shutil.copytree(undisturbed(**settings), tmp_path / "run")
        return bires.load(tmp_path / "run")

    return copy
