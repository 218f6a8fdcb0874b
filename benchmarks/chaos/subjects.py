"""The runs that are shaken: small networks and tiny tasks, of several agents, in threads, processes and workers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bires.runs.checkpoint import Store

FILES = ("evaluations.csv", "metrics.csv", "members.csv")
REPLAY = 3000
COMMON: tuple[str, ...] = (
    "--warmup",
    "300",
    "--eval-every",
    "2000",
    "--eval-episodes",
    "2",
    "--batch",
    "16",
    "--log-every",
    "500",
)
COMMON += ("--hidden", "16", "16", "--replay", str(REPLAY), "--checkpoint-minutes", "0.005", "--quiet")


@dataclass(frozen=True)
class Subject:
    """A configuration, and where its parts run."""

    name: str
    words: tuple[str, ...]
    parts: tuple[str, ...] = ()
    """What it has beside a trainer: workers, cohorts in processes of their own."""

    @property
    def train(self) -> tuple[str, ...]:
        """The command, without --out: the task comes first, settings of a subject's own last."""
        task, *own = self.words
        return ("train", task, *COMMON, *own)


def subject(name: str, words: str, *parts: str) -> Subject:
    workers, cohorts = "2" if "worker" in parts else "0", "processes" if "cohort" in parts else "threads"
    return Subject(name, (*words.split(), "--workers", workers, "--cohorts", cohorts), parts)


SUBJECTS = (
    subject("DDPG, processes and workers", "Pendulum-v1 --algorithm ddpg bi-res-ddpg --steps 5000", "cohort", "worker"),
    subject("TD3, threads and workers", "Pendulum-v1 --algorithm td3 bi-res-td3 --steps 5000", "worker"),
    subject("DQN, threads", "CartPole-v1 --algorithm dqn bi-res-dqn --steps 8000 --update-every 1"),
    subject("Dyna with the simulator, workers", "pendulum-swingup --algorithm res-dyna-ddpg --steps 3000", "worker"),
    subject(
        "Dyna with a learned model, processes",
        "Pendulum-v1 --algorithm res-dyna-ddpg --model learned --model-scale small --seeds 2 --steps 1500",
        "cohort",
    ),
)
"""The first two are those of `make chaos`."""


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
    found += [f"replay {name}" for name in rows[0] if not same(rows[0][name][:, -REPLAY:], rows[1][name][:, -REPLAY:])]
    return found


def same(left: np.ndarray | None, right: np.ndarray | None) -> bool:
    return left is not None and right is not None and left.dtype == right.dtype and np.array_equal(left, right)
