"""What works on this machine, and what to type where something does not."""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import numpy as np
import psutil
from packaging.requirements import Requirement

from bires.envs.tasks import SUITE, has_suite
from bires.machine import hardware, mps
from bires.machine.memory import free_memory
from bires.tools import video
from bires.tools.diagnoses import Diagnosis, State, examined, show

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NPROC")
JAX_SETTINGS = ("JAX_PLATFORMS", "JAX_ENABLE_X64", "JAX_DISABLE_JIT", "JAX_DEBUG_NANS", "XLA_FLAGS")
EXTRAS = {
    "video": "imageio_ffmpeg",
    "tensorboard": "tensorboardX",
    "wandb": "wandb",
    "onnx": "onnx",
    "minari": "minari",
    "minatar": "minatar",
    "box2d": "Box2D",
    "ray": "ray",
}
GIGABYTE = 10**9


def doctor(as_json: bool) -> int:
    """Prints what all checks say; exit code 1 if something that training needs is broken, else 0."""
    found = (diagnosis for check in CHECKS for diagnosis in examined(check))
    return show(found, as_json, "Training works here.", "Training does not work here")


# What training needs.


def versions() -> Iterator[Diagnosis]:
    """The installed packages against the bounds of this one."""
    yield Diagnosis("python", "ok", f"{platform.python_version()} at {sys.executable}")
    wrong, seen = [], []
    for wanted in needed():
        try:
            there = metadata.version(wanted.name)
        except metadata.PackageNotFoundError:
            there = "missing"
        seen.append(f"{wanted.name} {there}")
        if there == "missing" or not wanted.specifier.contains(there, prereleases=True):
            wrong.append(f"{wanted.name} {there}, wanted {wanted.specifier}")
    if wrong:
        yield Diagnosis("packages", "broken", "; ".join(wrong), "pip install --upgrade bires, in a fresh environment")
    else:
        yield Diagnosis("packages", "ok", ", ".join(seen))


def needed() -> Iterator[Requirement]:
    """What the package asks for on this Python; DMControl also where it came by a command of its own."""
    for wanted in map(Requirement, metadata.requires("bires") or []):
        by_itself = wanted.name == Requirement(SUITE).name and has_suite()
        if by_itself or wanted.marker is None or wanted.marker.evaluate({"extra": ""}):
            yield wanted


def simulator() -> Iterator[Diagnosis]:
    """One step of a DMControl task, or of one of MuJoCo's where DMControl is not installed."""
    from bires.envs.recipe import recipe

    there = has_suite()
    if not there:
        yield Diagnosis("DMControl", "absent", "dm-control is not installed", f"pip install --no-deps {SUITE}")
    task, name = ("cartpole-balance", "DMControl") if there else ("InvertedPendulum-v5", "MuJoCo")
    try:
        environment = recipe(task, "modern").build()
        environment.reset(0)
        environment.step(np.zeros(environment.space.action, np.float32))
        environment.close()
    except Exception as error:
        advice = "unset MUJOCO_GL" if os.environ.get("MUJOCO_GL", "disable") != "disable" else "see packages, above"
        yield Diagnosis("simulator", "broken", f"{task} does not step: {error}", advice)
    else:
        yield Diagnosis("simulator", "ok", f"{name} steps")


def accelerator() -> Iterator[Diagnosis]:
    """What JAX computes on, and whether a GPU is left idle."""
    import jax
    import jax.numpy as jnp

    hardware.prepare()
    device = jax.devices()[0]
    answer = float(jnp.ones(8).sum())
    if answer != 8:
        yield Diagnosis("jax", "broken", f"1 + … + 1 (8 times) = {answer:g} on {device}", "reinstall jax and jaxlib")
    idle = device.platform == "cpu" and (Path("/dev/nvidia0").exists() or shutil.which("nvidia-smi"))
    fix = "pip install 'bires[cuda13]' (driver 580 or newer) or 'bires[cuda12]'"
    if idle:
        yield Diagnosis("GPU", "advice", f"there is one, but JAX computes on {device.device_kind}", fix)
    elif device.platform == "cpu":
        yield Diagnosis("GPU", "absent", "JAX computes on the CPU")
    else:
        yield Diagnosis("GPU", "ok", f"{len(jax.devices())} × {device.device_kind}")
        if device.platform == "gpu":
            yield sharing()


def sharing() -> Diagnosis:
    """Whether several processes can compute on the GPU at once."""
    if hardware.can_share():
        return Diagnosis("GPU for several processes", "ok", "NVIDIA's MPS starts")
    fix = f"install {mps.CONTROL} (it comes with NVIDIA's driver): large populations are faster with it"
    return Diagnosis("GPU for several processes", "advice", f"{mps.CONTROL} is not there, or does not start", fix)


def cores() -> Iterator[Diagnosis]:
    """Cores that this process may use, and settings that take some away."""
    allowed, there = hardware.cores(), os.cpu_count() or 1
    quota = cpu_quota()
    found = f"{allowed} of {there} cores"
    if quota is not None and quota < allowed:
        fix = f"taskset -c 0-{max(0, int(quota) - 1)} bires …, so that no more threads are started than can run"
        yield Diagnosis("cores", "advice", f"{found}, but a quota of {quota:g}", fix)
    else:
        yield Diagnosis("cores", "ok", found)
    given = [f"{name}={os.environ[name]}" for name in (*THREADS, *JAX_SETTINGS) if name in os.environ]
    if given:
        names = " ".join(text.split("=")[0] for text in given)
        yield Diagnosis("thread and JAX settings", "advice", ", ".join(given), f"unset {names}, unless you mean it")
    else:
        yield Diagnosis("thread and JAX settings", "ok", "none: cores are shared out by bires")


def cpu_quota(path: Path = Path("/sys/fs/cgroup/cpu.max")) -> float | None:
    """The cores that a container may use, or None."""
    try:
        limit, period = path.read_text().split()
        return None if limit == "max" else int(limit) / int(period)
    except (OSError, ValueError):
        return None


def room() -> Iterator[Diagnosis]:
    """Memory, disk and what worker processes share."""
    free = free_memory()  # what a container may have counts
    found = f"{free / GIGABYTE:.1f} of {psutil.virtual_memory().total / GIGABYTE:.1f} GB free"
    short = free < GIGABYTE
    yield Diagnosis("memory", "broken" if short else "ok", found, "close other programs" if short else "")
    yield disk("runs", Path.cwd(), "cd to a larger disk, or give --out")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    yield disk("compilation cache", cache, "set XDG_CACHE_HOME to a folder you may write to")


def disk(what: str, path: Path, fix: str) -> Diagnosis:
    """Whether a folder can be written to, and how much fits."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            free = shutil.disk_usage(path).free
    except OSError as error:
        return Diagnosis(f"disk for {what}", "broken", f"{path}: {error.strerror}", fix)
    state: State = "broken" if free < GIGABYTE / 10 else "advice" if free < 5 * GIGABYTE else "ok"
    return Diagnosis(f"disk for {what}", state, f"{path}: {free / GIGABYTE:.1f} GB free", "" if state == "ok" else fix)


# What is optional.


def pictures() -> Iterator[Diagnosis]:
    """Which GL libraries can draw without a display (`bires play`)."""
    works, failures = [], []
    for backend in video.chosen_backends()[:2]:
        done = video.render(["probe"], backend, patience=60)
        works += [backend] if done.returncode == 0 else []
        failures += [] if done.returncode == 0 else [f"{backend}: {video.last_line(done.stderr)}"]
    if works:
        yield Diagnosis("GL", "ok", f"{' and '.join(works)} can draw")
    else:
        yield Diagnosis("GL", "absent", "; ".join(failures), video.GL_ADVICE)


def extras() -> Iterator[Diagnosis]:
    for extra, module in EXTRAS.items():
        there = importlib.util.find_spec(module) is not None
        fix = "" if there else f"pip install 'bires[{extra}]'"
        yield Diagnosis(f"bires[{extra}]", "ok" if there else "absent", "installed" if there else "not installed", fix)


def roms() -> Iterator[Diagnosis]:
    """The games of ale-py, which come with its wheel."""
    if importlib.util.find_spec("ale_py") is None:
        yield Diagnosis("Atari", "absent", "ale-py is not installed", "pip install 'bires[atari]'")
        return
    from ale_py import roms as games

    count = len(games.get_all_rom_ids())
    fix = "" if count else "pip install --force-reinstall --no-deps ale-py"
    yield Diagnosis("Atari", "ok" if count else "absent", f"ale-py with {count} games", fix)


CHECKS = (versions, simulator, accelerator, cores, room, pictures, extras, roms)
