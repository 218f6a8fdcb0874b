"""The episodes of a member's training, made anew from its replay.

A replay keeps what learners need: its rewards may be scaled or clipped, and a time limit may look like a true end. But
an episode is a function of its seed and its actions. So the replay's actions are taken again in the simulator, and
every observation is compared with the one that the replay holds.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import count

import numpy as np

from bires.envs.adapter import Environment
from bires.envs.slots import TRAIN, episode_seed
from bires.errors import UserError
from bires.machine.memory import free_memory, gigabytes
from bires.runs.checkpoint import Checkpoint, CorruptCheckpoint, Store
from bires.runs.policies import newest_checkpoint
from bires.runs.run import Run
from bires.settings import grid
from bires.settings.recipes import recipe_of
from bires.settings.values import proper
from bires.tools.playing import Episode
from bires.types import Space

COPIES = 3
"""How often an observation is in memory while a dataset is written, about."""


@dataclass(frozen=True)
class Recorded:
    """Some steps of a member's training, one after another, as its replay has them."""

    action: np.ndarray
    shown: np.ndarray
    """What each action was taken on; of pixels the newest frame."""
    starts: list[int]
    """Where episodes start among these steps; the last may not have ended."""
    numbers: list[int]
    """The number of each of these episodes."""


def replayed(run: Run, member: int, most: int | None) -> tuple[Environment, list[Episode], int]:
    """The newest whole episodes of a member's replay, ``most`` of them at most; its environment, and the step."""
    if not run.manifest.get("exact", True):
        raise UserError(
            f"{run.config.task} does not repeat for a seed, so its episodes cannot be made anew from the replay. Use "
            "--source played."
        )
    members = grid.members(run.config)
    if not 0 <= proper("member", member, int) < len(members):
        raise UserError(f"Member {member} was given; the run has {grid.numbered(len(members))}.")
    checkpoint = newest_checkpoint(run.path)
    with closing(recipe_of(run.config).build()) as environment:
        try:
            recorded = read(run, member, checkpoint, environment.space)
        except CorruptCheckpoint as error:
            raise UserError(f"The replay of {run.path} cannot be used: {error}") from error
        chosen = recorded if most is None else newest(recorded, most)
        require_room(environment.space, len(recorded.action) - min(chosen.starts, default=0))
        whole = list(made_anew(environment, chosen, members[member].seed))
    if not whole:
        raise UserError(
            f"The replay of member {member} holds no whole episode yet (step {checkpoint.step}). Train on, or use "
            "--source played."
        )
    return environment, whole if most is None else whole[-most:], checkpoint.step


def newest(recorded: Recorded, most: int) -> Recorded:
    """The newest episodes, one more than wanted, as the last may not have ended."""
    kept = slice(-(most + 1), None)
    return Recorded(recorded.action, recorded.shown, recorded.starts[kept], recorded.numbers[kept])


def require_room(space: Space, steps: int) -> None:
    """Refuses episodes that do not fit into memory."""
    needed, free = COPIES * steps * space.observation * np.dtype(space.dtype).itemsize, free_memory()
    if needed > free:
        raise UserError(
            f"{steps} steps with their observations need about {gigabytes(needed)} of memory; {gigabytes(free)} are "
            "free. Give fewer --episodes."
        )


def read(run: Run, member: int, checkpoint: Checkpoint, space: Space) -> Recorded:
    """What the replay holds of a member."""
    oldest = max(0, checkpoint.step - min(run.config.replay, run.config.steps))
    gone = checkpoint.data["diverged"] | checkpoint.data.get("stopped", {})
    until = gone.get(str(member), checkpoint.step)
    segments = checkpoint.replay
    kept = [{k: v[member] for k, v in Store(run.path).load_replay(one).items()} for one in segments]
    span = slice(oldest - segments[0].start, until - segments[0].start) if segments else slice(0)
    stored = {name: np.concatenate([part[name] for part in kept])[span] for name in (kept[0] if kept else ())}
    if not stored or not len(next(iter(stored.values()))):
        return Recorded(np.empty(0), np.empty(0), [], [])
    action, shown, first = columns(stored, space)
    first[0] = oldest == 0  # or the beginning of its episode is lost
    starts = np.flatnonzero(first).tolist()
    if oldest == 0:
        return Recorded(action, shown, starts, list(range(len(starts))))
    if str(member) in gone:
        raise UserError(
            f"Member {member} ended at step {until}, and its replay has lost its first steps: its episodes cannot be "
            "numbered. Use --source played."
        )
    begun = len(checkpoint.arrays[f"episode/{member}"]) > 0
    last = checkpoint.data["episodes"][member] - (not begun)
    return Recorded(action, shown, starts, list(range(last - len(starts) + 1, last + 1)))


def columns(stored: dict[str, np.ndarray], space: Space) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Actions, what they were taken on, and whether that starts an episode."""
    if space.pixels is not None:
        return stored["numbers"][:, : space.action], stored["frames"], stored["first"]
    o, a, rows = space.observation, space.action, stored["rows"]
    first = np.ones(len(rows), bool)
    follows = (rows[1:, :o] == rows[:-1, -o:]).all(1) & (rows[:-1, o + a + 1] > 0)
    first[1:] = ~follows  # from the step before; one that was cut in the state where it starts may seem to go on
    return rows[:, o : o + a], rows[:, :o], first


def made_anew(environment: Environment, recorded: Recorded, seed: int) -> Iterator[Episode]:
    """The whole episodes of a member with this seed: where one ends, the next one starts."""
    start = recorded.starts[0] if recorded.starts else len(recorded.action)
    for number in count(recorded.numbers[0] if recorded.numbers else 0):
        episode = again(environment, recorded, episode_seed(seed, TRAIN, number), start)
        if episode is None:
            return
        yield episode
        start += len(episode.actions)


def again(environment: Environment, recorded: Recorded, seed: int, start: int) -> Episode | None:
    """The episode of a seed and of the actions from ``start`` on; None: it does not end with them."""
    observations, rewards = [environment.reset(seed)], []
    for step in range(start, len(recorded.action)):
        shown = recorded.shown[step]
        if not np.array_equal(observations[-1][-shown.size :], shown):
            raise UserError(
                f"Step {step - start} of an episode that the replay holds was another when it was taken again: the "
                "simulator, or its version, is not that of the run. Use --source played."
            )
        outcome = environment.step(recorded.action[step])
        observations.append(outcome.observation)
        rewards.append(outcome.reward)
        if outcome.terminated or outcome.truncated:
            return Episode(seed, observations, list(recorded.action[start : step + 1]), rewards, outcome.terminated)
    return None
