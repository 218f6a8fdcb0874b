"""Runs as users have them: begun or continued in their folder, whatever happens on the way."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

from bires.envs.adapter import probe
from bires.errors import UserError
from bires.population.program import make_program
from bires.runs.checkpoint import Checkpoint, CorruptCheckpoint
from bires.runs.folder import Folder
from bires.runs.lock import Lock
from bires.runs.run import Run
from bires.settings import config as configs
from bires.settings import grid
from bires.settings.config import Config
from bires.settings.options import Options, Stopped
from bires.settings.recipes import recipe_of
from bires.settings.validation import validate
from bires.training.runners import Lost
from bires.training.snapshots import require_fitting
from bires.training.trainer import Trainer


class CannotGoOn(Stopped):
    """Something outside must change; then the run can be continued from its last whole checkpoint."""

    def __init__(self, trainer: Trainer, error: Exception, advice: str) -> None:
        super().__init__(trainer.step)
        whole = trainer.store.steps()
        last = f"the last whole checkpoint is that of step {whole[0]}" if whole else "there is no checkpoint yet"
        self.args = (f"stopped at step {trainer.step}: {error}; {last}. {advice}",)


ATTEMPTS = 3
"""How often a run tries to get beyond the same checkpoint when a cohort's process is lost on the way."""
REFUSALS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM, errno.EMFILE, errno.ENFILE)
"""What an operating system says when a disk is full, a folder read-only or a limit reached."""


def train(config: Config, out: Path, options: Options, stop: Callable[[], bool] = lambda: False) -> Run:
    """Trains a new run in the folder ``out``, or continues the run that is there."""
    validate(config)
    folder = Folder(out)
    if (out / "manifest.json").exists():
        run = Run(out)
        require_same(run, config, "Give another --out, or the same configuration to continue that run.")
        if run.finished:
            options.say(f"{out} is finished: {config.steps} steps.")
            return run
        run.require_resumable()
    make_program(config, grid.members(config), probe(recipe_of(config)), 1)  # what cannot be leaves no folder behind
    with Lock(out, options.patience, options.say) as lock:
        losses: list[int] = []
        while True:
            trainer = Trainer(config, folder, options)
            try:
                attend(trainer, stop, lock.lost)
                return Run(out)
            except Lost as error:
                losses.append(max(trainer.store.steps(), default=-1))
                if losses.count(losses[-1]) == ATTEMPTS:
                    raise CannotGoOn(trainer, error, "Not enough memory, perhaps") from error
                options.say(f"{error} at step {trainer.step}; the run goes on from its last checkpoint")


def require_same(run: Run, config: Config, advice: str) -> None:
    """Refuses a folder that holds another run."""
    differences = configs.difference(configs.to_json(run.config), configs.to_json(config))
    if differences:
        told = "\n  ".join([f"{run.path} holds a run with another configuration; nothing was changed.", *differences])
        raise UserError(f"{told}\n{advice}")


def attend(trainer: Trainer, stop: Callable[[], bool], require_ours: Callable[[], object]) -> None:
    """Begins the run of a trainer, or continues it from its newest checkpoint."""
    folder, placement = trainer.folder, trainer.placement
    checkpoint = newest(trainer) if (folder.path / "manifest.json").exists() else None
    if checkpoint is None:
        where = {"platform": placement.platform, "cohorts": len(placement.cohorts), "processes": trainer.processes}
        folder.create(trainer.config, trainer.members, where | {"workers": trainer.workers})
    else:
        trainer.options.say(f"continuing {folder.path} at step {checkpoint.step}")
    try:
        trainer.run(checkpoint, stop, require_ours)
    except CorruptCheckpoint as error:
        raise UserError(f"The replay of {folder.path} cannot be used; nothing was changed. {error}") from error
    except OSError as error:
        if error.errno not in REFUSALS:
            raise
        advice = (
            f"Make room (disk, quota, file limit) in {folder.path} first, or use --keep-going to train on without "
            "checkpoints"
        )
        raise CannotGoOn(trainer, error, advice) from error


def newest(trainer: Trainer) -> Checkpoint | None:
    """The newest checkpoint that is whole; None where there never was one."""
    problem: CorruptCheckpoint | None = None
    damaged: list[int] = []
    for step in trainer.store.steps():
        try:
            checkpoint = trainer.store.load(step)
            require_fitting(trainer, checkpoint)
            for bad in damaged:  # or it would count as one of the two that are kept
                trainer.store.set_aside(bad)
            return checkpoint
        except CorruptCheckpoint as error:
            problem = error
            damaged.append(step)
            trainer.options.say(f"checkpoint at step {step} is left out: {error}")
    if problem is not None:
        raise UserError(
            f"No checkpoint in {trainer.store.path} can be used; nothing was changed. The oldest: {problem}\n"
            f"Put a good copy back, or remove {trainer.store.path} to begin again at step 0."
        )
    return None
