"""A run as a checkpoint and back: arrays in member order, so that another split into cohorts can take them up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from bires.checkpoint import Checkpoint, CorruptCheckpoint, Segment
from bires.dreaming import kept_states
from bires.envs.slots import TRAIN, Start
from bires.program import Program

if TYPE_CHECKING:
    from bires.cohort import Cohort
    from bires.trainer import Trainer

HOST = ("running_return", "finished_sum", "finished_count")
"""What a cohort counts on this side."""


def capture(trainer: Trainer) -> Checkpoint:
    """This moment of the run. The replay's new rows are written at once, as a segment."""
    cohorts = trainer.cohorts
    arrays: dict[str, np.ndarray] = {}
    parts = [flatten(cohort.state._replace(storage=None)) for cohort in cohorts]
    for name in parts[0]:
        arrays[f"state/{name}"] = np.concatenate([np.asarray(part[name]) for part in parts])
    for name in HOST:
        arrays[f"host/{name}"] = np.concatenate([getattr(cohort, name) for cohort in cohorts])
    running = [cohort.pool.running(i) for cohort in cohorts for i in range(len(cohort.members))]
    for member, start in enumerate(running):
        actions = np.asarray(start.actions, np.float32).reshape(-1, trainer.space.action)
        arrays[f"episode/{member}"] = actions
    save_new_rows(trainer)
    return Checkpoint(
        trainer.step,
        arrays,
        {
            "sizes": {"evaluations": trainer.evaluations.certain(), "metrics": trainer.metrics.certain()},
            "episodes": [start.episode for start in running],
            "returns": {str(member): value for member, value in trainer.returns.items()},
            "diverged": {str(member): step for member, step in trainer.diverged.items()},
        },
        list(trainer.segments),
    )


def save_new_rows(trainer: Trainer) -> None:
    """Appends a segment with the rows since the last one; forgets segments whose rows have all been overwritten."""
    start = trainer.segments[-1].stop if trainer.segments else 0
    oldest = max(0, trainer.step - trainer.capacity)
    start = max(start, oldest)
    if start < trainer.step:
        parts = [replay_of(cohort) for cohort in trainer.cohorts]
        arrays = {
            name: np.concatenate([written(part[name], start, trainer.step) for part in parts]) for name in parts[0]
        }
        trainer.segments.append(trainer.store.save_replay(arrays, start))
    trainer.segments = [segment for segment in trainer.segments if segment.stop > oldest]


def replay_of(cohort: Cohort) -> dict[str, Any]:
    """The arrays of a cohort's replay: (members, capacity, ·)."""
    return {**rings(cohort.state.storage), **(cohort.dreamer.states if cohort.dreamer else {})}


def written(array: Any, start: int, stop: int) -> np.ndarray:
    """What the steps [start, stop) wrote into a ring, gathered on its device."""
    begin, end = start % array.shape[1], (stop - 1) % array.shape[1] + 1
    if begin < end:
        return np.asarray(array[:, begin:end])
    return np.concatenate([np.asarray(array[:, begin:]), np.asarray(array[:, :end])], axis=1)


def rings(storage: Any) -> dict[str, Any]:
    """The arrays of a replay on the device, by name."""
    return flatten(storage if isinstance(storage, tuple) else {"rows": storage})


def from_rings(template: Any, stored: dict[str, np.ndarray], members: np.ndarray) -> Any:
    """The replay of some members out of arrays by name."""
    return unflatten(template, stored, members) if isinstance(template, tuple) else stored["rows"][members]


def restore(trainer: Trainer, checkpoint: Checkpoint) -> None:
    """Puts a checkpoint's members on their devices and rebuilds their episodes."""
    arrays, data = checkpoint.arrays, checkpoint.data
    trainer.step = checkpoint.step
    trainer.segments = list(checkpoint.replay)
    trainer.diverged = {int(member): step for member, step in data["diverged"].items()}
    trainer.returns = {int(member): value for member, value in data["returns"].items()}
    stored = load_replay(trainer, checkpoint.replay)
    for cohort in trainer.cohorts:
        mine = np.array([member.member for member in cohort.members])
        whole = jax.eval_shape(trainer.compiled.init, *trainer._init_shapes(len(mine)))
        template = whole._replace(storage=None)
        state = unflatten(template, {k.removeprefix("state/"): v for k, v in arrays.items()}, mine)
        state = state._replace(storage=from_rings(whole.storage, stored, mine))
        if cohort.dreamer is not None:
            for name, states in cohort.dreamer.states.items():
                states[:] = stored[name][mine]
        cohort.state = jax.tree.map(jnp.copy, jax.device_put(state, cohort.device))
        cohort.action = cohort.state.action
        for name in HOST:
            getattr(cohort, name)[:] = arrays[f"host/{name}"][mine]

    def rebuild(cohort: Cohort) -> None:
        actions = {m.member: arrays[f"episode/{m.member}"].tolist() for m in cohort.members}
        starts = {
            m.member: Start(i, m.seed, TRAIN, data["episodes"][m.member], actions=actions[m.member])
            for i, m in enumerate(cohort.members)
        }
        cohort.pool.rest([start for member, start in starts.items() if member in trainer.diverged])
        cohort.pool.begin([start for member, start in starts.items() if member not in trainer.diverged])

    trainer.each(rebuild)


def require_ours(trainer: Trainer, checkpoint: Checkpoint) -> None:
    """Refuses a checkpoint that is whole but not this run's: nothing of the run has been touched yet."""
    data, count = checkpoint.data, len(trainer.members)

    def require(condition: bool, what: str) -> None:
        if not condition:
            raise CorruptCheckpoint(f"the checkpoint of step {checkpoint.step} has {what} that this run cannot have")

    require(0 <= checkpoint.step <= trainer.config.steps, "a step")
    sizes, episodes = data.get("sizes"), data.get("episodes")
    require(isinstance(sizes, dict) and sizes.keys() == {"evaluations", "metrics"}, "sizes of files")
    assert isinstance(sizes, dict)
    for name, size in sizes.items():
        path = trainer.folder.path / f"{name}.csv"
        there = path.stat().st_size if path.is_file() else -1
        require(type(size) is int and 0 <= size <= there, f"a size of {name}.csv ({size}, the file has {there})")
    whole = isinstance(episodes, list) and all(type(number) is int and number >= 0 for number in episodes)
    require(whole and len(episodes or ()) == count, "episodes")
    for name in ("diverged", "returns"):
        found = data.get(name)
        named = isinstance(found, dict) and all(str(key).isdigit() and int(key) < count for key in found)
        require(named and all(isinstance(value, int | float) for value in (found or {}).values()), name)
    for member in range(count):
        actions = checkpoint.arrays.get(f"episode/{member}", np.zeros(0))
        require(actions.dtype == np.float32 and actions.shape[1:] == (trainer.space.action,), "actions")
    template = jax.eval_shape(trainer.compiled.init, *trainer._init_shapes(count))._replace(storage=None)
    named_arrays = {k.removeprefix("state/"): v for k, v in checkpoint.arrays.items()}
    unflatten(template, named_arrays, np.arange(count))
    for name in HOST:
        require(checkpoint.arrays.get(f"host/{name}", np.zeros(0)).shape == (count,), name)
    stop = max((segment.stop for segment in checkpoint.replay), default=0)
    require(stop == checkpoint.step, "a replay")
    for segment in checkpoint.replay:
        trainer.store.verify(segment)


def unflatten_learners(program: Program, checkpoint: Checkpoint, members: np.ndarray) -> Any:
    """The learners of some members of a checkpoint."""
    learner = jax.eval_shape(lambda: program.agent.init(np.random.default_rng(0)))
    shape: Any = jax.ShapeDtypeStruct
    template = jax.tree.map(lambda x: shape((1, *x.shape), x.dtype), learner)
    prefix = "state/learner."
    named = {k.removeprefix(prefix): v for k, v in checkpoint.arrays.items() if k.startswith(prefix)}
    return unflatten(template, named, members)


def load_replay(trainer: Trainer, segments: list[Segment]) -> dict[str, np.ndarray]:
    """The replay as it was, from its segments, with the physics states that planners keep beside it."""
    shapes = jax.eval_shape(trainer.compiled.init, *trainer._init_shapes(len(trainer.members))).storage
    stored = {name: np.zeros(ring.shape, ring.dtype) for name, ring in rings(shapes).items()}
    lead = (len(trainer.members), trainer.capacity)
    stored |= {name: np.zeros((*lead, trainer.physics)) for name in kept_states(trainer.program)}
    for segment in segments:
        arrays, steps = trainer.store.load_replay(segment), np.arange(segment.start, segment.stop)
        for name, array in stored.items():
            found, expected = arrays.get(name), (array.shape[0], len(steps), *array.shape[2:])
            if found is None or found.dtype != array.dtype or found.shape != expected:
                held = "nothing" if found is None else f"{found.dtype} {found.shape}"
                raise CorruptCheckpoint(f"{segment.file} holds {held} as {name!r}, which is not this run's replay")
            array[:, steps % trainer.capacity] = found
    return stored


def flatten(state: Any) -> dict[str, Any]:
    """Leaves by their path."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(state)
    return {jax.tree_util.keystr(path, simple=True, separator="."): leaf for path, leaf in leaves}


def unflatten(template: Any, arrays: dict[str, np.ndarray], members: np.ndarray) -> Any:
    """The tree with these leaves, for some members; a leaf of another shape or type is refused."""
    paths, structure = jax.tree_util.tree_flatten_with_path(template)
    leaves = []
    for path, expected in paths:
        name = jax.tree_util.keystr(path, simple=True, separator=".")
        array = arrays.get(name)
        fits = array is not None and array.shape[1:] == expected.shape[1:] and len(array) > members.max()
        if array is None or not fits or array.dtype != expected.dtype:
            found = "nothing" if array is None else f"{array.dtype} {array.shape}"
            raise CorruptCheckpoint(f"array {name!r}: {found} where {expected.dtype} {expected.shape} was expected")
        leaves.append(array[members])
    return jax.tree_util.tree_unflatten(structure, leaves)
