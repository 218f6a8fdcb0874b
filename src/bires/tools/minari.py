"""A Minari dataset of whole episodes, played by a trained policy.

The replay of a checkpoint is not taken: it begins and ends within episodes, and under the paper's protocol it does not
tell a time limit from a true end.
"""

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
from bires.errors import UserError
from bires.runs.folder import commit
from bires.runs.run import Run
from bires.settings import grid
from bires.settings.recipes import recipe_of
from bires.settings.validation import MOST_EPISODES, require_count
from bires.tools.playing import Episode, player
from bires.types import Space

PLACE = "MINARI_DATASETS_PATH"
"""The environment variable by which Minari finds datasets."""


def to_minari(run: Run, out: Path, member: int, episodes: int) -> str:
    """Plays whole, noise-free episodes and writes them as a dataset; returns what to type to load it."""
    try:
        minari: Any = importlib.import_module("minari")
        importlib.import_module("h5py")
    except ImportError as error:
        raise UserError(f"--to minari needs a package ({error}): `pip install 'bires[minari]'`.") from error
    require_count("episodes", episodes, MOST_EPISODES)
    with player(run, member) as one:
        played = [one.play(number) for number in range(episodes)]
        buffer = [as_buffer(minari, number, episode, one.environment) for number, episode in enumerate(played)]
        space, actions, step = one.environment.space, one.environment.action_space, one.step
    who, name = grid.members(run.config)[member], dataset_name(run, member)
    count = f"{episodes} whole episode{'s' if episodes > 1 else ''}"
    about = (
        f"{count} of {run.config.task}, played without exploration noise by the policy of {who.label} "
        f"(seed {who.seed}, member {member}) at step {step}. It is not the replay of its training. Observations are "
        "flat vectors, in the order of their keys."
    )
    with written_to(out), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that authors, links and environments may be named
        shutil.rmtree(out / name, ignore_errors=True)
        minari.create_dataset_from_buffers(
            dataset_id=name,
            buffer=buffer,
            env=environment_of(run, space),
            observation_space=box_of(space),
            action_space=actions,
            algorithm_name=who.label,
            code_permalink=commit(),
            description=about,
            jpeg_encoding=False,
        )
    return f"{out / name}: {about}\nLoad it: {PLACE}={out}, then minari.load_dataset({name!r})"


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


def dataset_name(run: Run, member: int) -> str:
    """(namespace/environment/name-version) of characters that Minari accepts."""
    who = grid.members(run.config)[member]
    plain = [text.replace(".", "_") for text in (run.config.task, who.label)]
    task, label = (re.sub(r"[^A-Za-z0-9_]+", "-", text).strip("-") for text in plain)
    return f"bires/{task}/{label}-member-{member}-v0"


@contextmanager
def written_to(out: Path) -> Iterator[None]:
    """Minari's datasets are in this folder, for a while."""
    before = os.environ.get(PLACE)
    try:
        out.mkdir(parents=True, exist_ok=True)
        os.environ[PLACE] = str(out.resolve())
        yield
    except OSError as error:
        raise UserError(f"Cannot write to --out {out} ({error.strerror}). Give a folder you may write to.") from error
    finally:
        os.environ.pop(PLACE, None) if before is None else os.environ.update({PLACE: before})
