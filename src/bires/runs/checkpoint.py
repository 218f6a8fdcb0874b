"""Checkpoints: everything a run needs to go on as if nothing had happened.

A checkpoint is a folder `checkpoints/step-N` with the learners and counters: written aside, flushed to disk,
checksummed and renamed, so it is complete or absent. Replay is kept beside it in segments that hold only what is new
since the last checkpoint. Arrays are in safetensors files and the rest in JSON: loading runs no code.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from bires.machine.memory import free_memory

KEPT = 2
FORMAT = 1
LARGEST_META = 100_000_000
"""Bytes; a usual one has some thousand."""


class CorruptCheckpoint(Exception):
    """A checkpoint that cannot be trusted: incomplete, changed, or not one of ours."""


class UnreadableCheckpoint(CorruptCheckpoint):
    """A checkpoint that may be whole, but cannot be read now: a permission, too little memory, a disk that is away."""


ABSENT = (FileNotFoundError, NotADirectoryError, IsADirectoryError)
"""What is raised for a file that is not there; any other `OSError` may pass."""


def unread(path: Path, error: Exception) -> CorruptCheckpoint:
    """The error for a file that could not be read."""
    passing = isinstance(error, OSError) and not isinstance(error, ABSENT)
    return (UnreadableCheckpoint if passing else CorruptCheckpoint)(f"{path} cannot be read: {error}")


@dataclass
class Checkpoint:
    """A moment of a run, in member order, before step number ``step``."""

    step: int
    arrays: dict[str, np.ndarray]
    """Learners, noise, keys and counters."""
    data: dict[str, Any]
    """Sizes of the CSV files, running episodes, and what else is not an array."""
    replay: list[Segment] = field(default_factory=list)

    def reached(self, member: int) -> int:
        """The step up to which a member was trained: it may have diverged, failed or been stopped before."""
        ends = [self.data.get(name) for name in ("diverged", "stopped")]
        found = [one.get(str(member)) for one in ends if isinstance(one, dict)]
        return min([self.step, *(step for step in found if isinstance(step, int))])


@dataclass(frozen=True)
class Segment:
    """Rows of the replay for the steps [start, stop) of all members, in a file of its own."""

    file: str
    start: int
    stop: int
    sha256: str

    @property
    def plausible(self) -> bool:
        """Whether this may be a file of ours: never a path, and steps in order."""
        numbers = type(self.start) is int and type(self.stop) is int
        return numbers and 0 <= self.start < self.stop and self.file == segment_name(self.start, self.stop)


def segment_name(start: int, stop: int) -> str:
    """The file of a `Segment`."""
    return f"replay-{start:012d}-{stop:012d}.safetensors"


def digest(path: Path) -> str:
    """The SHA-256 checksum of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def flush(path: Path) -> None:
    """Makes a file or a folder's entries survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def save_arrays(path: Path, arrays: dict[str, np.ndarray]) -> str:
    """Writes arrays and returns the file's checksum; a disk that does not take them is an `OSError`."""
    try:
        save_file({name: np.ascontiguousarray(array) for name, array in arrays.items()}, path)
    except SafetensorError as error:
        raise OSError(errno.ENOSPC, str(error), str(path)) from error
    flush(path)
    return digest(path)


def load_arrays(path: Path, sha256: str) -> dict[str, np.ndarray]:
    """Reads arrays whose checksum is known."""
    try:
        require_room(path, free_memory(), UnreadableCheckpoint)
        if digest(path) != sha256:
            raise CorruptCheckpoint(f"{path} is not the file that was written (its checksum differs)")
        return dict(load_file(path))
    except (OSError, SafetensorError) as error:
        raise unread(path, error) from error


def require_room(path: Path, most: float, error: type[CorruptCheckpoint] = CorruptCheckpoint) -> None:
    """Refuses a file that is too large to be read: for ever, or (``error``) now."""
    size = path.stat().st_size
    if size > most:
        raise error(f"{path} has {size} bytes, more than can be read here")


class Store:
    """The checkpoints of one run."""

    def __init__(self, run: Path, name: str = "checkpoints") -> None:
        self.path = run / name

    def folder(self, step: int) -> Path:
        """Where the checkpoint of a step is."""
        return self.path / f"step-{step:012d}"

    def steps(self) -> list[int]:
        """The steps at which there is a checkpoint, newest first."""
        try:
            there = os.listdir(self.path)  # `Path.glob` hides errors from Python 3.13 on
        except FileNotFoundError:
            return []
        folders = [name for name in there if name.startswith("step-") and (self.path / name).is_dir()]
        found = [name.removeprefix("step-") for name in folders]
        return sorted((int(name) for name in found if name.isascii() and name.isdigit()), reverse=True)

    def save_replay(self, arrays: dict[str, np.ndarray], start: int) -> Segment:
        """Writes the replay of the steps from ``start``: arrays of (members, steps, ·)."""
        self.path.mkdir(exist_ok=True)
        stop = start + next(iter(arrays.values())).shape[1]
        name = segment_name(start, stop)
        aside = self.path / (name + ".part")
        sha256 = save_arrays(aside, arrays)
        aside.replace(self.path / name)
        return Segment(name, start, stop, sha256)

    def save(self, checkpoint: Checkpoint) -> None:
        """Writes a checkpoint and removes what only older ones needed."""
        self.path.mkdir(exist_ok=True)
        final = self.folder(checkpoint.step)
        aside = self.path / f"{final.name}.part"
        shutil.rmtree(aside, ignore_errors=True)
        aside.mkdir()
        sha256 = save_arrays(aside / "arrays.safetensors", checkpoint.arrays)
        meta = {
            "format": FORMAT,
            "step": checkpoint.step,
            "arrays_sha256": sha256,
            "data": checkpoint.data,
            "replay": [vars(segment) for segment in checkpoint.replay],
        }
        text = json.dumps(meta)
        (aside / "meta.json").write_text(hashlib.sha256(text.encode()).hexdigest() + "\n" + text)
        flush(aside / "meta.json")
        flush(aside)
        old = self.path / f"{final.name}.old.part"
        shutil.rmtree(old, ignore_errors=True)
        if final.exists():  # it is whole under its name, or absent: never half removed
            final.rename(old)
        aside.rename(final)
        flush(self.path)
        shutil.rmtree(old, ignore_errors=True)
        self._tidy(checkpoint)

    def keep(self, step: int, place: Store) -> None:
        """Copies a checkpoint, without its replay, to where none is removed."""
        ours, theirs = self.folder(step), place.folder(step)
        if step in place.steps() or not ours.is_dir():
            return
        place.path.mkdir(exist_ok=True)
        aside = theirs.with_name(f"{theirs.name}.part")
        shutil.rmtree(aside, ignore_errors=True)
        shutil.copytree(ours, aside)
        for path in (*aside.iterdir(), aside):
            flush(path)
        aside.rename(theirs)
        flush(place.path)

    def load(self, step: int, with_replay: bool = True) -> Checkpoint:
        """Reads and checks a checkpoint; its replay segments are checked too unless they are not wanted."""
        folder = self.folder(step)
        meta = self._meta(folder)
        try:
            segments = [Segment(**segment) for segment in meta["replay"]]
            arrays_sha256, data = meta["arrays_sha256"], dict(meta["data"])
        except (KeyError, TypeError, ValueError) as error:
            raise CorruptCheckpoint(f"{folder}/meta.json is not a checkpoint's: {error}") from error
        for segment in segments:
            if not segment.plausible:
                raise CorruptCheckpoint(f"{folder}/meta.json names a replay file that no run wrote: {segment}")
            if with_replay and not os.path.lexists(self.path / segment.file):
                raise CorruptCheckpoint(f"{self.path / segment.file} is missing")
        return Checkpoint(step, load_arrays(folder / "arrays.safetensors", arrays_sha256), data, segments)

    def load_replay(self, segment: Segment) -> dict[str, np.ndarray]:
        """The rows of a segment, checked by its checksum."""
        return load_arrays(self.path / segment.file, segment.sha256)

    def set_aside(self, step: int) -> None:
        """Keeps a damaged checkpoint under a name that no run reads."""
        folder = self.folder(step)
        aside = folder.with_name(f"damaged-{folder.name}")
        shutil.rmtree(aside, ignore_errors=True)
        folder.rename(aside)

    def clear_parts(self) -> None:
        """Removes what an interrupted write left."""
        for path in self.path.glob("*.part"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    def verify(self, segment: Segment) -> None:
        """Refuses a replay file that is not the one that was written, without loading it."""
        path = self.path / segment.file
        try:
            found = digest(path)
        except OSError as error:
            raise unread(path, error) from error
        if found != segment.sha256:
            raise CorruptCheckpoint(f"{path} is not the file that was written (its checksum differs)")

    def _meta(self, folder: Path) -> dict[str, Any]:
        try:
            require_room(folder / "meta.json", LARGEST_META)
            sha256, _, text = (folder / "meta.json").read_text().partition("\n")
            meta = json.loads(text)
        except (OSError, ValueError, RecursionError) as error:
            raise unread(folder / "meta.json", error) from error
        if hashlib.sha256(text.encode()).hexdigest() != sha256 or not isinstance(meta, dict):
            raise CorruptCheckpoint(f"{folder}/meta.json is not the file that was written (its checksum differs)")
        if meta.get("format") != FORMAT:
            raise CorruptCheckpoint(f"{folder} has format {meta.get('format')}; this version reads {FORMAT}")
        return meta

    def _tidy(self, newest: Checkpoint) -> None:
        for step in self.steps()[KEPT:]:
            shutil.rmtree(self.folder(step))
        needed: set[str] = set()
        for step in self.steps():
            try:
                needed |= {segment["file"] for segment in self._meta(self.folder(step))["replay"]}
            except UnreadableCheckpoint:
                return  # it may be whole, and nobody knows now which files it needs
            except CorruptCheckpoint:
                continue
        for path in self.path.glob("replay-*"):
            if path.name not in needed:
                path.unlink()
