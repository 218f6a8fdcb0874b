"""Faults of the run folder: damaged, moved, copied, used twice."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from .kinds import Missed, Wrong, kind
from .shaken import ROOT, Shaken

LEFT_OUT = "left out; the one before is used"


def damaged(run: Shaken, half: bool) -> None:
    run.kill_before_its_end()
    steps = run.store.steps()
    if len(steps) < 2:
        raise Missed("there is one checkpoint only")
    path = run.store.folder(steps[0]) / ("arrays.safetensors", "meta.json")[int(run.rng.integers(2))]
    if half:
        os.truncate(path, path.stat().st_size // 2)
        return
    data = bytearray(path.read_bytes())
    data[int(run.rng.integers(len(data)))] ^= 1
    path.write_bytes(data)


@kind("newest checkpoint cut in half", LEFT_OUT)
def cut(run: Shaken) -> None:
    damaged(run, True)


@kind("a byte of the newest checkpoint flipped", LEFT_OUT)
def flip(run: Shaken) -> None:
    damaged(run, False)


@kind("a torn row at the end of the CSV files", "cut off")
def torn(run: Shaken) -> None:
    run.kill_before_its_end()
    for name in ("evaluations.csv", "metrics.csv"):
        with (run.out / name).open("a") as file:
            file.write("1,99999,3,0.")


@kind("the clock set back and forth (times of files)", "the run goes on; nothing changes")
def clocks(run: Shaken) -> None:
    run.kill()
    for path in run.out.rglob("*"):
        at = float(run.rng.choice([0.0, 4e9]))
        os.utime(path, (at, at))


def resume(run: Shaken, folder: Path) -> None:
    """Resumes a run in another folder, and kills it after a while."""
    run.start(words=("resume", str(folder), "--quiet", "--checkpoint-minutes", "0.005"))
    run.pause(3.0)
    if run.running:
        run.kill()
    else:
        run.ended(0)


@kind("the folder moved between stop and resume", "it goes on there")
def moved(run: Shaken) -> None:
    run.kill()
    other = run.out.with_name("moved")
    run.out.rename(other)
    resume(run, other)
    other.rename(run.out)


@kind("the folder copied, both resumed", "each goes on by itself")
def copied(run: Shaken) -> None:
    run.kill()
    other = run.out.with_name("copied")
    shutil.rmtree(other, ignore_errors=True)
    shutil.copytree(run.out, other)
    resume(run, other)
    if run.rng.uniform() < 0.5:  # the copy becomes the run
        shutil.rmtree(run.out)
        other.rename(run.out)


@kind("resumed through a link to the folder", "it goes on")
def linked(run: Shaken) -> None:
    run.kill()
    link = run.out.with_name("link")
    link.unlink(missing_ok=True)
    link.symlink_to(run.out)
    run.start(words=("resume", str(link), "--quiet", "--checkpoint-minutes", "0.005"))
    if not run.next_checkpoint():
        run.ended(0)


@kind("the folder moved away while it trains", "exit code 2 or 3; it goes on when it is back")
def moved_away(run: Shaken) -> None:
    if not run.running:
        raise Missed("the run had ended")
    other = run.out.with_name("away")
    run.out.rename(other)
    code = run.ended()
    if run.out.exists():
        left = sorted(path.name for path in run.out.rglob("*"))
        shutil.rmtree(run.out)
        if left:
            other.rename(run.out)
            raise Wrong(f"it wrote at the old place: {left}")
    other.rename(run.out)
    if code not in (0, 2, 3) or "Traceback" in run.said():
        raise Wrong(f"exit code {code}; it said: {run.said()}")


@kind("a second process on the same run", "refused with exit code 2")
def second(run: Shaken) -> None:
    line = [sys.executable, "-m", "bires", *run.subject.train, "--out", str(run.out)]
    env = os.environ | {"PYTHONPATH": str(ROOT / "src"), "JAX_COMPILATION_CACHE_DIR": str(run.cache)}
    done = subprocess.run(line, capture_output=True, text=True, check=False, env=env)
    if not run.running or run.finished:
        raise Missed("the run had ended")
    if done.returncode != 2 or "is being trained by" not in done.stderr:
        raise Wrong(f"exit code {done.returncode}; it said: {done.stderr[-2000:]}")


@kind("two processes started at once", "one goes on, the other is refused with exit code 2")
def both(run: Shaken) -> None:
    run.kill()
    line = [sys.executable, "-m", "bires", *run.subject.train, "--out", str(run.out)]
    env = os.environ | {"PYTHONPATH": str(ROOT / "src"), "JAX_COMPILATION_CACHE_DIR": str(run.cache)}
    run.start()
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env) as other:
        while run.running and other.poll() is None:
            time.sleep(0.05)
        if other.poll() is None:  # ours was refused; the other trains
            run.ended(0, 2)
            other.kill()
            return
        if other.returncode not in (0, 2):
            raise Wrong(f"exit code {other.returncode}; it said: {other.communicate()[1][-2000:]}")
