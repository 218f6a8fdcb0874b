"""What populations of a study make side by side, beside what their simulators make alone on the same cores.

    .venv/bin/python -m benchmarks.together --at-once 2 --task cheetah-run walker-stand
    .venv/bin/python -m benchmarks.together --at-once 6               # all 33 tasks of `auc`, six at a time
    .venv/bin/python -m benchmarks.together --at-once 1 --task …      # one after another, each with all cores

Every population has a process with its share of the cores, as in `bires reproduce`. All of a group first step their
simulators, for some seconds at the same time, then train, for as long. Prints a row per task and the sums as JSON.
With --wait the processes do not spin while they wait for an NVIDIA GPU: they yield their core, or sleep.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

from bires.envs.tasks import DMCONTROL, MUJOCO
from bires.studies import capacity
from bires.studies.records import MODEL_FREE

PHASES = ("environments", "steps")
WAITS = {"spin": 1, "yield": 2, "sleep": 4}
"""How a process waits for a GPU → the flag of CUDA's driver."""


def wait_by(flag: int) -> None:
    """Makes this process's CUDA context wait in a certain way; XLA takes the context that is there."""
    cuda, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
    failed = cuda.cuInit(0) or cuda.cuDevicePrimaryCtxSetFlags_v2(0, flag)
    if failed or cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0):
        raise SystemExit("CUDA's driver does not take the flag; leave out --wait")


def serve(task: str, seeds: int, wait: str | None) -> None:
    """A population; for each phase and number of seconds that it reads, it prints how many steps per second it made."""
    if wait is not None:
        wait_by(WAITS[wait])
    from bires.machine import hardware
    from bires.settings.keywords import make_config
    from bires.tools.bench import measure

    hardware.prepare()
    config = make_config(task, {**MODEL_FREE, "seeds": seeds, "protocol": "paper", "warmup": 1})
    population = measure.population(config)
    for phase in PHASES:
        getattr(population, phase)(2)  # compiles
    print("ready", flush=True)
    for line in sys.stdin:
        phase, seconds = line.split()
        print(rate(getattr(population, phase), float(seconds)) * population.count, flush=True)
    population.close()


def rate(work: Any, seconds: float) -> float:
    """Calls of ``work(n)`` for some seconds: how many n per second."""
    began, done, size = time.perf_counter(), 0, 10
    while (passed := time.perf_counter() - began) < seconds:
        work(size)
        done += size
        size = max(10, int(done / max(passed, 0.1) / 4))  # about four calls a second
    return done / passed


def measured(tasks: Sequence[str], machine: capacity.Machine, slots: int, options: argparse.Namespace) -> list[Any]:
    """One row for each task of a group that runs at the same time."""
    variables = {**machine.variables, "BIRES_CORES": str(capacity.cores_each(machine, slots))}
    command = [sys.executable, "-m", "benchmarks.together", "--seeds", str(options.seeds)]
    command += [*(["--wait", options.wait] if options.wait else []), "--serve"]
    processes = [
        subprocess.Popen(
            [*command, task],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"MUJOCO_GL": "disable", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"} | variables,
        )
        for task in tasks
    ]
    try:
        for process in processes:
            assert answer(process) == "ready"
        found = {phase: [float(text) for text in asked(processes, f"{phase} {options.seconds}\n")] for phase in PHASES}
    finally:
        for process in processes:
            process.stdin.close()  # type: ignore[union-attr]
            process.wait()
    return [
        {"task": task, **{phase: rates[i] for phase, rates in found.items()}, "share": found["steps"][i] / alone}
        for i, (task, alone) in enumerate(zip(tasks, found["environments"], strict=True))
    ]


def asked(processes: Sequence[subprocess.Popen[str]], line: str) -> Iterator[str]:
    """What all of them answer to a line that they are given at the same time."""
    for process in processes:
        process.stdin.write(line)  # type: ignore[union-attr]
        process.stdin.flush()  # type: ignore[union-attr]
    return map(answer, processes)


def answer(process: subprocess.Popen[str]) -> str:
    line = process.stdout.readline()  # type: ignore[union-attr]
    if not line:
        raise SystemExit(f"a population ended with exit code {process.wait()}; what it said is above")
    return line.strip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--at-once", type=int, help="populations at a time; default: as `bires reproduce`")
    parser.add_argument("--task", nargs="+", default=[*DMCONTROL, *MUJOCO])
    parser.add_argument("--seconds", type=float, default=8.0, help="of each phase")
    parser.add_argument("--seeds", type=int, default=5, help="of each of the two algorithms")
    parser.add_argument("--wait", choices=WAITS, help="how processes wait for a GPU; default: as CUDA chooses")
    parser.add_argument("--serve", metavar="TASK", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.serve, options.seeds, options.wait)
    else:
        compare(options)


def compare(options: argparse.Namespace) -> None:
    """All tasks, group by group."""
    machine = capacity.look_at_machine()
    slots = min(len(options.task), options.at_once or capacity.default_count(machine, 2 * options.seeds))
    rows = []
    for start in range(0, len(options.task), slots):
        group = measured(options.task[start : start + slots], machine, slots, options)
        rows += group
        for row in group:
            shown = f"{row['environments']:9,.0f} {row['steps']:9,.0f} {row['share']:5.0%}"
            print(f"{row['task']:26s} {shown}", file=sys.stderr, flush=True)
    sums = {phase: sum(row[phase] for row in rows) for phase in PHASES}
    print(json.dumps({"at_once": slots, "rows": rows, "share": sums["steps"] / sums["environments"]}))


if __name__ == "__main__":
    main()
