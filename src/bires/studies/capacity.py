"""What this machine has for populations side by side: how many fill it, and the share of each."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field

from bires.errors import UserError
from bires.machine import hardware, mps
from bires.machine.memory import free_memory


@dataclass(frozen=True)
class Machine:
    """The hardware of this machine, read by another process, as this one must not hold an accelerator."""

    platform: str
    cores: int
    memory: int
    """Bytes that populations may take: of the accelerator, or of the machine."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Environment variables of processes that compute beside others."""


def default_count(machine: Machine, members: int) -> int:
    """How many populations of so many members fill the machine: as few as keep its cores busy (docs/measurements.md).

    On a CPU every member can have a core. On two cores, populations of ten one after another made 1.37 times what two
    at a time made. Beside a GPU it is one for every two cores: with 16 cores four made 42 000 agent-steps/s, seven
    50 000, eight 58 000 (other tasks each time).
    """
    if machine.platform == "cpu":
        return -(-machine.cores // members)
    return max(1, machine.cores // 2) if machine.variables else 1


def cores_each(machine: Machine, slots: int) -> int:
    """The cores of each population, rounded up: none is idle."""
    return -(-machine.cores // slots)


PROBE = """
import json, jax
device = jax.devices()[0]
stats = device.memory_stats() if device.platform != "cpu" else None
print(json.dumps([jax.default_backend(), int(stats["bytes_limit"] - stats["bytes_in_use"]) if stats else 0]))
"""


def look_at_machine() -> Machine:
    """Asks another process what JAX finds here."""
    quiet = os.environ | {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    done = subprocess.run([sys.executable, "-c", PROBE], env=quiet, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise UserError(f"JAX does not start on this machine; `bires doctor` shows more. The error was:\n{done.stderr}")
    platform, memory = json.loads(done.stdout.splitlines()[-1])
    variables = (mps.environment() or {}) if platform == "gpu" else {}
    return Machine(platform, hardware.cores(), memory or free_memory(), variables)
