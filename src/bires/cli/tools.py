"""Commands around a run and the machine: play, export, doctor."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from bires.settings.config import Whole


@dataclass(frozen=True)
class Play:
    """Film one noise-free episode of a member at the newest checkpoint; no display is needed."""

    run_folder: Annotated[Path, tyro.conf.arg(name="RUN"), tyro.conf.Positional]
    member: Whole = 0
    """The member that plays."""
    episode: Whole = 0
    """Which evaluation episode: it starts where that one started."""
    video: Path | None = None
    """Where to write, .mp4 (needs `bires[video]`) or .gif; default: member-M.mp4 in the run folder, or .gif."""
    trust: bool = False
    """Use what RUN names: modules (MODULE:NAME), whose code runs, and text in --env-kwargs. For runs of your own."""

    def run(self) -> int:
        from bires.errors import UserError
        from bires.runs.run import Run
        from bires.tools.video import has_ffmpeg, play

        if self.episode < 0:
            raise UserError(f"--episode was given {self.episode}; accepted: whole numbers from 0.")
        default = self.run_folder / f"member-{self.member}.{'mp4' if has_ffmpeg() else 'gif'}"
        done = play(Run(self.run_folder, self.trust), self.member, self.episode, self.video or default)
        print(f"{done.video}: return {done.total:.1f} in {done.steps} steps ({done.frames} pictures, {done.backend})")
        return 0


@dataclass(frozen=True)
class Export:
    """Write the curves of runs for TensorBoard or Weights & Biases; exporting again replaces what was there."""

    runs: Annotated[tuple[Path, ...], tyro.conf.arg(name="RUN"), tyro.conf.Positional]
    """Run folders, or folders that hold some."""
    to: Literal["tensorboard", "wandb"] = "tensorboard"
    """Which: needs `bires[tensorboard]` or `bires[wandb]`. W&B files are written offline, without an account."""
    out: Path | None = None
    """Where to write; default: a folder `tensorboard` or `wandb` here."""
    project: str = "bires"
    """The W&B project."""
    trust: bool = False
    """Use what RUN names: modules (MODULE:NAME), whose code runs, and text in --env-kwargs. For runs of your own."""

    def run(self) -> int:
        from bires.analysis.export import export
        from bires.cli.reporting import opened
        from bires.errors import UserError
        from bires.machine.terminal import printable

        if not self.runs:
            raise UserError("Give one or more run folders, or folders of them: `bires export RUN…`.")
        runs = opened(self.runs, self.trust)
        print(
            printable(
                export(
                    runs, self.to, self.out or Path("tensorboard" if self.to == "tensorboard" else "."), self.project
                )
            )
        )
        return 0


@dataclass(frozen=True)
class Doctor:
    """Say what works on this machine, and what to type where something does not.

    Exit code 0: training works here; 1: something it needs is missing or broken. Optional parts never fail.
    """

    json: bool = False
    """Print JSON, for machines."""

    def run(self) -> int:
        from bires.tools.doctor import doctor

        return doctor(self.json)
