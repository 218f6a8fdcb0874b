"""A run as a checkpoint and back: arrays in member order, so that another split into cohorts can take them up."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from bires.envs.slots import TRAIN, Start
from bires.errors import UserError
from bires.population.state import shapes
from bires.runs.arrays import flatten, unflatten
from bires.runs.checkpoint import Checkpoint, CorruptCheckpoint, Segment, Store
from bires.runs.folder import Appender, Folder
from bires.settings.options import Options
from bires.training.cohort import Cohort
from bires.training.plan import Plan
from bires.training.runners import CohortRunner
from bires.training.simulator import kept_states

HOST = ("running_return", "finished_sum", "finished_count")
"""What a cohort counts on this side."""


class LoopState(Protocol):
    """What a checkpoint must know of a run."""

    plan: Plan
    folder: Folder
    options: Options
    store: Store
    runner: CohortRunner
    step: int
    segments: list[Segment]
    diverged: dict[int, int]
    failed: set[int]
    stopped: dict[int, int]
    returns: dict[int, float]
    due: bool
    evaluations: Appender
    metrics: Appender


class CohortSnapshot(NamedTuple):
    """A cohort's part of a checkpoint."""

    state: dict[str, np.ndarray]
    host: dict[str, np.ndarray]
    running: list[Start]
    rows: dict[str, np.ndarray]
    """What the replay gained."""


def snapshot_of(cohort: Cohort, start: int, stop: int) -> CohortSnapshot:
    """This moment of a cohort, with the rows that the steps [start, stop) wrote."""
    state = cohort.state
    rows = {**rings(state.storage), **(cohort.bridge.simulator.states if cohort.bridge.simulator else {})}
    return CohortSnapshot(
        {name: np.asarray(leaf) for name, leaf in flatten(state._replace(storage=None)).items()},
        {name: getattr(cohort.bridge, name) for name in HOST},
        [cohort.pool.running(i) for i in range(len(cohort.members))],
        {name: written(ring, start, stop) for name, ring in rows.items()} if start < stop else {},
    )


def capture(loop: LoopState) -> Checkpoint:
    """This moment of the run. The replay's new rows are written at once, as a segment."""
    oldest = max(0, loop.step - loop.plan.capacity)
    start = max(loop.segments[-1].stop if loop.segments else 0, oldest)
    parts: list[CohortSnapshot] = loop.runner.each(snapshot_of, start, loop.step)
    arrays = {f"state/{name}": array for name, array in joined([part.state for part in parts]).items()}
    arrays |= {f"host/{name}": array for name, array in joined([part.host for part in parts]).items()}
    running = [one for part in parts for one in part.running]
    for member, one in enumerate(running):
        arrays[f"episode/{member}"] = np.asarray(one.actions, np.float32).reshape(-1, loop.plan.space.action)
    if start < loop.step:
        loop.segments.append(loop.store.save_replay(joined([part.rows for part in parts]), start))
    loop.segments = [segment for segment in loop.segments if segment.stop > oldest]
    return Checkpoint(
        loop.step,
        arrays,
        {
            "sizes": {"evaluations": loop.evaluations.certain(), "metrics": loop.metrics.certain()},
            "episodes": [one.episode for one in running],
            "returns": {str(member): value for member, value in loop.returns.items()},
            "diverged": {str(member): step for member, step in loop.diverged.items()},
            "failed": sorted(loop.failed),
            "evaluation_due": loop.due,
            "stopped": {str(member): step for member, step in loop.stopped.items()},
        },
        list(loop.segments),
    )


def joined(parts: Sequence[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """The cohorts' arrays as the population's."""
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def written(array: Any, start: int, stop: int) -> np.ndarray:
    """What the steps [start, stop) wrote into a ring, gathered on its device."""
    begin, end = start % array.shape[1], (stop - 1) % array.shape[1] + 1
    if begin < end:
        return np.asarray(array[:, begin:end])
    return np.concatenate([np.asarray(array[:, begin:]), np.asarray(array[:, :end])], axis=1)


def rings(storage: Any) -> dict[str, Any]:
    """The arrays of a replay, by name: several of pixels, else one."""
    return flatten(storage if isinstance(storage, tuple) else {"rows": storage})


def restore(loop: LoopState, checkpoint: Checkpoint) -> None:
    """Puts a checkpoint's members on their devices and rebuilds their episodes."""
    data = checkpoint.data
    loop.step, loop.due = checkpoint.step, data.get("evaluation_due", False)
    loop.segments = list(checkpoint.replay)
    loop.diverged = {int(member): step for member, step in data["diverged"].items()}
    loop.failed = set(data.get("failed", ()))
    loop.stopped = {int(member): step for member, step in data.get("stopped", {}).items()}
    loop.returns = {int(member): value for member, value in data["returns"].items()}
    loop.runner.each(make_room)
    for segment in checkpoint.replay:
        rows = load_rows(loop.plan, loop.store, segment)
        mine = [({name: array[part] for name, array in rows.items()}, segment.start) for part in loop.runner.parts]
        loop.runner.spread(refill, mine)
    found = loop.runner.each(take_up, checkpoint.arrays, data["episodes"], loop.diverged | loop.stopped)
    if loop.plan.repeats and (changed := [member for part in found for member in part]):
        loop.folder.amend(exact=False)
        loop.options.warn(
            f"{loop.plan.config.task} has changed since the checkpoint (its code, its packages or this machine): the "
            f"same seed and actions gave {len(changed)} of {len(loop.plan.members)} members another observation. The "
            "run goes on in the task as it is now. For curves of one task, train anew, with another --out"
        )


def make_room(cohort: Cohort) -> None:
    """An empty replay on the cohort's device: there is never a second one, so what fits can be resumed."""
    storage = rings(shapes(cohort.program, len(cohort.members)).storage)
    cohort.returning = {name: jnp.zeros(r.shape, r.dtype, device=cohort.device) for name, r in storage.items()}


def refill(cohort: Cohort, rows: dict[str, np.ndarray], start: int) -> None:
    """Puts rows of a segment, whose first was written in step ``start``, where they were."""
    capacity, kept = cohort.program.capacity, cohort.bridge.simulator.states if cohort.bridge.simulator else {}
    for name, array in rows.items():
        begin = start % capacity
        for piece in np.split(array, [capacity - begin], axis=1):
            if name in kept:  # physics states stay on this side
                kept[name][:, begin : begin + piece.shape[1]] = piece
            elif piece.shape[1]:
                cohort.returning[name] = put(cohort.returning[name], piece, begin)
            begin = 0


@partial(jax.jit, donate_argnums=0)
def put(ring: jax.Array, rows: jax.Array, begin: int) -> jax.Array:
    """The ring with some rows, written in place."""
    return jax.lax.dynamic_update_slice_in_dim(ring, rows, begin, axis=1)


def take_up(cohort: Cohort, arrays: dict[str, np.ndarray], episodes: list[int], gone: dict[int, int]) -> list[int]:
    """The members as they were, with the replay that came back, and their episodes.

    Returns the members whose environments are not where they were, after the same actions.
    """
    mine = np.array([member.member for member in cohort.members])
    whole = shapes(cohort.program, len(mine))
    state = unflatten(whole._replace(storage=None), {k.removeprefix("state/"): v for k, v in arrays.items()}, mine)
    storage = jax.tree.unflatten(jax.tree.structure(whole.storage), list(cohort.returning.values()))
    cohort.state = jax.tree.map(jnp.copy, jax.device_put(state, cohort.device))._replace(storage=storage)
    cohort.returning = {}
    for name in HOST:
        getattr(cohort.bridge, name)[:] = arrays[f"host/{name}"][mine]
    starts = [
        Start(i, m.seed, TRAIN, episodes[m.member], actions=arrays[f"episode/{m.member}"].tolist())
        for i, m in enumerate(cohort.members)
    ]
    resting = {i for i, m in enumerate(cohort.members) if m.member in gone}
    cohort.pool.rest([start for start in starts if start.slot in resting])
    cohort.pool.begin([start for start in starts if start.slot not in resting])
    if cohort.pool.failures:
        slot, text = next(iter(cohort.pool.failures.items()))
        raise UserError(
            f"The environment of member {cohort.members[slot].member} raised when its episode was rebuilt; nothing was "
            f"changed. Mend it, and type the same command again.\n{text}"
        )
    moved = (cohort.pool.arrays.observation[: len(mine)] != np.asarray(state.observation)).any(axis=1)
    return [int(member) for slot, member in enumerate(mine) if moved[slot] and slot not in resting]


def require_fitting(plan: Plan, folder: Folder, checkpoint: Checkpoint) -> None:
    """Refuses a checkpoint that is whole but not this run's: nothing of the run has been touched yet."""
    data, count = checkpoint.data, len(plan.members)

    def require(condition: bool, what: str) -> None:
        if not condition:
            raise CorruptCheckpoint(f"the checkpoint of step {checkpoint.step} has {what} that this run cannot have")

    require(0 <= checkpoint.step <= plan.config.steps, "a step")
    sizes, episodes = data.get("sizes"), data.get("episodes")
    require(isinstance(sizes, dict) and sizes.keys() == {"evaluations", "metrics"}, "sizes of files")
    assert isinstance(sizes, dict)
    for name, size in sizes.items():
        path = folder.path / f"{name}.csv"
        there = path.stat().st_size if path.is_file() else -1
        require(type(size) is int and 0 <= size <= there, f"a size of {name}.csv ({size}, the file has {there})")
    require(type(data.get("evaluation_due", False)) is bool, "an evaluation")
    whole = isinstance(episodes, list) and all(
        type(number) is int and 0 <= number <= checkpoint.step for number in episodes
    )
    require(whole and len(episodes or ()) == count, "episodes")
    for name in ("diverged", "stopped", "returns"):
        found = data.get(name, {} if name == "stopped" else None)  # older checkpoints know of no callbacks
        named = isinstance(found, dict) and all(str(key).isdigit() and int(key) < count for key in found)
        require(named and all(isinstance(value, int | float) for value in (found or {}).values()), name)
    failed = data.get("failed", [])  # older checkpoints count these among the diverged
    require(isinstance(failed, list) and all(type(one) is int and 0 <= one < count for one in failed), "failed members")
    for member in range(count):
        actions = checkpoint.arrays.get(f"episode/{member}", np.zeros(0))
        fits = actions.dtype == np.float32 and actions.shape[1:] == (plan.space.action,)
        require(fits and len(actions) <= checkpoint.step, "actions")
    template = shapes(plan.program, count)._replace(storage=None)
    named_arrays = {k.removeprefix("state/"): v for k, v in checkpoint.arrays.items()}
    unflatten(template, named_arrays, np.arange(count))
    for name in HOST:
        require(checkpoint.arrays.get(f"host/{name}", np.zeros(0)).shape == (count,), name)
    stop = max((segment.stop for segment in checkpoint.replay), default=0)
    require(stop == checkpoint.step, "a replay")
    for segment in checkpoint.replay:
        Store(folder.path).verify(segment)


def load_rows(plan: Plan, store: Store, segment: Segment) -> dict[str, np.ndarray]:
    """The rows of a segment, which must be what this run would have written."""
    arrays, lead = store.load_replay(segment), (len(plan.members), segment.stop - segment.start)
    storage = rings(shapes(plan.program, len(plan.members)).storage)
    expected = {name: (ring.dtype, (*lead, *ring.shape[2:])) for name, ring in storage.items()}
    expected |= {name: (np.dtype(float), (*lead, plan.physics)) for name in kept_states(plan.program)}
    for name, like in expected.items():
        found = arrays.get(name)
        if found is None or (found.dtype, found.shape) != like:
            held = "nothing" if found is None else f"{found.dtype} {found.shape}"
            raise CorruptCheckpoint(f"{segment.file} holds {held} as {name!r}, which is not this run's replay")
    return {name: arrays[name] for name in expected}
