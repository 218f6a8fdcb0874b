"""A Minari dataset of whole episodes: played by a trained policy, or those of its training."""

from __future__ import annotations

import importlib
import os
import re
import shutil
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces

from bires.envs.adapter import Environment
from bires.errors import UserError, writing_to
from bires.machine.terminal import counted
from bires.runs.folder import commit
from bires.runs.run import Run
from bires.settings import grid
from bires.settings.options import Source
from bires.settings.recipes import recipe_of
from bires.settings.validation import MOST_EPISODES, require_count
from bires.tools.playing import Episode, player
from bires.tools.replaying import replayed
from bires.types import Space

PLACE = "MINARI_DATASETS_PATH"
"""The environment variable by which Minari finds datasets."""
PLAYED = 100
"""Episodes that a policy plays, unless another number is given."""


def to_minari(run: Run, out: Path, member: int, episodes: int | None, source: Source) -> str:
    """Writes whole episodes as a dataset; returns what to type to load it.

    ``episodes``: how many; None: `PLAYED` of them, or all that the replay holds.
    """
    try:
        minari: Any = importlib.import_module("minari")
        importlib.import_module("h5py")
    except ImportError as error:
        raise UserError(f"--to minari needs a package ({error}): `pip install 'bires[minari]'`.") from error
    if episodes is not None:
        require_count("episodes", episodes, MOST_EPISODES)
    if source == "replay":
        environment, found, step = replayed(run, member, episodes)
    else:
        environment, found, step = played(run, member, PLAYED if episodes is None else episodes)
    who, name = grid.members(run.config)[member], dataset_name(run, member, source)
    count = counted(len(found), "whole episode")
    whose = f"{who.label} (seed {who.seed}, member {member})"
    how = {
        "played": f"played without exploration noise by the policy of {whose} at step {step}. It is not the replay of "
        "its training",
        "replay": f"of the training of {whose} up to step {step}, with its exploration, in order: the newest that its "
        "replay holds",
    }
    about = f"{count} of {run.config.task}, {how[source]}. Observations are flat vectors, in the order of their keys."
    buffer = [as_buffer(minari, number, episode, environment) for number, episode in enumerate(found)]
    with written_to(out), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that authors, links and environments may be named
        shutil.rmtree(out / name, ignore_errors=True)
        minari.create_dataset_from_buffers(
            dataset_id=name,
            buffer=buffer,
            env=environment_of(run, environment.space),
            observation_space=box_of(environment.space),
            action_space=environment.action_space,
            algorithm_name=who.label,
            code_permalink=commit(),
            description=about,
            jpeg_encoding=False,
        )
    return f"{out / name}: {about}\nLoad it: {PLACE}={out}, then minari.load_dataset({name!r})"


def played(run: Run, member: int, episodes: int) -> tuple[Environment, list[Episode], int]:
    """Noise-free episodes of a member at the newest checkpoint; its environment, and the step."""
    with player(run, member) as one:
        return one.environment, [one.play(number) for number in range(episodes)], one.step


def as_buffer(minari: Any, number: int, episode: Episode, environment: Environment) -> Any:
    """An episode as Minari has it; actions are what the environment's `step` got."""
    last, shape = len(episode.rewards) - 1, box_of(environment.space).shape
    return minari.data_collector.EpisodeBuffer(
        id=number,
        seed=episode.seed,
        observations=np.stack(episode.observations).reshape(-1, *shape),
        actions=np.stack([environment.scaled(action) for action in episode.actions]),
        rewards=list(episode.rewards),
        terminations=[episode.terminated and step == last for step in range(last + 1)],
        truncations=[not episode.terminated and step == last for step in range(last + 1)],
    )


def box_of(space: Space) -> spaces.Box:
    """What an observation is in the dataset."""
    if space.pixels is not None:
        return spaces.Box(0, 255, space.pixels.shape, np.uint8)
    return spaces.Box(-np.inf, np.inf, (space.observation,), np.float32)


def environment_of(run: Run, space: Space) -> Any:
    """The environment that a dataset can be evaluated in, where its observations are those of the dataset."""
    recipe = recipe_of(run.config)
    if space.pixels is not None or not recipe.portable or run.config.disturb:
        return None
    made = recipe.make()
    made.close()
    same = isinstance(made.observation_space, spaces.Box) and made.observation_space.shape == (space.observation,)
    return made if same else None


def dataset_name(run: Run, member: int, source: Source) -> str:
    """(namespace/environment/name-version) of characters that Minari accepts."""
    who = grid.members(run.config)[member]
    plain = [text.replace(".", "_") for text in (run.config.task, who.label)]
    task, label = (re.sub(r"[^A-Za-z0-9_]+", "-", text).strip("-") for text in plain)
    return f"bires/{task}/{label}-member-{member}{'-replay' * (source == 'replay')}-v0"


@contextmanager
def written_to(out: Path) -> Iterator[None]:
    """Minari's datasets are in this folder, for a while."""
    before = os.environ.get(PLACE)
    try:
        with writing_to(out):
            out.mkdir(parents=True, exist_ok=True)
            os.environ[PLACE] = str(out.resolve())
            yield
    finally:
        os.environ.pop(PLACE, None) if before is None else os.environ.update({PLACE: before})
