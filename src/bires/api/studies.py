"""Studies: the paper's figures and claims, from populations that are trained where they are missing."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from bires.api.keywords import Whole
from bires.api.results import Run
from bires.api.spelling import as_typed, folder
from bires.api.training import make_options
from bires.errors import UserError
from bires.runs.tables import Table
from bires.settings.options import Cohorts, Options
from bires.settings.values import proper, several
from bires.studies import reproducing
from bires.studies.reproducing import Request
from bires.studies.study import Scale
from bires.training.display import Display


@dataclass(frozen=True)
class Reproduction:
    """What `reproduce` came to."""

    path: Path
    """report.html; of the study `linear`, the folder of its figures and tables."""
    runs: tuple[Run, ...]
    """One for each task and part of the study; of `linear`, none."""
    claims: Table
    """One row per claim of the paper: ``claim``, ``answer``, and, with populations, ``value``, ``low``, ``high``."""


@as_typed
def reproduce(
    study: str,
    *,
    scale: Scale = "small",
    task: str | Iterable[str] = (),
    seeds: Whole | None = None,
    steps: Whole | None = None,
    eval_every: Whole | None = None,
    eval_episodes: Whole | None = None,
    protocol: Literal["paper", "modern"] | None = None,
    at_once: int | None = None,
    minutes: float | None = None,
    ray: str | None = None,
    out: str | os.PathLike[str] | None = None,
    workers: int | None = None,
    cohorts: Cohorts = Options.cohorts,
    checkpoint_minutes: float = Options.checkpoint_minutes,
    keep_going: bool = False,
    quiet: bool = False,
) -> Reproduction:
    """Runs a study (`bires list studies`), or what is missing of it, and writes its figures, tables and report.

        found = bires.reproduce("auc", scale="smoke", task=["walker-stand", "cartpole-balance"])
        found.claims  # each claim of the paper beside what was measured

    ``scale``: ``"smoke"`` takes minutes, to see that everything works, ``"laptop"`` hours on two cores, with small
    networks, ``"small"`` hours on a workstation, ``"paper"`` is all of it. ``task`` names some of the study's tasks,
    which are run in that order. ``seeds`` to ``eval_episodes`` replace those of the scale, ``protocol`` that of the
    study. ``at_once`` populations run at the same time, each in a process of its own, for at most so many ``minutes``;
    ``ray`` is the address of a cluster in place of that. Called again, it goes on where it was stopped.

    All other arguments are those of `train`. Accelerators are left to the populations: this process uses the CPU from
    then on.
    """
    tasks = tuple(several(task))
    if not all(isinstance(one, str) for one in tasks):
        raise UserError(f"task was given {task!r}; accepted: names of the study's tasks, such as 'walker-stand'.")
    given = {"seeds": seeds, "steps": steps, "eval_every": eval_every, "eval_episodes": eval_episodes}
    settings: dict[str, Any] = {k: proper(k, v, int) for k, v in given.items() if v is not None}
    if protocol is not None:
        settings["protocol"] = proper("protocol", protocol, Literal["paper", "modern"])
    request = Request(
        study,
        proper("scale", scale, Scale),
        tasks,
        settings,
        None if out is None else folder("out", out),
        at_once,
        minutes,
        ray,
    )
    if request.linear:
        return lab(request)
    options = make_options(workers, cohorts, checkpoint_minutes, keep_going, None, None)
    with reproducing.as_command(request):
        outcome = reproducing.reproduce(request, options, Display(quiet=quiet))
    reproducing.require_all(outcome, request)
    judged = outcome.written.about.claims
    claims = Table(
        {
            "claim": np.array([one.statement for one in judged], object),
            "answer": np.array([one.answer for one in judged], object),
            **{
                end: np.array([getattr(one.value, end) if one.value else np.nan for one in judged])
                for end in ("value", "low", "high")
            },
        }
    )
    return Reproduction(outcome.report / "report.html", tuple(Run(run.path) for run in outcome.runs), claims)


def lab(request: Request) -> Reproduction:
    """The policy-evaluation lab, which trains no population."""
    from bires.linear.study import answer, run

    reproducing.require_plain(request)
    reproducing.require_place(request.where)
    verdicts = run(request.where, request.scale == "smoke")
    columns = {"claim": [v.statement for v in verdicts], "answer": [answer(v) for v in verdicts]}
    return Reproduction(request.where, (), Table({name: np.array(x, object) for name, x in columns.items()}))
