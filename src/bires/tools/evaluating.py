"""Evaluates the members of a run at its newest checkpoint."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace

import numpy as np

from bires.analysis.labels import labelled
from bires.envs.pool import Pool
from bires.envs.slots import EVALUATE_AGAIN
from bires.envs.timing import step_seconds
from bires.errors import UserError
from bires.machine import hardware
from bires.machine.hardware import choose_workers
from bires.population.program import make_program
from bires.population.step import compiled
from bires.runs.arrays import unflatten_learners
from bires.runs.folder import EVALUATION_COLUMNS
from bires.runs.policies import newest_checkpoint
from bires.runs.run import Run
from bires.runs.tables import Table
from bires.settings import grid
from bires.settings.recipes import recipe_of
from bires.settings.searching import trials_of, varied
from bires.settings.validation import MOST_EPISODES, require_count, validate
from bires.settings.values import proper
from bires.training.display import NAMED
from bires.training.evaluation import EvaluationBridge, evaluate, evaluation_environments


@dataclass(frozen=True)
class Evaluated:
    """What an evaluation found."""

    table: Table
    """One row per member."""
    skipped: dict[int, str]
    """Member → the error that its environment raised."""


def evaluate_run(run: Run, episodes: int, chosen: Sequence[int], workers: int | None) -> Evaluated:
    """Plays noise-free episodes of some members, or of all, from the newest checkpoint.

    They start where none of the run's own evaluations did, so a member that was chosen by those is judged anew. Called
    again, they are the same. In a grid the settings in which members differ are columns, beside seed and kind.
    """
    episodes = proper("episodes", episodes, int)
    require_count("episodes", episodes, MOST_EPISODES)
    workers = None if workers is None else proper("workers", workers, int)
    validate(run.config)
    everyone = grid.members(run.config)
    for member in chosen:
        if not 0 <= proper("member", member, int) < len(everyone):
            raise UserError(f"--member was given {member}; {run.path} has {grid.numbered(len(everyone))}.")
    checkpoint = newest_checkpoint(run.path)
    ids = np.array(list(dict.fromkeys(chosen)) or range(len(everyone)), int)
    members = [everyone[i] for i in ids]
    made = recipe_of(run.config)
    with closing(made.build()) as environment:
        space, step_s = environment.space, step_seconds(environment)
    placement = hardware.place(len(members))
    program = make_program(run.config, everyone, space, 1)
    count = choose_workers(len(members) * episodes, workers, made.portable, step_s)
    per_member = evaluation_environments(len(members), episodes, count)
    pool = Pool(made, space, [list(range(len(members) * per_member))], count)
    try:
        wanted = replace(run.config, eval_episodes=episodes)
        bridge = EvaluationBridge(pool, 0, members, wanted, EVALUATE_AGAIN)
        learners = unflatten_learners(program, checkpoint, ids)
        evaluate_members = compiled(program, False, placement.options).evaluate_members
        rows = evaluate(bridge, evaluate_members, learners, np.ones(len(members), bool), checkpoint.step)
        failed = {members[slot // per_member].member: text for slot, text in pool.failures.items()}
    finally:
        pool.close()
    rows = [row for row in rows or () if row[0] not in failed]
    if not rows:
        first, text = next(iter(failed.items()))
        raise UserError(f"The environment of member {first} raised, and no member is left:\n{text}")
    found = [(member, checkpoint.reached(member), *rest) for member, *rest in rows]
    records = [dict(zip(EVALUATION_COLUMNS, row, strict=True)) for row in found]
    labels = [row["label"] for row in labelled([run])[0]]
    kinds = trials_of(everyone)
    grid_of = [name for name in varied(kinds) if name not in NAMED]
    for record in records:
        number = record["member"]
        settings = everyone[number].row()
        record |= {"seed": everyone[number].seed, "kind": labels[number]} | {name: settings[name] for name in grid_of}
    return Evaluated(Table({name: [record[name] for record in records] for name in records[0]}), failed)
