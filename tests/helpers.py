"""What tests share: commands as typed, the contents of run folders, and learners to compare."""

from __future__ import annotations

import io
import subprocess
import sys
from contextlib import chdir, redirect_stderr, redirect_stdout
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import pytest

from bires.agents import ddpg
from bires.cli import main
from bires.envs.slots import episode_seed
from bires.population.evaluation import policy
from bires.runs.arrays import unflatten_learners
from bires.runs.checkpoint import Store
from bires.runs.policies import newest_checkpoint
from bires.settings.config import Config
from bires.settings.keywords import make_config
from bires.settings.options import Options, Stopped
from bires.training.cohort import Cohort
from bires.training.launch import begin_or_continue
from bires.training.loop import TrainingLoop
from bires.training.plan import make_plan
from bires.training.runners import ThreadRunner
from bires.types import Space, Transition
from tests import environments

PROBE = "tests.environments:bires-test/"
TASK = "Pendulum-v1"
"""The task of quick runs: an episode of evaluation has 200 steps, not the 1000 of DMControl."""
QUICK: dict[str, Any] = {
    "steps": 60,
    "warmup": 20,
    "eval_every": 30,
    "eval_episodes": 1,
    "batch": 8,
    "replay": 50,
    "hidden": (16, 16),
    "log_every": 10,
    "quiet": True,
}
"""Settings of a run that takes seconds."""
LEARNING: dict[str, Any] = {
    "steps": 3000,
    "warmup": 100,
    "eval_every": 3000,
    "eval_episodes": 1,
    "hidden": (32, 32),
    "log_every": 1000,
    "gamma": 0.9,
    "eta": 0.05,
    "workers": 0,
    "quiet": True,
}
"""Settings of a run that learns the values of a probe environment."""
FILES = ("evaluations.csv", "metrics.csv", "members.csv")


def contents(path):
    """The tables of a run, as bytes."""
    return {name: (Path(path) / name).read_bytes() for name in FILES}


def arrays(path):
    """Every array of a run's newest checkpoint, with the segments of its replay."""
    store = Store(Path(path))
    checkpoint = store.load(store.steps()[0])
    for segment in checkpoint.replay:
        kept = store.load_replay(segment)
        checkpoint.arrays |= {f"replay/{segment.file}/{name}": array for name, array in kept.items()}
    return checkpoint.arrays


def assert_same_state(a, b):
    """The newest checkpoints of two runs hold the same bits."""
    left, right = arrays(a), arrays(b)
    assert left.keys() == right.keys()
    for name in left:
        np.testing.assert_array_equal(left[name], right[name], err_msg=name)


def values_of(run, observation):
    """Q(s, μ(s)) of every member at one observation."""
    plan = make_plan(run.config, Options(workers=0))
    count = len(plan.members)
    learner = unflatten_learners(plan.program, newest_checkpoint(run.path), np.arange(count))
    seen: Any = np.tile(np.asarray(observation, np.float32), (count, 1, 1))
    return np.asarray(policy(plan.program, learner, seen)[1])[:, 0]


def configured(quick: dict[str, Any], task: str = TASK, **more: Any) -> Config:
    """The configuration of a quick run."""
    return make_config(task, {name: value for name, value in quick.items() if name != "quiet"} | more)


def straight_and_stopped(config: Config, folder: Path, *looks: int) -> tuple[Path, Path]:
    """A run that goes straight on, and one that stops after so many looks in all: both have the same tables."""
    straight, stopped, options, polled = folder / "straight", folder / "stopped", Options(workers=0), iter(range(1000))
    begin_or_continue(config, straight, options)
    for most in looks:
        with pytest.raises(Stopped):
            begin_or_continue(config, stopped, options, stop=partial(asked, polled, most))
    begin_or_continue(config, stopped, options)
    assert contents(straight) == contents(stopped)
    return straight, stopped


def asked(polled, moment):
    """For `stop=`: says yes after so many looks."""
    return next(polled) > moment


def assert_same_moment(a, b, capacity):
    """Like `assert_same_state` for runs whose replay was written in other pieces."""
    left, right = arrays(a), arrays(b)
    replays = [name for name in (*left, *right) if name.startswith("replay/")]
    assert replays
    for ring in {name.rpartition("/")[2] for name in replays}:
        pieces = [[found[n] for n in sorted(found) if n in replays and n.endswith(ring)] for found in (left, right)]
        rows = [np.concatenate(piece, axis=1)[:, -capacity:] for piece in pieces]
        np.testing.assert_array_equal(rows[0], rows[1], err_msg=ring)
    left, right = ({k: v for k, v in found.items() if k not in replays} for found in (left, right))
    assert left.keys() == right.keys()
    for name in left:
        np.testing.assert_array_equal(left[name], right[name], err_msg=name)


def cohorts_of(loop: TrainingLoop) -> list[Cohort]:
    """Those of a run whose cohorts are in this process."""
    assert isinstance(loop.runner, ThreadRunner)
    return loop.runner.cohorts


def doomed(seed, stream, episode=0):
    """Whether `Raises` raises in this episode of a member with this seed."""
    probe = environments.Raises()
    probe.reset(seed=episode_seed(seed, stream, episode))
    return probe.start < 0


class Said(NamedTuple):
    """What a command answered."""

    returncode: int
    stdout: str
    stderr: str


def typed(*words: str, cwd: Path | None = None) -> Said:
    """`bires WORDS` in this process: for what a command answers, not for processes and signals."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err), chdir(cwd or Path.cwd()):
        try:
            code = main(words)
        except SystemExit as ending:  # how Tyro answers
            code = int(ending.code or 0)
    return Said(code, out.getvalue(), err.getvalue())


def command(*words: str, timeout: float = 300, **kwargs: Any) -> subprocess.CompletedProcess[str]:
    """`bires WORDS` in a process of its own, as a user types it."""
    line = [sys.executable, "-m", "bires", *words]
    return subprocess.run(line, capture_output=True, text=True, timeout=timeout, **kwargs)


DDPG_SPACE = Space(3, 2, (-1.0, -1.0), (1.0, 1.0))
DDPG_HIDDEN = (16, 12)


def ddpg_batch(rng, count=8):
    """Random transitions in `DDPG_SPACE`, some of which end."""
    return Transition(
        *(
            jnp.asarray(x, jnp.float32)
            for x in (
                rng.normal(size=(count, 3)),
                rng.uniform(-1, 1, (count, 2)),
                rng.normal(size=count),
                rng.integers(0, 2, count),
                rng.normal(size=(count, 3)),
            )
        )
    )


def ddpg_learner(rng):
    """A DDPG learner whose target networks are not its online ones."""
    state = ddpg.init(rng, DDPG_SPACE, DDPG_HIDDEN)
    other = ddpg.init(rng, DDPG_SPACE, DDPG_HIDDEN)
    return state._replace(target_actor=other.actor, target_critic=other.critic)
