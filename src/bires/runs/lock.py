"""The lock of a run folder, on one machine and on storage that several share.

The owner holds the kernel's lock on `.lock`, and counts in that file every `BEAT_S` seconds. Among processes of one
machine the kernel's lock decides: it dies with its owner. Between machines it may not be seen, or outlive a node that
vanished; there the count decides: an owner whose count has stood still for `LOST_S` seconds, while somebody watched, is
gone. Clocks of different machines are never compared. An owner that was only asleep finds out before it goes on, and
stops.
"""

from __future__ import annotations

import os
import platform
import threading
import time
import uuid
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bires.errors import UserError, writing_to

BEAT_S = 5.0
LOST_S = 60.0
"""Many beats, as shared storage may be slow to show them."""
LOOK_S = 0.5
LONGEST = 4096
"""Characters of a lock file that are read."""


_held: weakref.WeakSet[Lock] = weakref.WeakSet()


def _let_go() -> None:
    """In a process that was forked from an owner, such as a simulator's: it must not keep what the owner had."""
    for lock in _held:
        lock.forsake()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go)


class LostLock(UserError):
    """Another process owns the run now; this one must not write to it any more."""


def machine() -> str:
    """Tells kernels apart, also where host names are equal."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        boot = "-"
    return f"{platform.node()} {boot}"


def owner(folder: Path) -> str:
    """The process that uses a run folder, or used it when it was killed; empty: none."""
    try:
        with (folder / ".lock").open() as file:
            return file.read(LONGEST).partition("\n")[0]
    except (OSError, UnicodeDecodeError):
        return ""


def elsewhere(text: str) -> bool:
    """Whether the lock was written on another machine."""
    lines = text.split("\n")
    return len(lines) > 1 and lines[1] != machine()


class Lock:
    """Keeps a run folder for one process, while the context lasts; a lock whose owner is gone counts for nothing."""

    def __init__(self, folder: Path, patience: float = 0.0, say: Callable[[str], None] = lambda text: None) -> None:
        self._folder, self._path = folder, folder / ".lock"
        self._patience, self._say = patience, say
        self._claim = f"process {os.getpid()} on {platform.node()}\n{machine()}\n{uuid.uuid4()} "
        self._count = 0
        self._taken = False
        self._end = threading.Event()

    def __enter__(self) -> Lock:
        self._file = self._acquire()
        try:
            with writing_to(self._folder):
                self._write()
        except UserError:
            self._file.close()
            raise
        self._thread = threading.Thread(target=self._keep_beating, daemon=True, name="bires-lock")
        self._thread.start()
        _held.add(self)
        return self

    def forsake(self) -> None:
        """Closes the file without a word; the lock stays with the process that has it open, too."""
        self._file.close()

    def __exit__(self, *_: object) -> None:
        _held.discard(self)
        self._end.set()
        self._thread.join(BEAT_S)
        try:
            if self._is_ours():
                self._file.truncate(0)
        except OSError:
            pass  # storage that is gone: others will see that the count stands still
        self._file.close()

    def lost(self) -> bool:
        """False while the folder is ours, else raises `LostLock`; looks again after a pause."""
        if not self._taken and time.monotonic() - self._beaten > LOST_S / 2:
            self._beat()  # we were asleep, or storage was: make sure before anything is written
        if self._taken:
            how = "was taken over while this process did not run" if self._path.exists() else "is not there any more"
            raise LostLock(f"{self._folder} {how}; nothing more is written.")
        return False

    def _acquire(self) -> Any:
        """Waits while the owner may be gone, and for at most the patience while it lives."""
        start = changed = time.monotonic()
        seen: str | None = None
        while True:
            file, free = self._open()
            file.seek(0)
            text = file.read(LONGEST)
            if free and not elsewhere(text):
                return file
            now = time.monotonic()
            still = text == seen
            if not still:
                changed = now
            gone = elsewhere(text) and now - changed > LOST_S
            if gone and free:
                return file
            file.close()
            lives = not elsewhere(text) or (seen is not None and not still)
            name = text.partition("\n")[0] or "another process"
            if gone:  # the file server keeps the lock of a node that vanished: leave it the old file
                self._path.unlink(missing_ok=True)
            elif lives and now - start >= self._patience:
                raise UserError(
                    f"{self._folder} is being trained by {name}; nothing was changed. "
                    "Wait for it, or give another --out."
                )
            elif seen is None:
                self._say(f"{self._folder} belongs to {name}; looking whether that is still there …")
            seen = text
            time.sleep(LOOK_S)

    def _open(self) -> tuple[Any, bool]:
        """The lock file, and whether the kernel let us have it."""
        import fcntl

        with writing_to(self._folder):
            self._folder.mkdir(parents=True, exist_ok=True)
            file = self._path.open("a+")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return file, False
        try:  # another process may have put another file there since we opened it
            return file, os.path.samestat(os.fstat(file.fileno()), self._path.stat())
        except OSError:
            return file, False

    def _write(self) -> None:
        """Writes our claim in place: the file is never empty."""
        with self._path.open("r+") as file:
            file.write(f"{self._claim}{self._count:012d}")
            file.truncate()
            file.flush()
            os.fsync(file.fileno())
        self._beaten = time.monotonic()

    def _is_ours(self) -> bool:
        try:  # by name: opening a file makes a network file system ask its server
            return self._path.read_text().startswith(self._claim)
        except FileNotFoundError:
            return False

    def _keep_beating(self) -> None:
        while not self._end.wait(BEAT_S) and not self._taken:
            self._beat()

    def _beat(self) -> None:
        """Counts on; a storage that does not answer is asked again at the next beat."""
        try:
            if not self._is_ours():
                self._taken = True
                return
            self._count += 1
            self._write()
        except OSError:
            pass
