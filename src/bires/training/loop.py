"""The loop of training: one population, from its first step or from a checkpoint to its last step."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from typing import Any

from bires.errors import UserError
from bires.runs.checkpoint import Checkpoint, Segment, Store
from bires.runs.folder import EVALUATION_COLUMNS, Folder
from bires.runs.run import Run
from bires.settings.options import Options, Progress, Stopped
from bires.training.callbacks import Callback, Evaluation, to_stop
from bires.training.cohort import Cohort
from bires.training.evaluation import evaluation_environments
from bires.training.halving import halving
from bires.training.plan import Plan
from bires.training.runners import make_runner
from bires.training.snapshots import capture, restore

STRIDE, ROUND_S = 10, 0.5
"""Steps of the first round that the cohorts take by themselves; how long later ones should last, more or less.

Between rounds a run looks whether to stop."""

CHECKPOINT_SHARE = 0.05
"""The part of a run's time that checkpoints at evaluations may take."""

FEW = 12
"""Stopped members that are named."""


class TrainingLoop:
    """A run under way: it follows its plan."""

    def __init__(self, plan: Plan, folder: Folder, options: Options) -> None:
        self.plan, self.folder, self.options = plan, folder, options
        self.diverged: dict[int, int] = {}
        """Member → step, of those that are frozen: they diverged, or …"""
        self.failed: set[int] = set()
        """… their environments raised."""
        self.stopped: dict[int, int] = {}
        self.returns: dict[int, float] = {}
        self.store = Store(folder.path)
        self.segments: list[Segment] = []
        self.saved_at, self.saved = time.monotonic(), (-1, False)
        self.save_took = 0.0
        """Seconds of the last checkpoint."""
        self.step, self.stride = 0, STRIDE
        self.due = False
        """Whether the evaluation of this step is still to be made."""
        asked = {"the log": options.log, "the search": halving(plan.config), "the callback": options.callback}
        self.callbacks: dict[str, Callback] = {name: one for name, one in asked.items() if one is not None}

    def run(
        self,
        checkpoint: Checkpoint | None,
        stop: Callable[[], bool] = lambda: False,
        require_ours: Callable[[], object] = lambda: None,
    ) -> None:
        """Trains to the end, or raises `Stopped` once ``stop`` says so.

        ``require_ours`` is called before anything is written; it raises if another process has taken the folder over.
        """
        plan, config, self.require_ours = self.plan, self.plan.config, require_ours
        self.options.say(plan.describe())
        if config.eval_every > config.steps:
            self.options.say(
                f"--eval-every {config.eval_every} is more than --steps {config.steps}: no trained policy is evaluated"
            )
        with ExitStack() as opened:
            steppers = plan.workers or len(plan.placement.cohorts)
            self.runner = make_runner(plan, evaluation_environments(len(plan.members), config.eval_episodes, steppers))
            opened.callback(self.runner.close)
            if checkpoint is None:
                self.runner.each(Cohort.begin)
                self.due = True
            else:
                restore(self, checkpoint)
                self.saved = (self.step, self.due)
                self._keep()
            sizes = checkpoint.data["sizes"] if checkpoint else None
            self.evaluations, self.metrics = (
                opened.enter_context(file) for file in self.folder.open(sizes, plan.columns)
            )
            while True:
                if self.due:
                    stopped = len(self.stopped)
                    self._evaluate(stop)
                    if len(self.stopped) > stopped or self._to_keep or self._checkpoint_pays:
                        self.save()
                if self.step >= config.steps or (self.step % config.eval_every == 0 and self._all_out):
                    break
                until = min(
                    config.steps,
                    next_multiple(self.step, config.eval_every),
                    next_multiple(self.step, config.log_every),
                    next_multiple(self.step, self.options.keep_every or config.steps),
                )
                self._steps(until, stop)
                if self.step < until:
                    self.save()
                    raise Stopped(self.step)
                if self.step % config.log_every == 0 or self.step == config.steps:
                    self._log()
                self.due = self.step % config.eval_every == 0
                if self._to_keep and not self.due:  # else it is saved after its evaluation
                    self.save()
            self.save()
            self.require_ours()
            self._write_members(end=True)
            self.folder.finish()

    def _steps(self, until: int, stop: Callable[[], bool]) -> None:
        while self.step < until and not stop():
            self.require_ours()
            began, end = time.monotonic(), min(until, self.step + self.stride)
            self.runner.each(Cohort.run, self.step, end)
            each = (time.monotonic() - began) / (end - self.step)
            self.step, self.stride = end, max(1, min(2 * self.stride, int(ROUND_S / max(each, 1e-6))))
            self._record_frozen()
            self.options.tick(self.step)
            if self.step < until and self._checkpoint_is_old:
                self.save()

    def _evaluate(self, stop: Callable[[], bool]) -> None:
        """Evaluates all members. Given up, it is made anew when the run goes on, from the checkpoint before it."""
        self._notice_divergence()
        parts = self.runner.evaluate(self.step, self.gone, stop)
        given_up = any(part is None for part in parts)
        self.runner.each(Cohort.end_evaluation, self.step, given_up)
        if given_up:
            self.save()
            raise Stopped(self.step)
        self.due = False
        rows = sorted(row for part in parts for row in part)
        self._record_frozen()
        self.require_ours()
        self.evaluations.write([(row[0], self.step, *row[1:]) for row in rows])
        self.returns = {row[0]: row[2] for row in rows}
        self._tell(evaluated=True)
        for name, callback in self.callbacks.items():
            if any(row[0] not in self.gone for row in rows):
                self._call_back(name, callback, rows)

    def _call_back(self, name: str, callback: Callback, rows: Sequence[tuple[Any, ...]]) -> None:
        """Calls a function, and stops the members that it names; the checkpoint of this step has it."""
        plan, names = self.plan, EVALUATION_COLUMNS[2:]
        metrics = {row[0]: dict(zip(names, row[1:], strict=True)) for row in rows if row[0] not in self.gone}
        members, returns = {i: plan.members[i] for i in metrics}, {i: self.returns[i] for i in metrics}
        seen = Evaluation(self.step, plan.config.steps, members, returns, metrics, Run(self.folder.path))
        chosen = to_stop(callback, seen, len(plan.members))
        if not chosen:
            return
        self.runner.each(Cohort.stop_members, chosen, self.step)
        self.stopped |= dict.fromkeys(chosen, self.step)
        self.require_ours()
        self._write_members()
        few = ", ".join(map(str, chosen[:FEW])) + (f" … ({len(chosen)} in all)" if len(chosen) > FEW else "")
        who = f"member{'s' if len(chosen) > 1 else ''} {few}"
        rest = "no member is left" if self._all_out else "the others go on"
        self.options.say(f"{name} stopped {who} at step {self.step}; {rest}")

    @property
    def gone(self) -> dict[int, int]:
        """The members that are frozen, with the step."""
        return self.diverged | self.stopped

    @property
    def _all_out(self) -> bool:
        """Whether no member is left: all have diverged, or a callback stopped those that had not."""
        return len(self.gone) == len(self.plan.members)

    def _write_members(self, end: bool = False) -> None:
        self.folder.write_members(self.plan.config, self.plan.members, self.diverged, end, self.stopped, self.failed)

    def _log(self) -> None:
        self._notice_divergence()
        rows = sorted(row for part in self.runner.each(Cohort.take_metrics) for row in part)
        self.require_ours()
        self.metrics.write([(row[0], self.step, *row[1:]) for row in rows if row[0] not in self.gone])
        self._tell(evaluated=False)

    def _tell(self, evaluated: bool) -> None:
        diverged = {member: step for member, step in self.diverged.items() if member not in self.failed}
        ended = diverged, evaluated, dict(self.stopped), frozenset(self.failed)
        self.options.report(Progress(self.step, self.plan.config.steps, dict(self.returns), *ended))

    def _notice_divergence(self) -> None:
        self.runner.each(Cohort.notice_divergence)
        self._record_frozen()

    def _record_frozen(self) -> None:
        """Records members that froze. When an environment's failure froze the last, the run ends with its traceback."""
        frozen = [one for part in self.runner.each(Cohort.take_frozen) for one in part]
        if not frozen:
            return
        self.diverged |= {member: step for member, step, _ in frozen}
        self.failed |= {member for member, _, text in frozen if text is not None}
        self.require_ours()
        self._write_members()
        for number, (member, step, text) in enumerate(frozen, 1):
            last = self._all_out and number == len(frozen)
            rest = "no member is left" if last else "the others go on"
            if text is None:
                self.options.say(f"member {member} diverged at step {step}; {rest}")
                continue
            path = self.folder.keep_traceback(member, text)
            self.options.say(f"member {member}: its environment raised at step {step}; {rest} ({path})")
            if last and not self.stopped:
                raise UserError(
                    f"The environment of member {member} raised at step {step}, and no member is left:\n{text}"
                )

    def save(self) -> None:
        """A checkpoint of this moment."""
        if self.saved == (self.step, self.due):
            return
        self._notice_divergence()
        self.require_ours()
        self.saved_at = time.monotonic()
        try:
            self.store.save(capture(self))
            self.saved = (self.step, self.due)
            self._keep()
        except OSError as error:
            with suppress(OSError):
                self.store.clear_parts()
            if not self.options.keep_going:
                raise
            self.options.say(f"the checkpoint of step {self.step} cannot be written ({error}); going on without it")
        self.save_took = time.monotonic() - self.saved_at

    @property
    def _checkpoint_is_old(self) -> bool:
        return time.monotonic() - self.saved_at > 60 * self.options.checkpoint_minutes

    @property
    def _checkpoint_pays(self) -> bool:
        """Whether an evaluation is followed by a checkpoint: unless these would take too much of the run's time."""
        passed = time.monotonic() - self.saved_at
        return passed * CHECKPOINT_SHARE >= self.save_took or self._checkpoint_is_old

    @property
    def _to_keep(self) -> bool:
        return bool(self.options.keep_every) and self.step % int(self.options.keep_every or 1) == 0

    def _keep(self) -> None:
        """Keeps the checkpoint of this step, if it is one of those."""
        if self._to_keep:
            self.store.keep(self.step, Store(self.folder.path, "kept"))


def next_multiple(step: int, every: int) -> int:
    return (step // every + 1) * every
