"""How commands run and report: flags that many of them share."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from bires.settings.options import Cohorts, Options, Viewer, require_every
from bires.settings.values import Whole


def metavar(text: str) -> Any:
    """How help shows a flag that may be left out: what it takes, and no default, as the text says what happens then."""
    return tyro.conf.arg(metavar=text, help_behavior_hint="")


NO_DEFAULT = tyro.conf.arg(help_behavior_hint="")
"""For a list that may be empty: its text says what that means."""
RunFolder = Annotated[Path, tyro.conf.arg(name="RUN", metavar="RUN"), tyro.conf.Positional]
RunFolders = Annotated[
    tuple[Path, ...],
    tyro.conf.arg(name="RUN", metavar="RUN [RUN ...]", help_behavior_hint=""),
    tyro.conf.Positional,
]
MaybeWhole = Annotated[Whole | None, metavar("INT")]
MaybeNumber = Annotated[float | None, metavar("FLOAT")]
MaybeText = Annotated[str | None, metavar("STR")]
MaybePath = Annotated[Path | None, metavar("PATH")]
TRUST = "Use what RUN names: modules (MODULE:NAME), whose code runs, and text in --env-kwargs. For runs of your own."
Trust = Annotated[bool, tyro.conf.arg(help=TRUST)]
MaybeViewer = Annotated[Viewer | None, metavar("{tensorboard,wandb}")]
Json = Annotated[bool, tyro.conf.arg(help="Print JSON, for machines: one line.")]
"""The flag of a command that prints its result at its end."""


class Interrupted(Exception):
    """A run that stopped on request, and can be continued."""


@dataclass(frozen=True)
class RunOptions:
    """How a command runs and reports. Nothing here changes results."""

    workers: MaybeWhole = None
    """Environment processes; 0: none, step them here; default: chosen by size."""
    cohorts: Cohorts = Options.cohorts
    """Where the parts of a population compute: threads of this process, or processes, which pay for longer runs."""
    checkpoint_minutes: float = Options.checkpoint_minutes
    """A checkpoint is written when the last one is older than this, and at evaluations, if that takes little time."""
    keep_going: bool = False
    """Go on without checkpoints when they cannot be written (full disk); default: stop, to be resumed."""
    keep_every: MaybeWhole = None
    """Keep a checkpoint every so many steps, beside the newest, for its policies."""
    quiet: bool = False
    """Print nothing but errors (and what --json prints)."""
    json: bool = False
    """Print one JSON object per line, for machines."""

    def options(self) -> Options:
        kept = require_every(self.keep_every)
        return Options(self.workers, self.cohorts, self.checkpoint_minutes, self.keep_going, keep_every=kept)


@dataclass(frozen=True)
class Output(RunOptions):
    """How a command runs and reports, and where it writes. Nothing here changes results."""

    out: MaybePath = None
    """Where to write; default: a folder under runs, named by task and time. The same run there is continued."""
