"""Commands around a run, a task and the machine: evaluate, play, export, check, doctor."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any

import tyro

from bires.cli.output import NO_DEFAULT, Json, MaybePath, MaybeWhole, RunFolder, RunFolders, Trust
from bires.envs.adapter import Protocol
from bires.settings.arguments import Arguments
from bires.settings.options import Source, Target
from bires.settings.values import Whole


@dataclass(frozen=True)
class Evaluate:
    """Evaluate the members of a run at its newest checkpoint."""

    run_folder: RunFolder
    """The folder of a run."""
    episodes: Whole = 20
    """Noise-free episodes of each member."""
    member: Annotated[tuple[Whole, ...], NO_DEFAULT] = ()
    """Only these members."""
    workers: MaybeWhole = None
    """Environment processes; 0: none; default: chosen by size."""
    json: Json = False
    trust: Trust = False

    def run(self) -> int:
        from bires.machine.terminal import aside, json_line, printable, terminal_width
        from bires.runs.run import Run
        from bires.tools.evaluating import evaluate_run

        run = Run(self.run_folder, self.trust)
        with aside(self.json):
            found = evaluate_run(run, self.episodes, self.member, self.workers)
        for member, text in found.skipped.items():
            said = printable(text.splitlines()[-1])
            print(f"member {member} is skipped; its environment raised: {said}", file=sys.stderr)
        print(json_line(list(found.table.rows())) if self.json else found.table.show(width=terminal_width()))
        return 0


@dataclass(frozen=True)
class Play:
    """Film one noise-free episode of a member at the newest checkpoint; no display is needed."""

    run_folder: RunFolder
    """The folder of a run."""
    member: Whole = 0
    """The member that plays."""
    episode: Whole = 0
    """Which evaluation episode: it starts where that one started."""
    video: MaybePath = None
    """Where to write, .mp4 (needs `bires[video]`) or .gif; default: member-M.mp4 in the run folder, or .gif."""
    trust: Trust = False
    json: Json = False

    def run(self) -> int:
        from bires.errors import UserError
        from bires.machine.terminal import aside, json_line
        from bires.runs.run import Run
        from bires.tools.video import play

        if self.episode < 0:
            raise UserError(f"--episode was given {self.episode}; accepted: whole numbers from 0.")
        say = partial(print, file=sys.stderr)
        with aside(self.json):
            done = play(Run(self.run_folder, self.trust), self.member, self.episode, self.video, say)
        if self.json:
            print(json_line(done))
            return 0
        print(f"{done.video}: return {done.total:.1f} in {done.steps} steps ({done.frames} pictures, {done.backend})")
        return 0


@dataclass(frozen=True)
class Export:
    """Write runs for other programs: curves for TensorBoard or Weights & Biases, a policy as one file, a folder for a
    model hub, or a Minari dataset. Exporting again replaces what was there."""

    runs: RunFolders
    """Run folders, or folders that hold some; one run for a policy, a hub or a dataset."""
    to: Target = "tensorboard"
    """tensorboard, wandb, minari and onnx need the extra of that name. Nothing is uploaded."""
    out: MaybePath = None
    """Where to write; default: `tensorboard`, `wandb`, `hub`, `minari` or `policy.onnx` (…) here."""
    project: str = "bires"
    """The W&B project."""
    member: Whole = 0
    """The member whose policy is written or goes to a hub, or whose episodes make a dataset."""
    episodes: MaybeWhole = None
    """Episodes of a dataset; default: 100 that are played, or all whole ones of the replay."""
    source: Source = "played"
    """A dataset's episodes: `played` by the trained policy without noise, or those of its training (`replay`)."""
    trust: Trust = False
    json: Json = False

    def run(self) -> int:
        from bires.cli.reporting import opened
        from bires.errors import UserError
        from bires.machine.terminal import aside, json_line, printable
        from bires.tools.exporting import ExportRequest, export

        if not self.runs:
            raise UserError("Give one or more run folders, or folders of them: `bires export RUN…`.")
        request = ExportRequest(self.to, self.out, self.project, self.member, self.episodes, self.source)
        with aside(self.json):
            done = export(opened(self.runs, self.trust), request, print)
        print(json_line(done) if self.json else printable(done.advice, "\n"))
        return 0


@dataclass(frozen=True)
class Check:
    """Say what an agent sees of a task, and whether it keeps what training asks of an environment.

    Exit code 0: it can be trained; 1: it raised, or gave what is not finite; 2: it is not known, cannot be built, or no
    agent can act there.
    """

    task: Annotated[str, tyro.conf.arg(metavar="TASK"), tyro.conf.Positional]
    """A name of `bires list tasks`, a Gymnasium id, MODULE:ID or MODULE:FUNCTION."""
    protocol: Protocol = "modern"
    """`modern` scales actions from [−1, 1] to the task's bounds; `paper` does not."""
    env_kwargs: Arguments = field(default_factory=dict)
    """Arguments of the environment's constructor, as JSON: '{"gravity": 9.8}'."""
    json: Json = False

    def family(self) -> dict[str, Any]:
        """The settings of the task's family that were typed: `bires.cli.groups.with_family` adds their flags."""
        return {}

    def run(self) -> int:
        from bires.settings.searching import flag_words
        from bires.tools.checking import diagnoses
        from bires.tools.diagnoses import show

        flags = [] if self.protocol == "modern" else ["--protocol", self.protocol]
        own = self.family()
        given = own | ({"env_kwargs": self.env_kwargs} if self.env_kwargs else {})
        flags += [word for name, value in given.items() for word in flag_words(name, value)]
        good = f"It can be trained: `{shlex.join(['bires', 'compare', self.task, *flags])}`."
        return show(diagnoses(self.task, self.protocol, self.env_kwargs, own), self.json, good, "It cannot be trained")


@dataclass(frozen=True)
class Doctor:
    """Say what works on this machine, and what to type where something does not.

    Exit code 0: training works here; 1: something it needs is missing or broken. Optional parts never fail.
    """

    json: Json = False

    def run(self) -> int:
        from bires.tools.doctor import doctor

        return doctor(self.json)
