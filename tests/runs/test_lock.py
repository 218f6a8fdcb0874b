"""Who may write to a run folder: locks of this machine, of others, and of machines that vanished."""

import errno
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import bires
from bires.runs import lock
from bires.runs.checkpoint import Store
from bires.runs.lock import Lock, LostLock
from bires.settings.keywords import make_config
from bires.settings.options import Options, Stopped
from bires.training import launch
from bires.training.launch import begin_or_continue
from bires.training.plan import make_plan
from tests.helpers import TASK, configured, contents


@pytest.fixture
def hasty(monkeypatch):
    """Locks that lose patience in a moment."""
    for name, seconds in (("BEAT_S", 0.05), ("LOST_S", 0.5), ("LOOK_S", 0.02)):
        monkeypatch.setattr(lock, name, seconds)


def foreign(folder: Path, count: int = 0) -> None:
    """The lock of a process on another machine."""
    text = f"process 7 on faraway\nfaraway 0-0-0\n11111111-1111-1111-1111-111111111111 {count:012d}"
    (folder / ".lock").touch()
    with (folder / ".lock").open("r+") as file:
        file.write(text)
        file.truncate()


@pytest.mark.parametrize("server", ["forgets", "remembers"])
def test_the_lock_of_a_machine_that_vanished_is_taken_over(tmp_path, hasty, server):
    """Also when the file server still keeps the lock of the machine that is no more."""
    import fcntl

    foreign(tmp_path)
    said: list[str] = []
    with (tmp_path / ".lock").open() as kept:
        if server == "remembers":
            fcntl.flock(kept, fcntl.LOCK_EX)
        start = time.monotonic()
        with Lock(tmp_path, say=said.append) as ours:
            assert time.monotonic() - start >= lock.LOST_S
            assert f"process {os.getpid()} on" in lock.owner(tmp_path)
            time.sleep(4 * lock.BEAT_S)
            assert not ours.lost()
    assert "belongs to process 7 on faraway" in said[0]
    assert lock.owner(tmp_path) == ""


def test_an_owner_on_another_machine_that_still_counts_is_left_alone(tmp_path, hasty):
    """However long its beats are seen, and although the kernel here knows nothing of its lock."""
    end = threading.Event()

    def count() -> None:
        number = 0
        while not end.wait(lock.BEAT_S):
            number += 1
            foreign(tmp_path, number)

    foreign(tmp_path)
    counting = threading.Thread(target=count)
    counting.start()
    try:
        for patience in (0.0, 1.0):
            start = time.monotonic()
            with (
                pytest.raises(bires.UserError, match="is being trained by process 7 on faraway"),
                Lock(tmp_path, patience),
            ):
                pass
            assert time.monotonic() - start >= patience
    finally:
        end.set()
        counting.join()


def test_an_owner_whose_lock_was_taken_over_writes_nothing_more(tmp_path, quick, monkeypatch):
    """Its folder was taken over meanwhile: no checkpoint, no row, and the new owner's lock stays."""
    monkeypatch.setattr(lock, "LOST_S", 0.0)  # look at every step
    out = tmp_path / "run"
    before: dict[str, bytes] = {}

    def oversleep() -> bool:
        if Store(out).steps()[:1] == [30] and not before:
            foreign(out)
            before.update(contents(out))
        return False

    with pytest.raises(LostLock, match="taken over"):
        begin_or_continue(configured(quick), out, Options(workers=0), oversleep)
    assert contents(out) == before
    assert Store(out).steps() == [30, 0]
    assert lock.owner(out) == "process 7 on faraway"


def test_a_run_that_another_process_began_meanwhile_is_not_continued_with_other_settings(tmp_path, quick, monkeypatch):
    """Two commands of different settings and the same --out: the first is killed while the second makes its plan."""
    out, make = tmp_path / "run", make_plan

    def overtaken(*given):
        monkeypatch.setattr(launch, "make_plan", make)
        rounds = iter([False, True])
        with pytest.raises(Stopped):
            begin_or_continue(configured(quick, eta=0.4), out, Options(workers=0), lambda: next(rounds))
        return make(*given)

    monkeypatch.setattr(launch, "make_plan", overtaken)
    with pytest.raises(bires.UserError, match=r"(?s)another configuration; nothing was changed.*--eta: \[0.4\] there"):
        begin_or_continue(configured(quick, eta=0.1), out, Options(workers=0))
    assert bires.load(out).members["eta"].tolist() == [0.4]


def test_a_lock_dies_with_its_owner_and_is_waited_for(tmp_path):
    """kill -9 on this machine: nobody has to wait for a count that stands still."""
    script = "import sys, time, pathlib; from bires.runs.lock import Lock\n"
    script += "with Lock(pathlib.Path(sys.argv[1])): print('mine', flush=True); time.sleep(60)"
    owner = subprocess.Popen([sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    assert owner.stdout.readline() == "mine\n"
    with pytest.raises(bires.UserError, match=f"process {owner.pid} on"), Lock(tmp_path):
        pass
    threading.Timer(0.5, owner.kill).start()
    with Lock(tmp_path, patience=30):
        assert str(os.getpid()) in lock.owner(tmp_path)
    owner.wait()
    owner.stdout.close()


FORKS = """
import os, signal, sys, time
from pathlib import Path
from bires.runs.lock import Lock
with Lock(Path(sys.argv[1])):
    if os.fork() == 0:
        print(os.getpid(), flush=True)
        time.sleep(60)
    time.sleep(0.1)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_process_that_was_forked_from_the_owner_does_not_keep_the_lock(tmp_path):
    """As a simulator's may be, which outlives a killed trainer."""
    with subprocess.Popen([sys.executable, "-c", FORKS, str(tmp_path)], stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        child = int(owner.stdout.readline())
        try:
            assert owner.wait(20) == -signal.SIGKILL
            with Lock(tmp_path) as ours:
                assert not ours.lost()
        finally:
            os.kill(child, signal.SIGKILL)


def test_a_disk_that_is_full_from_the_start_is_said_in_words(tmp_path, monkeypatch):
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("bires.runs.lock.os.fsync", full)
    with pytest.raises(bires.UserError, match=r"Cannot write to --out .* \(No space left on device\)"), Lock(tmp_path):
        pass
    monkeypatch.undo()
    monkeypatch.setattr("bires.runs.folder.write_whole", full)
    config = make_config(TASK, {"steps": 60, "warmup": 20, "batch": 8, "replay": 50, "hidden": (8, 8)})
    with pytest.raises(bires.UserError, match="the run has not begun"):
        begin_or_continue(config, tmp_path / "run", Options(workers=0))
    assert [path.name for path in (tmp_path / "run").iterdir()] == [".lock"]
