"""Begins a run in its folder, continues it or makes it longer, and handles what may go wrong on the way."""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from bires.errors import REFUSALS, UserError
from bires.runs.checkpoint import Checkpoint, CorruptCheckpoint, Store, UnreadableCheckpoint
from bires.runs.folder import Folder
from bires.runs.lock import Lock, LostLock
from bires.runs.run import Run
from bires.runs.trust import ARGUMENTS, NAMED, read_manifest, remember, resume_command
from bires.settings import config as configs
from bires.settings import grid
from bires.settings.config import Config
from bires.settings.doubts import doubts
from bires.settings.grid import Member
from bires.settings.options import Options, Stopped
from bires.training.callbacks import name_of
from bires.training.loop import TrainingLoop
from bires.training.plan import Plan, began_with_processes, make_plan
from bires.training.runners import Lost
from bires.training.snapshots import require_fitting


class CannotGoOn(Stopped):
    """Something outside must change; then the run can be continued from its last whole checkpoint."""

    def __init__(self, loop: TrainingLoop, error: Exception, advice: str) -> None:
        super().__init__(loop.step)
        try:
            whole = loop.store.steps()
            last = f"the last whole checkpoint is that of step {whole[0]}" if whole else "there is no checkpoint yet"
        except OSError:  # not even that can be read any more
            last = "the last whole checkpoint stays"
        self.args = (f"stopped at step {loop.step}: {error}; {last}. {advice}",)


ATTEMPTS = 3
"""How often a run tries to get beyond the same checkpoint when a cohort's process is lost on the way."""
ADVICE = "Give another --out, or the same configuration to continue that run."
ABSENCES = (errno.ENOENT, errno.ENOTDIR, errno.EIO, errno.ESTALE)
"""What an operating system says when a folder was moved away, or its file server does not answer."""


def begin_or_continue(
    config: Config,
    out: Path,
    options: Options,
    stop: Callable[[], bool] = lambda: False,
    begin: Callable[[Sequence[Member]], object] = lambda members: None,
) -> Run:
    """Trains a new run in the folder ``out``, or continues the run that is there.

    ``begin`` is called with the members as soon as the configuration is known to be valid.
    """
    folder = Folder(out)
    remember(configs.to_json(config))
    run = run_of(config, out)
    if run is None:
        require_empty(out)
    elif run.finished:
        begin(grid.members(config))
        who = "a callback" if config.tuning is None else "the search"
        early = f"; {who} stopped members" if (run.members["status"] == "stopped").any() else ""
        options.say(f"{out} is finished: {config.steps} steps{early}.")
        return run
    else:
        run.require_resumable()
    plan = make_plan(config, options, folder, begin)
    plan.require_memory()  # a run that is refused leaves no folder behind
    for text in (*doubts(config), *plan.remarks()):
        options.warn(text)
    with Lock(out, options.patience, options.say) as lock:
        run_of(config, out)  # another process may have begun another run here while this one made its plan
        if options.cohorts == "by-size" and began_with_processes(folder) not in (None, plan.processes):
            plan = make_plan(config, options, folder)  # another process began the run while this one waited for it
        losses: list[int] = []
        while True:
            loop = TrainingLoop(plan, folder, options)
            try:
                run_loop(loop, stop, lock.lost)
                return Run(out)
            except Lost as error:
                losses.append(max(loop.store.steps(), default=-1))
                if losses.count(losses[-1]) == ATTEMPTS:
                    raise CannotGoOn(loop, error, "Not enough memory, perhaps") from error
                options.say(f"{error} at step {loop.step}; the run goes on from its last checkpoint")


def run_of(config: Config, out: Path) -> Run | None:
    """The run in a folder, which must have this configuration; None: there is none yet."""
    if not (out / "manifest.json").exists():
        return None
    require_same_names(out, config)
    run = Run(out)
    require_same(run, config, ADVICE)
    return run


def require_empty(out: Path) -> None:
    """Refuses a folder that holds something else than a run: its files would lie among the run's."""
    there = [path.name for path in out.iterdir()] if out.is_dir() else []
    others = [name for name in there if name != ".lock" and not name.endswith(".part")]
    if others and "manifest.json" not in others:  # which another process may have just written
        raise UserError(
            f"--out was given {out}, which is not empty and is not a run (it has {min(others)!r}); nothing was "
            f"changed. Give a new folder, such as {out / 'run'}."
        )


def require_same(run: Run, config: Config, advice: str) -> None:
    """Refuses a folder that holds another run."""
    there, now = configs.to_json(run.config), configs.to_json(config)
    differences = configs.difference(there, now)
    if differences:
        text = "\n  ".join([f"{run.path} holds a run with another configuration; nothing was changed.", *differences])
        if len(differences) == 1 and there["steps"] < now["steps"]:
            longer = resume_command(run.path, there, f"--steps {now['steps']}")
            advice = f"{advice} To make that run longer: {longer}."
        raise UserError(f"{text}\n{advice}")


def require_same_names(out: Path, config: Config) -> None:
    """Refuses a folder whose run names other modules or files than its user, before any of them is touched."""
    there, now = read_manifest(out)["config"], configs.to_json(config)
    named = (*NAMED, ARGUMENTS)
    names = {name: there.get(name, now[name]) for name in named}
    differences = configs.difference(names, {name: now[name] for name in named})
    if differences:
        text = "\n  ".join([f"{out} holds a run with another configuration; nothing was changed.", *differences])
        raise UserError(f"{text}\n{ADVICE}")


def run_loop(loop: TrainingLoop, stop: Callable[[], bool], require_ours: Callable[[], object]) -> None:
    """Begins the run of a loop, or continues it from its newest checkpoint."""
    folder, plan = loop.folder, loop.plan
    loop.store.clear_parts()  # what a killed process was writing
    new = not (folder.path / "manifest.json").exists()
    checkpoint = None if new else newest(plan, folder, loop.options.say)
    if checkpoint is None:
        create(loop)
    else:
        loop.options.say(f"continuing {folder.path} at step {checkpoint.step}")
        if (began_with := Run(folder.path).manifest.get("callback")) and loop.options.callback is None:
            loop.options.say(f"the run began with the callback {began_with}; it goes on without one (--callback)")
    try:
        loop.run(checkpoint, stop, require_ours)
    except UserError as error:
        if new and not loop.store.steps() and not isinstance(error, LostLock):
            folder.withdraw()  # or the next command would be told that another run is here
        raise
    except CorruptCheckpoint as error:
        raise UserError(f"The replay of {folder.path} cannot be used; nothing was changed. {error}") from error
    except OSError as error:
        if error.errno not in (*REFUSALS, *ABSENCES):
            raise
        raise CannotGoOn(loop, error, advice(error, folder.path)) from error


def create(loop: TrainingLoop) -> None:
    """A new run in its folder; where that cannot be written, nothing of it stays."""
    plan, callback = loop.plan, loop.options.callback
    try:
        loop.folder.create(
            plan.config, plan.members, plan.where | ({"callback": name_of(callback)} if callback else {})
        )
    except OSError as error:
        loop.folder.withdraw()
        raise UserError(
            f"Cannot write to --out {loop.folder.path} ({error.strerror}); the run has not begun. Make room there, or "
            "give another folder."
        ) from error


def advice(error: OSError, path: Path) -> str:
    """What to do about a file that cannot be written."""
    if error.errno in ABSENCES:
        return f"Put {path} back where it was, with the disk it is on, first"
    return f"Make room (disk, quota, file limit) in {path} first, or use --keep-going to train on without checkpoints"


def newest(plan: Plan, folder: Folder, say: Callable[[str], None] = lambda text: None) -> Checkpoint | None:
    """The newest checkpoint of a run that is whole and fits its plan; None where there never was one."""
    store = Store(folder.path)
    problem: CorruptCheckpoint | None = None
    damaged: list[int] = []
    for step in store.steps():
        try:
            checkpoint = store.load(step)
            require_fitting(plan, folder, checkpoint)
            for bad in damaged:  # or it would count as one of the two that are kept
                store.set_aside(bad)
            return checkpoint
        except UnreadableCheckpoint as error:  # it may be whole: going on from the one before would remove it
            raise UserError(
                f"{error}. The checkpoint of step {step} may be whole, so nothing was changed. Make it readable and "
                f"type the same command again; or remove {store.folder(step)} to go on from the one before."
            ) from error
        except CorruptCheckpoint as error:
            problem = error
            damaged.append(step)
            say(f"checkpoint at step {step} is left out: {error}")
    if problem is not None:
        raise UserError(
            f"No checkpoint in {store.path} can be used; nothing was changed. The oldest: {problem}\n"
            f"Put a good copy back, or remove {store.path} to begin again at step 0."
        )
    return None


def lengthen(path: Path, steps: int, options: Options, trust: bool = False) -> None:
    """Sets the length of a run to ``steps``; `resume` then trains the missing steps, as if it had begun so.

    What is refused then, for these options, is refused here: the run is left as it is.
    """
    run = Run(path, trust)
    run.require_resumable()
    if steps < run.config.steps:
        raise UserError(
            f"--steps was given {steps}; {path} is a run of {run.config.steps} steps. Accepted: that many or more."
        )
    ends = set(run.members["status"])
    if "stopped" in ends and ends <= {"stopped", "diverged", "failed"} and steps > run.config.steps:
        raise UserError(f"{path} has no member that can go on: all have stopped, diverged or failed. Train anew.")
    if not Store(path).steps():
        raise UserError(
            f"{path} has no checkpoint to continue from; nothing was changed. Train anew, with another --out."
        )
    if steps > run.config.steps:
        gone = [row for row in run.members.rows() if row["status"] in ("diverged", "failed")]
        plan = make_plan(replace(run.config, steps=steps), options, Folder(path))
        plan.require_memory()  # its replay may grow
        with Lock(path, Options.patience):
            newest(plan, Folder(path))  # or it cannot go on, and is left as it is
            Folder(path).lengthen(steps, plan.members, {row["member"]: at_step(run, row) for row in gone})


def at_step(run: Run, row: dict[str, Any]) -> int:
    """The step at which a member was frozen."""
    if row["diverged_at"] != row["diverged_at"]:
        raise UserError(f"{run.path / 'members.csv'} does not say when member {row['member']} diverged.")
    return int(row["diverged_at"])
