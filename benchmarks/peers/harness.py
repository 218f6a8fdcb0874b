"""What every peer script shares: its arguments, the environment, the stopwatch and the line it prints."""

import argparse
import importlib.metadata
import json
import os
import platform
import select
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import gymnasium

ENV_ID = "dm_control/walker-stand-v0"
HIDDEN = (400, 300)
BATCH = 64
ACTOR_CRITICS = {"ddpg": (HIDDEN, BATCH), "td3": ((256, 256), 256), "sac": ((256, 256), 256)}  # layers and batch
CAPACITY = 100_000
LEARNING_STARTS = 200
DQN_HIDDEN = (64, 64)  # these three are Stable-Baselines3's defaults
DQN_BATCH = 32
DQN_EVERY = 4  # environment steps between two updates
PIXEL_BATCH = 32
PIXEL_CAPACITY = 5_000
WARM_UP = 600  # untimed steps: fills the replay past LEARNING_STARTS, compiles, warms the caches
BLOCKS = 5  # the timed steps are cut into this many blocks and the fastest is reported


@dataclass(frozen=True)
class Request:
    """What one command line asked for."""

    agent: str
    rule: str
    steps: int
    threads: int
    seed: int
    as_json: bool
    wait: bool


def parse_request(description: str, rules: Sequence[str] = ("td",), agents: Iterable[str] = ("",)) -> Request:
    """Read the command line that all peers share."""
    parser = argparse.ArgumentParser(description=description)
    known = list(agents)
    parser.add_argument("--agent", choices=known, default=known[0], help="for scripts that have several")
    parser.add_argument("--rule", choices=rules, default=rules[0], help="critic update")
    parser.add_argument("--steps", type=int, default=2_500, help="timed steps, in all blocks together")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1, help="threads the library may use")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", dest="as_json", help="print one line of JSON")
    parser.add_argument(
        "--wait",
        action="store_true",
        help="after the warm-up print 'ready' and wait for a line; after the result train on until the input closes",
    )
    request = Request(**vars(parser.parse_args()))
    if request.steps < BLOCKS or request.threads < 1:
        parser.error(
            f"got --steps {request.steps} --threads {request.threads}; "
            f"accepted are steps >= {BLOCKS} and threads >= 1, for example --steps 2500 --threads 1"
        )
    return request


def prepare(threads: int) -> None:
    """Bound the threads and silence third parties; call it before a learning library is imported."""
    warnings.filterwarnings("ignore")
    os.environ["MUJOCO_GL"] = "disable"
    os.environ["JAX_PLATFORMS"] = "cpu"
    for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[variable] = str(threads)
    if threads == 1:
        os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_cpu_multi_thread_eigen=false".strip()


def make_env() -> "gymnasium.Env[Any, Any]":
    """walker-stand as one flat float32 vector; without the checks that gymnasium makes at every step."""
    import gymnasium
    import numpy as np
    import shimmy
    from gymnasium.wrappers import DtypeObservation, FlattenObservation

    gymnasium.register_envs(shimmy)
    env = gymnasium.make(ENV_ID, disable_env_checker=True)
    return DtypeObservation(FlattenObservation(env), np.float32)


def steps_per_second(train: Callable[[int], object], request: Request) -> float:
    """Warm up, wait for the start if asked to, and return the rate of the fastest block; `train(n)` makes n steps."""
    train(WARM_UP)
    if request.wait:
        print("ready", flush=True)
        sys.stdin.readline()
    block = request.steps // BLOCKS
    best = float("inf")
    for _ in range(BLOCKS):
        start = time.perf_counter()
        train(block)
        best = min(best, time.perf_counter() - start)
    return block / best


def report(peer: str, rate: float, request: Request, packages: Iterable[str]) -> None:
    """Print the result: one line of JSON, or one of text."""
    versions = {"python": platform.python_version()} | {name: importlib.metadata.version(name) for name in packages}
    if request.as_json:
        record = {"peer": peer, "rule": request.rule, "steps_per_second": round(rate, 2)}
        print(json.dumps(record | {"threads": request.threads, "versions": versions}), flush=True)
    else:
        print(f"{peer} {request.rule}: {rate:.0f} steps/s with {request.threads} threads {versions}", flush=True)


def run(peer: str, train: Callable[[int], object], request: Request, packages: Sequence[str]) -> None:
    """Time `train`, report it, and under `--wait` stay a busy neighbour until every other process has finished."""
    rate = steps_per_second(train, request)
    report(peer, rate, request, (*packages, "numpy", "gymnasium", "shimmy", "dm-control", "mujoco"))
    while request.wait and not select.select([sys.stdin], [], [], 0)[0]:
        train(10)
