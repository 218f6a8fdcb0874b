"""Exports of runs: curves for viewers, a policy as a file, a folder for a model hub, a dataset."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bires.analysis import export as viewers
from bires.errors import UserError
from bires.runs.run import Run
from bires.settings.options import Source, Target
from bires.tools import hub, minari

PLACES: dict[Target, str] = {
    "tensorboard": "tensorboard",
    "wandb": ".",
    "hub": "hub",
    "minari": "minari",
    "safetensors": "policy.safetensors",
    "onnx": "policy.onnx",
}


@dataclass(frozen=True)
class ExportRequest:
    """What to export."""

    to: Target
    out: Path | None = None
    project: str = viewers.PROJECT
    member: int = 0
    episodes: int | None = None
    """Of a dataset; None: 100 that are played, or all that the replay holds."""
    source: Source = "played"


@dataclass(frozen=True)
class Exported:
    """What was written."""

    path: Path
    advice: str
    """What to type next."""


def export(runs: Sequence[Run], request: ExportRequest, say: Callable[[str], object] = lambda text: None) -> Exported:
    """Writes runs for another program; ``say`` is told what is missing."""
    out = request.out or Path(PLACES[request.to])
    if request.to != "minari" and (request.episodes is not None or request.source != "played"):
        given = "--episodes" if request.episodes is not None else "--source"
        raise UserError(f"{given} was given with --to {request.to}; it is for --to minari.")
    if any(out.resolve() == run.path.resolve() for run in runs):
        raise UserError(f"--out was given {out}, a run itself; give a folder beside it, such as {PLACES[request.to]}.")
    if request.to in ("tensorboard", "wandb"):
        return Exported(out, viewers.export(runs, request.to, out, request.project))
    if len(runs) != 1:
        raise UserError(f"--to {request.to} was given {len(runs)} runs; accepted: one, and --member.")
    if request.to == "hub":
        made = hub.to_hub(runs[0], out, request.member, say)
        return Exported(made, f"{made}; upload it with `hf upload USER/NAME {shlex.quote(str(made))}`")
    if request.to != "minari":
        return policy_of(runs[0], request.member, out, f".{request.to}")
    return Exported(out, minari.to_minari(runs[0], out, request.member, request.episodes, request.source))


def policy_of(run: Run, member: int, out: Path, suffix: str) -> Exported:
    """The policy of a member as one file."""
    if out.suffix != suffix:
        raise UserError(f"--out was given {out}; accepted with --to {suffix[1:]}: a name that ends in {suffix}.")
    policy = run.policy(member)
    policy.save(out)
    use = f"bires.load_policy({str(out)!r})" if suffix == ".safetensors" else "an ONNX runtime: observation → action"
    return Exported(out, f"{out}: {policy}; load it with {use}")
