"""Time every peer on this machine: one agent alone, and the whole machine training as many agents as it can.

Runs under any Python (standard library only); the peers run under the Python of their own environment. Linux.
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

HERE = Path(__file__).resolve().parent
LIBRARIES = ("sb3_actor_critic.py", "sbx_actor_critic.py")
PEERS = {
    "ddpg": (
        *((f"{script} --agent ddpg", "td") for script in LIBRARIES),
        ("torch_ddpg.py", "td"),
        ("torch_ddpg.py", "bi"),
    ),
    "td3": tuple((f"{script} --agent td3", "td") for script in LIBRARIES),
    "sac": tuple((f"{script} --agent sac", "td") for script in LIBRARIES),
    "dqn": (("sb3_dqn.py", "td"), ("sbx_dqn.py", "td")),
    "pixels": (("sb3_pixels.py", "td"),),
}
"""What is compared → scripts with their arguments, and rules."""


@dataclass(frozen=True)
class Placement:
    """How many threads one process may use, and on which cores."""

    threads: int
    cores: frozenset[int]


@contextlib.contextmanager
def confined(cores: frozenset[int]) -> Iterator[None]:
    """Keep this thread to some cores: a process started meanwhile inherits them, without code between fork and exec."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@contextlib.contextmanager
def started(command: Sequence[str], placement: Placement) -> Iterator[tuple[subprocess.Popen[str], IO[str]]]:
    """A peer process kept to its cores, and the file that gathers its standard error; ended on the way out."""
    environment = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
    with tempfile.TemporaryFile("w+") as errors:
        with confined(placement.cores):
            process = subprocess.Popen(
                [*command, "--threads", str(placement.threads)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env=environment | {"PYTHONWARNINGS": "ignore"},
            )
        try:
            yield process, errors
        finally:
            process.kill()
            process.communicate()


def line_of(process: subprocess.Popen[str], errors: IO[str], start: str) -> str:
    """The next line that begins with `start`; libraries may print others before it."""
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith(start):
            return line
    errors.seek(0)
    tail = "".join(errors.readlines()[-15:])
    raise RuntimeError(f"{process.args!r} ended with code {process.wait()} before it printed {start!r}:\n{tail}")


def simultaneously(command: Sequence[str], placements: Sequence[Placement]) -> list[dict[str, Any]]:
    """Run one process per placement; they start timing together and all stay busy until the last has its result."""
    with contextlib.ExitStack() as stack:
        processes = [
            stack.enter_context(started([*command, "--seed", str(seed)], placement))
            for seed, placement in enumerate(placements)
        ]
        for process, errors in processes:
            line_of(process, errors, "ready")
        for process, _ in processes:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        return [json.loads(line_of(process, errors, "{")) for process, errors in processes]


def measure_peer(python: str, script: str, rule: str, steps: int) -> dict[str, Any]:
    """One peer: alone with every thread, alone with one thread, and one pinned single-thread process per core."""
    name, *arguments = script.split()
    command = [python, str(HERE / name), *arguments, "--rule", rule, "--steps", str(steps), "--json", "--wait"]
    cores = frozenset(os.sched_getaffinity(0))
    every_thread = simultaneously(command, [Placement(len(cores), cores)])
    one_thread = simultaneously(command, [Placement(1, cores)]) if len(cores) > 1 else every_thread
    pinned = simultaneously(command, [Placement(1, frozenset({core})) for core in sorted(cores)])
    every, one = every_thread[0]["steps_per_second"], one_thread[0]["steps_per_second"]
    each = [result["steps_per_second"] for result in pinned]
    return {
        "peer": every_thread[0]["peer"],
        "unit": "updates/s" if "pixels" in script else "steps/s",
        "rule": rule,
        "one_agent": max(every, one, *each),  # a pinned process is one agent too, and now and then the fastest
        "whole_machine": round(max(every, one, sum(each)), 2),
        "cores": len(cores),
        "steps_per_second": {"every_thread": every, "one_thread": one, "one_process_per_core": each},
        "versions": every_thread[0]["versions"],
    }


def measure(sizes: str, python: str, steps: int) -> list[dict[str, Any]]:
    """Steps per second of every peer and rule; `python` is the interpreter of the peers' environment."""
    return [measure_peer(python, script, rule, steps) for script, rule in PEERS[sizes]]


def main() -> None:
    """Time every peer and print one JSON list, or a table."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("sizes", choices=PEERS, nargs="?", default="ddpg", help="what is compared")
    parser.add_argument("--python", default=sys.executable, help="interpreter of the peers' environment")
    parser.add_argument("--steps", type=int, default=2_500, help="timed steps of each process")
    parser.add_argument("--json", action="store_true", dest="as_json")
    arguments = parser.parse_args()
    results = measure(arguments.sizes, arguments.python, arguments.steps)
    if arguments.as_json:
        print(json.dumps(results))
        return
    print(f"{'peer':8}{'rule':6}{'one agent':>12}{'whole machine':>16}   (steps/s)")
    for result in results:
        print(f"{result['peer']:8}{result['rule']:6}{result['one_agent']:12.0f}{result['whole_machine']:16.0f}")


if __name__ == "__main__":
    main()
