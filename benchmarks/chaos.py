"""Chaos: one run under random faults until it is finished; its files must equal those of the same run undisturbed.

    make chaos                                   # or: python benchmarks/chaos.py --faults 50 --out runs/chaos

Prints a table of what was done and what came of it, writes it into docs/reliability.md with --page, and exits with 1 if
a single byte differs, a fault ended otherwise than it should, or fewer faults than asked for found their way in.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
import psutil

from bires.runs.checkpoint import Store
from bires.runs.run import Run

RULES = ("ddpg", "res-ddpg", "to-res-ddpg", "ot-res-ddpg", "tt-res-ddpg", "bi-res-ddpg")
SETTINGS = {
    "--warmup": "500",
    "--eval-every": "2500",
    "--eval-episodes": "2",
    "--batch": "16",
    "--replay": "4000",
    "--log-every": "500",
    "--cohorts": "processes",
    "--workers": "2",
    "--checkpoint-minutes": "0.01",
}
FILES = ("evaluations.csv", "metrics.csv", "members.csv")
FAULTS = {
    "kill -9 of the trainer": "the same command goes on from the last checkpoint",
    "kill -9 of a cohort's process": "the run goes on from the last checkpoint",
    "kill -9 of an environment worker": "replaced, its episodes rebuilt; the run goes on",
    "SIGTERM": "exit code 3 after a checkpoint",
    "newest checkpoint cut in half": "left out; the one before is used",
    "a byte of the newest checkpoint flipped": "left out; the one before is used",
    "disk full (file-size limit)": "exit code 3, last checkpoint whole",
    "a second process on the same run": "refused with exit code 2",
}

MODULES = {
    "kill -9 of a cohort's process": "bires.training.runners",
    "kill -9 of an environment worker": "bires.envs.worker",
}
"""What is killed alone."""


def command(out: Path, steps: int) -> list[str]:
    flags = [word for pair in SETTINGS.items() for word in pair]
    task = ["cartpole-swingup", "--algorithm", *RULES, "--hidden", "32", "32", "--steps", str(steps)]
    return [sys.executable, "-m", "bires", "train", *task, *flags, "--quiet", "--out", str(out)]


class Chaos:
    """A run that is not left in peace."""

    def __init__(self, out: Path, steps: int, seed: int) -> None:
        self.out, self.command, self.rng = out, command(out, steps), np.random.default_rng(seed)
        self.store, self.done, self.wrong = Store(out), Counter[str](), list[str]()
        self.log = (out.parent / f"{out.name}.log").open("w+")
        self.process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(self.command, stderr=self.log, stdout=self.log)

    def until_a_checkpoint(self) -> bool:
        """Waits until the trainer has written something new, and then a moment; False once it has ended."""
        before = self.store.steps()[:1]
        while self.process.poll() is None:
            time.sleep(0.05)
            if self.store.steps()[:1] != before:
                time.sleep(float(self.rng.uniform(0, 1.5)))  # in the update, in an evaluation, in the next write
                return self.process.poll() is None
        return False

    def fault(self, kind: str) -> None:
        if kind in MODULES:
            there = self._processes(MODULES[kind])
            if there:
                there[int(self.rng.integers(len(there)))].kill()
                self.done[kind] += 1
            return
        if kind == "a second process on the same run":
            second = subprocess.run(self.command, capture_output=True, text=True, check=False)
            self._expect(kind, second.returncode == 2 and "is being trained by" in second.stderr, second.stderr)
            return
        if kind == "disk full (file-size limit)":
            resource.prlimit(self.process.pid, resource.RLIMIT_FSIZE, (10_000, resource.RLIM_INFINITY))
            code = self.process.wait()
            whole = self._whole()
            # It may have ended well, or by itself, before it wrote again.
            self._expect(kind, code in (0, 3) and whole, f"exit code {code}, checkpoint whole: {whole}")
        elif kind == "SIGTERM":
            self.process.terminate()
            code = self.process.wait()
            self._expect(kind, code in (0, 3, -signal.SIGTERM), f"exit code {code}")
        else:
            self.process.kill()
            self.process.wait()
            if kind.startswith("kill"):
                self.done[kind] += 1
            elif len(self.store.steps()) > 1:
                self._damage(kind)
                self.done[kind] += 1
        self.process = self._start()

    def _processes(self, module: str) -> list[psutil.Process]:
        """The run's processes of one kind; some may end while one looks."""
        found = []
        for process in psutil.Process(self.process.pid).children(recursive=True):
            with contextlib.suppress(psutil.Error):
                found += [process] if module in process.cmdline() else []
        return found

    def _damage(self, kind: str) -> None:
        folder = self.store.path / f"step-{self.store.steps()[0]:012d}"
        path = folder / ("arrays.safetensors", "meta.json")[int(self.rng.integers(2))]
        if kind.endswith("half"):
            os.truncate(path, path.stat().st_size // 2)
        else:
            data = bytearray(path.read_bytes())
            data[int(self.rng.integers(len(data)))] ^= 1
            path.write_bytes(data)

    def _whole(self) -> bool:
        steps = self.store.steps()
        if steps:
            for segment in self.store.load(steps[0]).replay:
                self.store.verify(segment)
        return bool(steps)

    def _expect(self, kind: str, well: bool, seen: str) -> None:
        self.done[kind] += 1
        if not well:
            self.wrong.append(f"{kind}: {seen}")


def differences(calm: Path, shaken: Path) -> list[str]:
    """What differs between two finished runs: files, learners, replay."""
    found = [name for name in FILES if (calm / name).read_bytes() != (shaken / name).read_bytes()]
    stores = [Store(path) for path in (calm, shaken)]
    checkpoints = [store.load(store.steps()[0]) for store in stores]
    left, right = (checkpoint.arrays for checkpoint in checkpoints)
    found += [name for name in left.keys() | right.keys() if not same(left.get(name), right.get(name))]
    rows = [
        {
            name: np.concatenate([store.load_replay(segment)[name] for segment in checkpoint.replay], axis=1)
            for name in store.load_replay(checkpoint.replay[0])
        }
        for store, checkpoint in zip(stores, checkpoints, strict=True)
    ]
    kept = int(SETTINGS["--replay"])
    found += [f"replay {name}" for name in rows[0] if not same(rows[0][name][:, -kept:], rows[1][name][:, -kept:])]
    return found


def same(left: np.ndarray | None, right: np.ndarray | None) -> bool:
    return left is not None and right is not None and left.dtype == right.dtype and np.array_equal(left, right)


def table(done: Counter[str]) -> str:
    rows = [f"| {kind} | {done[kind]} | {outcome} |" for kind, outcome in FAULTS.items()]
    return "\n".join(["| fault | times | what is expected of the run |", "|---|---|---|", *rows])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--faults", type=int, default=50)
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=20.0, help="give up after this long")
    parser.add_argument("--out", type=Path, default=Path("runs/chaos"))
    parser.add_argument("--page", type=Path, help="a page whose block <!-- chaos --> … <!-- end --> takes the table")
    options = parser.parse_args()
    shutil.rmtree(options.out, ignore_errors=True)
    options.out.mkdir(parents=True)
    begun = time.monotonic()
    subprocess.run(command(options.out / "calm", options.steps), check=True)
    calm_s = time.monotonic() - begun
    chaos = Chaos(options.out / "shaken", options.steps, options.seed)
    kinds = list(FAULTS)
    while chaos.until_a_checkpoint():
        if time.monotonic() - begun > 60 * options.minutes:
            chaos.process.kill()
            print(f"not finished after {options.minutes:g} minutes, {sum(chaos.done.values())} faults")
            return 1
        if sum(chaos.done.values()) < options.faults:
            chaos.fault(kinds[int(chaos.rng.integers(len(kinds)))])
    if chaos.process.returncode != 0 or not Run(chaos.out).finished:
        chaos.wrong.append(f"the run ended with exit code {chaos.process.returncode}: see {chaos.log.name}")
    else:
        chaos.wrong += [f"differs: {name}" for name in differences(options.out / "calm", chaos.out)]
    count = sum(chaos.done.values())
    if count < options.faults:
        chaos.wrong.append(f"only {count} faults before the run was finished; give more --steps")
    verdict = "files, learners and replay are identical" if not chaos.wrong else "\n".join(chaos.wrong)
    shaken_s = time.monotonic() - begun - calm_s
    text = (
        f"{table(chaos.done)}\n\n{count} faults in {shaken_s / 60:.1f} minutes (undisturbed: {calm_s / 60:.1f}), six "
        f"members, {options.steps} steps of cartpole-swingup, seed {options.seed}: {verdict}.\n"
    )
    print(text)
    if options.page and not chaos.wrong:
        head, _, rest = options.page.read_text().partition("<!-- chaos -->\n")
        options.page.write_text(f"{head}<!-- chaos -->\n{text}<!-- end -->{rest.partition('<!-- end -->')[2]}")
    return 1 if chaos.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
