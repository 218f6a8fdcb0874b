"""Studies on a Ray cluster: every population is a task that continues from its checkpoint on any node.

A task gets plain data and leaves everything in the run folder, on storage that all nodes share; so Ray only has to find
a node and to notice when one is lost. Progress is read from the run folders, too.
"""

from __future__ import annotations

import logging
import os
import socket
import sys
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from bires.errors import UserError, writing_to
from bires.machine.hardware import cores, leave_accelerators
from bires.machine.terminal import counted
from bires.settings import config as configs
from bires.settings.options import Options, Stopped
from bires.studies import estimate
from bires.studies.plan import Job
from bires.studies.progress import ProgressBoard
from bires.studies.run import CARRIED, Failures, StudyStopped, Way, attempt
from bires.training.display import Display
from bires.training.start import stoppable

RETRIES = 100
"""Of one population, after lost nodes, killed workers and clean stops; a user's errors are not tried again."""
PATIENCE_S = 600.0
"""How long a task waits for a run folder whose last owner still seems to live: a node that only lost its network."""
LOOK_S = 1.0
STOP_S = 300.0
"""How long tasks may take to write their checkpoints when everything is stopped."""
CONNECT_S = 5.0


@dataclass(frozen=True)
class Share:
    """The resources that a task needs of its node."""

    cpus: int
    gpus: float
    memory: int


def over(address: str) -> Way:
    """How to run populations on the cluster at an address."""
    return partial(everywhere, address)


def everywhere(address: str, jobs: Sequence[Job], options: Options, display: Display) -> Failures:
    """All populations at once, as far as the cluster has room."""
    if not jobs:
        return {}
    leave_accelerators()
    ray = connect(address)
    try:
        with display, stoppable() as stop, visible(jobs[0].path.parent) as mark:
            nodes = [n["Resources"] for n in ray.nodes() if n["Alive"] and n["Resources"].get("CPU", 0) >= 1]
            cpus = sum(n["CPU"] for n in nodes)
            display.say(f"{counted(len(jobs), 'population')} on {counted(len(nodes), 'node')} with {cpus:g} CPUs")
            parts = [share(job.members, estimate.memory(job), nodes, options.workers) for job in jobs]
            tasks = {submit(ray, job, options, part, mark): job for job, part in zip(jobs, parts, strict=True)}
            return gather(ray, tasks, display, stop)
    finally:
        ray.shutdown()


def gather(ray: Any, tasks: Mapping[Any, Job], display: Display, stop: Any) -> Failures:
    """Waits for all tasks; however it ends, no task is left running."""
    board, failures, ended = ProgressBoard(display, list(tasks.values())), Failures(), Counter[str]()
    left = list(tasks)
    try:
        while left:
            done, left = ray.wait(left, num_returns=1, timeout=LOOK_S)
            for task in done:
                failure = result(ray, task)
                ended["failed" if failure else "done"] += 1
                job = tasks[task]
                if failure:
                    failures[job.path] = failure
                display.say(f"{job.path.name}: " + (f"cannot run; the others go on.\n{failure}" if failure else "done"))
            board.look([tasks[task] for task in left], ended)
            if stop():
                display.say("stopping: every population writes a checkpoint …")
                raise StudyStopped(f"stopped with {ended['done']} of {len(tasks)} populations done")
    finally:
        for task in left:
            ray.cancel(task)
        if left:
            ray.wait(left, num_returns=len(left), timeout=STOP_S)
    return failures


def result(ray: Any, task: Any) -> str | None:
    """Why a population could not be run, or None."""
    try:
        ending: dict[str, str] = ray.get(task)
    except ray.exceptions.RayError as error:
        if isinstance(error, ray.exceptions.RayTaskError) and not isinstance(error, Stopped):
            raise  # a defect of ours
        # Its node was lost, or it was cancelled, more often than a task is tried again.
        return f"Given up after {RETRIES} attempts; the same command tries again. {error}"
    if "stopped" in ending:
        raise StudyStopped(ending["stopped"])
    return ending.get("failed")


def submit(ray: Any, job: Job, options: Options, part: Share, mark: str) -> Any:
    """Hands a population to Ray; a fresh process each, as JAX takes its devices once and for all."""
    settings = {name: getattr(options, name) for name in CARRIED} | {"patience": PATIENCE_S}
    task = ray.remote(
        num_cpus=part.cpus,
        num_gpus=part.gpus,
        memory=part.memory or None,
        max_calls=1,
        max_retries=RETRIES,
        retry_exceptions=[Stopped],
    )(shard)
    return task.options(name=job.path.name).remote(
        configs.to_json(job.config), str(job.path.resolve()), settings, environment(part), mark, sys.argv
    )


def shard(
    config: dict[str, Any],
    path: str,
    settings: dict[str, Any],
    surroundings: dict[str, str],
    mark: str,
    command: list[str],
) -> dict[str, str]:
    """The task: one population, from its newest checkpoint to its end. An orderly stop of its node raises `Stopped`."""
    os.environ.update(surroundings)
    folder = Path(path).parent
    if not (folder / mark).exists():
        return {"failed": f"{folder} is not the same folder on {socket.gethostname()}. {SHARE}"}
    return attempt(config, path, settings, command)


SHARE = "Give an --out on storage that all nodes of the cluster share under the same name."


@contextmanager
def visible(folder: Path) -> Iterator[str]:
    """A mark in the study's folder by which a task knows that it sees the same storage."""
    mark = folder / f".ray-{uuid.uuid4()}"
    with writing_to(folder, SHARE):
        folder.mkdir(parents=True, exist_ok=True)
        mark.touch()
    try:
        yield mark.name
    finally:
        mark.unlink(missing_ok=True)


def share(members: int, memory: int, nodes: Sequence[Mapping[str, float]], asked: int | None) -> Share:
    """A node's cores are dealt out evenly, at most one to a member; its GPUs in the same proportion.

    ``asked`` (`--workers`) is a number of cores instead. Where some nodes have GPUs, populations run on these alone;
    the smallest node counts, so that all can take any population.
    """
    able = [node for node in nodes if node.get("GPU", 0) >= 1] or list(nodes)
    if not able:
        raise UserError("No node of the Ray cluster has a CPU to lend. Start some: `ray start --address=HOST:PORT`.")
    least = min(able, key=lambda node: node["CPU"])
    there = int(least["CPU"])
    cpus = there // -(-there // members) if asked is None else max(1, asked)
    most = int(max(node["CPU"] for node in able))
    if cpus > most:
        raise UserError(f"--workers was given {asked}; accepted: up to {most}, the CPUs of the largest Ray node.")
    gpus = min(least.get("GPU", 0.0), least.get("GPU", 0.0) * cpus / there)
    # Too large for every node: let it start all the same, and say in its own words what would fit.
    fitting = min(memory, int(max(node.get("memory", 0) for node in able)))
    return Share(cpus, float(int(gpus)) if gpus >= 1 else round(gpus, 3), fitting)


def environment(part: Share) -> dict[str, str]:
    """What a task sets before JAX starts, so that it uses no more than its share."""
    variables = {"BIRES_CORES": str(part.cpus)}
    if 0 < part.gpus < 1:
        variables["XLA_PYTHON_CLIENT_MEM_FRACTION"] = f"{0.9 * part.gpus:.3f}"
    return variables


def connect(address: str) -> Any:
    """Ray, connected to a cluster or to a local one, without its messages."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # else it warns
    try:
        import ray
    except ImportError:
        raise UserError("--ray needs Ray, which is not installed. Type: pip install 'bires[ray]'") from None
    silent: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if address == "local":
        ray.init("local", num_cpus=cores(), include_dashboard=False, **silent)
        return ray
    if address != "auto":
        require_listener(address)
    try:
        ray.init(address, **silent)
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        raise UserError(f"--ray was given {address!r}, where no Ray cluster lets us in: {error}\n{ACCEPTED}") from error
    return ray


ACCEPTED = (
    "Accepted: local (this machine alone), auto (the cluster that this machine belongs to), or its HOST:PORT, as "
    "`ray start --head` prints it. This machine must be one of its nodes: `ray start --address=HOST:PORT`."
)


def require_listener(address: str) -> None:
    """Ray itself would wait for minutes."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        raise UserError(f"--ray was given {address!r}. {ACCEPTED}")
    try:
        socket.create_connection((host, int(port)), CONNECT_S).close()
    except (OSError, OverflowError) as error:
        raise UserError(f"--ray was given {address!r}, where nothing answers ({error}). {ACCEPTED}") from error
