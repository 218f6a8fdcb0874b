"""Where a population runs: devices, cohorts and compiler options."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bires.errors import UserError
from bires.machine import mps

settings: Any = jax.config

CPU_OPTIONS: dict[str, str | bool] = {
    # XLA's newer matrix kernels are slower than the older ones at these sizes (see docs/measurements.md).
    "xla_cpu_experimental_ynn_fusion_type": "",
}

# Beside an accelerator.
MEMBERS_FOR_TWO_COHORTS = 32
"""From so many members per accelerator on, two cohorts share it."""
CORES_PER_GPU_PROCESS = 4
"""Cores that step the environments of one process."""
MEMBERS_PER_GPU_PROCESS = 8
"""From so many members per process on, cohorts have processes of their own."""
WORKERS_PER_CORE = 2
"""Environment workers per core: while one waits for its members' actions, another steps."""
MOST_WORKERS_PER_CORE = 4
"""More are never started, even if asked for: they only wait for the core."""
MEMBERS_PER_EXTRA_WORKER = 4
"""Members for which one worker more than there are cores pays."""
SECONDS_PER_IDLE_CALL = 0.1e-3
"""`SECONDS_PER_WORKER_CALL` where cores wait for the accelerator."""

# On a CPU. Operations are floating-point operations.
FLOPS_FOR_SEVERAL_COHORTS = 1e8
"""Operations of a population's step (about a millisecond of one core) from which on several cores share its members."""
FLOPS_FOR_XLA_THREADS = 3e8
"""Operations of a member's step from which on several cores may share them."""
SECONDS_FOR_OVERLAP = 40e-6
"""How long a step of an environment must take for it to be made on another core, while its member updates."""
SECONDS_FOR_PROCESSES = 20.0
"""About how long a run must take for a process per cohort to pay."""
SECONDS_PER_STEP = 0.5e-3
"""About what a step takes beside its products, to tell long runs from short ones."""
FLOPS_PER_SECOND = 1e10
"""About how fast a core computes, for the same purpose."""
SECONDS_PER_WORKER_CALL = 0.5e-3
"""About what waking a worker and waiting for its reply costs on a busy machine."""
CORES_WITHOUT_WORKERS = 2
"""So many cores are kept busy by the cohorts themselves."""


def cores() -> int:
    """Cores this process may use: those it is bound to, or fewer where BIRES_CORES says so (shares, containers)."""
    bound = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    share = os.environ.get("BIRES_CORES", "")
    if share and not (share.isdecimal() and int(share)):
        raise UserError(f"BIRES_CORES is set to {share!r}; accepted: a whole number from 1, or nothing for all cores.")
    return min(bound, int(share)) if share else bound


@contextmanager
def confined(number: int, size: int) -> Iterator[None]:
    """Shows this process no more than ``size`` of its cores, where the system can: those of share ``number``.

    XLA has as many threads as it sees cores when it starts. With one it does all in the thread that asks, which is
    right for a process that needs one core. Afterwards the system may put the process on any core again.
    """
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    bound = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(bound)[number * size :][:size] or bound)
    try:
        yield
    finally:
        os.sched_setaffinity(0, bound)


@dataclass(frozen=True)
class Placement:
    """One device per cohort, and how its programs are compiled."""

    devices: tuple[Any, ...]
    cohorts: tuple[np.ndarray, ...]
    """The members of each cohort."""
    options: dict[str, str | bool]
    spare: bool = False
    """Whether every member has another core for its environment."""

    @property
    def platform(self) -> str:
        return str(self.devices[0].platform)

    @property
    def ahead(self) -> bool:
        """Whether cohorts can update while their environments step: they do not share cores."""
        return self.platform != "cpu" or self.spare

    @property
    def largest_share(self) -> float:
        """The part of the members that one memory has to hold: all of them on a CPU, else those of one device."""
        if self.platform == "cpu":
            return 1.0
        held = Counter[Any]()
        for device, cohort in zip(self.devices, self.cohorts, strict=True):
            held[device] += len(cohort)
        return max(held.values()) / held.total()

    @property
    def threads(self) -> int:
        """XLA's threads in the process of a cohort; beside an accelerator they only compile."""
        if self.platform != "cpu":
            return cores()
        return max(1, cores() // len(self.cohorts)) if self.options.get("xla_cpu_multi_thread_eigen") else 1

    def workers_each(self, count: int) -> int:
        """The processes of each cohort, when all of them have ``count``."""
        return max(1, count // len(self.cohorts)) if count else 0


def prepare() -> None:
    """Before JAX starts its backend: one CPU device per core, and a compilation cache that survives the process.

    A CPU computes in the thread that asks (cohorts have one each): handing over to a thread of XLA's costs more.
    """
    settings.update("jax_cpu_enable_async_dispatch", False)
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # others may want some of a GPU's memory, too
    if settings.jax_num_cpu_devices < 0:  # not said otherwise with JAX_NUM_CPU_DEVICES
        try:
            settings.update("jax_num_cpu_devices", cores())
        except RuntimeError:
            pass  # the backend runs already: its devices are what there is
    if settings.jax_compilation_cache_dir is None:
        root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        settings.update("jax_compilation_cache_dir", str(Path(root) / "bires" / "xla"))
        settings.update("jax_persistent_cache_min_compile_time_secs", 0.5)


def processes_pay(members: int, steps: int, work: float, step_seconds: float) -> bool:
    """Whether cohorts should have processes of their own: for longer runs on several cores; with accelerators, if many.

    In one process cohorts compete for XLA's threads and Python's lock; starting processes takes seconds. A single
    member competes with no other; it gets a process only if it is so small that XLA's threads do not help it.
    ``work`` and ``step_seconds``: the floating-point operations of a member's step, and the time of its environment's.
    """
    prepare()
    here = cores() == 1 or "JAX_NUM_CPU_DEVICES" in os.environ
    if jax.default_backend() != "cpu":
        here |= gpu_processes() < 2 or members < MEMBERS_PER_GPU_PROCESS * gpu_processes()
    each = work / FLOPS_PER_SECOND + (step_seconds if step_seconds < math.inf else 0.0)
    long = steps * (SECONDS_PER_STEP + members * each / min(members, cores())) >= SECONDS_FOR_PROCESSES
    return long and not here and (members > 1 or work < FLOPS_FOR_XLA_THREADS)


def gpu_processes() -> int:
    """How many processes share an accelerator, when several do."""
    return max(1, cores() // CORES_PER_GPU_PROCESS)


def can_share() -> bool:
    """Whether several processes can compute here at the same time."""
    backend = jax.default_backend()
    return backend == "cpu" or (backend == "gpu" and mps.environment() is not None)


def environment(platform: str) -> dict[str, str]:
    """The environment variables of a process that computes on a platform as this one does, beside others."""
    return {"JAX_PLATFORMS": "cpu"} if platform == "cpu" else mps.environment() or {}


def only_device(platform: str, which: int) -> Any:
    """The device of a process that computes on one of those of its machine, and starts no other."""
    if platform != "cpu":
        settings.update("jax_cuda_visible_devices", str(which))
        prefer_precision()
    prepare()
    device = jax.devices()[0]
    if device.platform != platform:
        raise RuntimeError(f"asked for {platform} {which}, JAX gives {device}")
    return device


def leave_accelerators() -> None:
    """This process computes on the CPU: accelerators are for those that it starts."""
    settings.update("jax_platforms", "cpu")


def prefer_precision() -> None:
    """Products of float32 are products of float32: left to itself, XLA on an accelerator may round factors to TF32."""
    settings.update("jax_default_matmul_precision", "float32")


def place(members: int, work: float = math.inf, processes: bool = False, step_seconds: float = 0.0) -> Placement:
    """Splits a population over the devices.

    ``work`` and ``step_seconds``: the floating-point operations of a member's step, and the time of its environment's.

    On a CPU every core is a device and updates its cohort alone, which beats sharing each product among the cores.
    Where members are few, large ones share them after all, and others leave a core to slow environments. A little work
    stays on one core, unless cohorts have processes of their own (or JAX_NUM_CPU_DEVICES asks for more). How numbers
    are rounded depends on the cohorts (and on the machine), not on whether they have processes.

    On an accelerator populations have two cohorts if their environments take longer than starting a second program; or
    one for every few cores, where cohorts have processes.
    """
    prepare()
    devices: Sequence[Any] = jax.devices()
    options: dict[str, str | bool] = {}
    spare = False
    if devices[0].platform == "cpu":
        little = members * work < FLOPS_FOR_SEVERAL_COHORTS and "JAX_NUM_CPU_DEVICES" not in os.environ
        count = 1 if little and not processes else min(members, len(devices))
        threads = members < cores() and work >= FLOPS_FOR_XLA_THREADS
        spare = 2 * members <= cores() and work < FLOPS_FOR_XLA_THREADS and step_seconds >= SECONDS_FOR_OVERLAP
        options = {k: v for k, v in {**CPU_OPTIONS, "xla_cpu_multi_thread_eigen": threads}.items() if accepts(k, v)}
    else:
        prefer_precision()
        few = len(devices) * (2 if members >= MEMBERS_FOR_TWO_COHORTS * len(devices) else 1)
        count = min(members, max(len(devices), gpu_processes()) if processes else few)
    cohorts = tuple(np.array_split(np.arange(members), count))
    return Placement(tuple(devices[i % len(devices)] for i in range(count)), cohorts, options, spare)


def choose_workers(members: int, asked: int | None, portable: bool, step_seconds: float = math.inf) -> int:
    """Environment processes: one per core, beside an accelerator up to two, unless they would only be waited for.

    That is so for a single member or core; when all steps of the population together (``step_seconds`` each) take less
    time than telling another process; and on two cores, which the cohorts' own threads keep busy. (Measured:
    docs/measurements.md.)
    """
    if asked is not None:
        if asked < 0:
            raise UserError(f"--workers was given {asked}; accepted: whole numbers from 0 (0: no extra processes).")
        if asked > 0 and not portable:
            raise UserError(
                "This environment exists in this process only (it was registered with a class of the main script), so "
                "it cannot run in workers. Use --workers 0, or put it into a module and name it MODULE:ID."
            )
        return min(asked, members, MOST_WORKERS_PER_CORE * cores())
    if members == 1 or cores() == 1 or not portable:
        return 0
    alone = jax.default_backend() == "cpu"
    busy = alone and cores() <= CORES_WITHOUT_WORKERS and step_seconds < math.inf
    if busy or members * step_seconds < (SECONDS_PER_WORKER_CALL if alone else SECONDS_PER_IDLE_CALL):
        return 0
    return min(
        members,
        cores() if alone else max(cores(), min(WORKERS_PER_CORE * cores(), members // MEMBERS_PER_EXTRA_WORKER)),
    )


@cache
def accepts(name: str, value: str | bool) -> bool:
    """Whether this version of XLA knows a compiler option."""
    try:
        jax.jit(lambda x: x + 1, compiler_options={name: value})(jnp.zeros(())).block_until_ready()
    except Exception:
        return False
    return True
