"""Faults of simulators: a world that hangs, ends its process, forks or floods the output, in one step of one member."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
from gymnasium.envs.classic_control import PendulumEnv
from gymnasium.wrappers import TimeLimit

from bires.envs.slots import TRAIN, episode_seed

from .kinds import Wrong, kind
from .shaken import Shaken
from .subjects import FILES, Subject, differences

DEED, ONCE = "BIRES_CHAOS_DEED", "BIRES_CHAOS_ONCE"
DOOMED = episode_seed(1, TRAIN, 2)
"""The third episode of the member with seed 1."""
WORLD = Subject(
    "DDPG in a world that misbehaves",
    (
        *("benchmarks.chaos.worlds:fickle", "--algorithm", "bi-res-ddpg", "--seeds", "2", "--steps", "1000"),
        *("--eval-every", "500", "--workers", "2", "--cohorts", "threads"),
    ),
    ("worker",),
)


def hang() -> None:
    """In C, with Python's lock: no handler of a signal can run."""
    ctypes.PyDLL(None).pause()


def leave() -> None:
    os._exit(0)


def crash() -> None:
    ctypes.string_at(0)


def fork() -> None:
    """Leaves a child that has all pipes open, and dies."""
    if os.fork() == 0:
        time.sleep(3600)
        os._exit(0)
    os.kill(os.getpid(), signal.SIGKILL)


def flood() -> None:
    for stream in (sys.stdout, sys.stderr):
        stream.write("the floor is wet\n" * 200_000)


DEEDS: dict[str, Callable[[], None]] = {one.__name__: one for one in (hang, leave, crash, fork, flood)}


class Fickle(PendulumEnv):
    """A pendulum that does something else in its 40th step of one episode: once, or whenever it comes there."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self._steps, self._doomed = 0, seed == DOOMED
        return super().reset(seed=seed, options=options)

    def step(self, action: Any) -> Any:
        self._steps += 1
        deed, once = os.environ.get(DEED), os.environ.get(ONCE)
        if deed and self._doomed and self._steps == 40 and not (once and Path(once).exists()):
            if once:
                Path(once).touch()
            DEEDS[deed]()
        outcome: Any = super().step(action)  # type: ignore[no-untyped-call]
        return outcome


def fickle() -> gymnasium.Env:
    return TimeLimit(Fickle(), 200)


def misbehave(run: Shaken, deed: str, always: bool = False) -> None:
    """A whole run with that deed in it; all members must end as if nothing had been."""
    once = run.out.with_name(f"{run.out.name}.once")
    variables: dict[str, Any] = {DEED: deed, ONCE: None if always else str(once)}
    run.start(moment="impatient" if deed == "hang" else "", **variables)
    run.ended(0)
    if not always and not once.exists():
        raise Wrong("the world did not misbehave")


def all_the_same(run: Shaken, deed: str) -> None:
    misbehave(run, deed)
    if found := differences(run.calm, run.out):
        raise Wrong(f"differs: {found}")


def other_the_same(run: Shaken, deed: str) -> None:
    """Member 1 is frozen; member 0 never knew it."""
    misbehave(run, deed, always=True)
    for name in FILES:
        rows = [
            [line for line in (folder / name).read_text().splitlines() if line.startswith("0,")]
            for folder in (run.calm, run.out)
        ]
        if rows[0] != rows[1]:
            raise Wrong(f"{name} of member 0 differs")
    if "failed" not in (run.out / "members.csv").read_text().splitlines()[2]:
        raise Wrong("member 1 was not frozen")
    if "was lost 3 times" not in (run.out / "errors" / "member-1.txt").read_text():
        raise Wrong("errors/member-1.txt does not say why")


REPLACED = "the worker is replaced, its episodes rebuilt; nothing changes"
FROZEN = "the member is frozen after the third time; the others do not change"


@kind("an environment hangs", REPLACED, "world")
def hang_once(run: Shaken) -> None:
    all_the_same(run, "hang")


@kind("an environment calls os._exit", REPLACED, "world")
def leave_once(run: Shaken) -> None:
    all_the_same(run, "leave")


@kind("an environment crashes (SIGSEGV)", REPLACED, "world")
def crash_once(run: Shaken) -> None:
    all_the_same(run, "crash")


@kind("an environment forks, then its process is killed", "replaced, nothing changes; the fork does not stay", "world")
def fork_once(run: Shaken) -> None:
    all_the_same(run, "fork")


@kind("an environment floods the output", "nothing changes", "world")
def flood_always(run: Shaken) -> None:
    all_the_same(run, "flood")


@kind("an environment crashes in the same step every time", FROZEN, "world")
def crash_always(run: Shaken) -> None:
    other_the_same(run, "crash")


@kind("an environment hangs in the same step every time", FROZEN, "world")
def hang_always(run: Shaken) -> None:
    other_the_same(run, "hang")


@kind("an environment hangs, kill -9 of the trainer", "no process stays", "world")
def hang_and_kill(run: Shaken) -> None:
    once = run.out.with_name(f"{run.out.name}.once")
    variables: dict[str, Any] = {DEED: "hang", ONCE: str(once)}
    run.start(**variables)
    while run.running and not once.exists():
        time.sleep(0.02)
    run.kill()
    run.start()
    run.ended(0)
    if found := differences(run.calm, run.out):
        raise Wrong(f"differs: {found}")
