"""Faults of what a run writes to: full, without inodes, read-only, limited. Some need the right to mount."""

from __future__ import annotations

import resource
import subprocess
from functools import cache
from pathlib import Path

from .kinds import Impossible, Wrong, kind
from .shaken import Shaken

STOPS = "exit code 3, the last checkpoint whole; then it goes on"


@cache
def private() -> tuple[str, ...]:
    """The command in front of another that may mount, where only that one sees it."""
    for words in (("unshare", "-m"), ("unshare", "-rm")):
        try:
            tried = subprocess.run([*words, "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True, check=False)
        except OSError:
            break
        if tried.returncode == 0:
            return words
    raise Impossible("mounting is not allowed here")


def in_small(run: Shaken, options: str) -> None:
    """Trains on in a small file system in memory, until it is full."""
    mounted = private()
    run.kill()
    small = run.out.with_name("small")
    small.mkdir(exist_ok=True)
    script = f"""mount -t tmpfs -o {options} none {small} && cp -a {run.out} {small}/run || exit 99
"$@"; code=$?
rm -rf {run.out} && cp -a {small}/run {run.out} || exit 98
exit $code"""
    train = (*run.subject.train, "--out", str(small / "run"))
    run.start(*mounted, "bash", "-c", script, "bash", words=train)
    run.ended(0, 3)
    run.require_whole()


def used(folder: Path) -> tuple[int, int]:
    """Bytes and entries of a folder, in pages as tmpfs counts."""
    found = [folder, *folder.rglob("*")]
    return sum(-(-path.stat().st_size // 4096) * 4096 for path in found if path.is_file()), len(found)


@kind("disk full (a small tmpfs)", STOPS)
def full_disk(run: Shaken) -> None:
    private()
    size, _ = used(run.out)
    in_small(run, f"size={size + 4096 * int(run.rng.integers(8, 30))}")


@kind("no inode left (a small tmpfs)", STOPS)
def no_inodes(run: Shaken) -> None:
    private()
    _, entries = used(run.out)
    in_small(run, f"nr_inodes={entries + int(run.rng.integers(2, 8))}")


@kind("disk full (file-size limit)", STOPS)
def file_size(run: Shaken) -> None:
    assert run.process is not None
    resource.prlimit(run.process.pid, resource.RLIMIT_FSIZE, (3_000, resource.RLIM_INFINITY))
    run.ended(0, 3)
    run.require_whole()


@kind("/dev/shm full", "other memory is used, or exit code 2 says what to enlarge")
def full_memory(run: Shaken) -> None:
    mounted = private()
    run.kill()
    script = 'mount -t tmpfs -o size=4k,nr_inodes=1 none /dev/shm || exit 99; exec "$@"'
    run.start(*mounted, "bash", "-c", script, "bash")
    if not run.next_checkpoint():
        run.ended(0, 2)


@kind("the folder read-only", "exit code 2; nothing is changed")
def read_only(run: Shaken) -> None:
    mounted = private()
    run.kill_before_its_end()
    before = {path: path.stat().st_mtime_ns for path in run.out.rglob("*")}
    script = f'mount --bind {run.out} {run.out} && mount -o remount,bind,ro {run.out} || exit 99; exec "$@"'
    run.start(*mounted, "bash", "-c", script, "bash")
    run.ended(2)
    if "Cannot write" not in run.said():
        raise Wrong(f"it said: {run.said()}")
    if {path: path.stat().st_mtime_ns for path in run.out.rglob("*")} != before:
        raise Wrong("files were changed")


@kind("no writable home, no compilation cache", "the run goes on; it compiles anew")
def homeless(run: Shaken) -> None:
    run.kill()
    run.start(HOME="/proc/nobody", XDG_CACHE_HOME=None, JAX_COMPILATION_CACHE_DIR=None)
    if not run.next_checkpoint():
        run.ended(0)


@kind("few file descriptors, from the start (ulimit -n)", "it goes on, or exit code 2 or 3 says so")
def few_files(run: Shaken) -> None:
    run.kill()
    limit = int(run.rng.integers(9, 20))
    run.start("bash", "-c", f'ulimit -n {limit}; exec "$@"', "bash")
    if not run.next_checkpoint():
        run.ended(0, 2, 3)
        if "Traceback" in run.said():
            raise Wrong(f"with {limit} descriptors: {run.said()}")


@kind("few file descriptors, all of a sudden", STOPS)
def no_more_files(run: Shaken) -> None:
    assert run.process is not None
    resource.prlimit(run.process.pid, resource.RLIMIT_NOFILE, (3, 3))
    if run.ended(0, 2, 3) == 2 and not run.finished:  # 2: once it has trained, while it makes its summary
        raise Wrong(f"exit code 2, expected 3; it said: {run.said()}")
    run.require_whole()
