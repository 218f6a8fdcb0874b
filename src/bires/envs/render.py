"""A process that repeats one episode and films it; the environment variable MUJOCO_GL chooses the GL library.

    python -m bires.envs.render < job.json          # a `Film` as JSON
    python -m bires.envs.render probe               # draws one picture of an empty world

It is a process of its own because a GL library is chosen once, at import, and training has chosen none. Exit code 2:
the message on the standard error is the user's to act on, and another GL library would not help.
"""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bires.envs.adapter import Environment
from bires.envs.recipe import Recipe
from bires.errors import UserError

FPS = 30
"""Pictures per second of a video, at most. Simulations are often finer than the eye needs."""


@dataclass(frozen=True)
class Film:
    """What to repeat, and where the video goes."""

    recipe: dict[str, Any]
    """A `Recipe`."""
    seed: int
    """Of the episode's start."""
    actions: list[list[float]]
    video: str
    """A name that ends in .mp4 or .gif."""


def main(arguments: list[str]) -> int:
    try:
        print(json.dumps(probe() if arguments == ["probe"] else shoot(Film(**json.load(sys.stdin)))), flush=True)
        return 0
    except UserError as error:
        print(error, file=sys.stderr)
        return 2


def probe() -> dict[str, int]:
    """Draws a picture of an empty world: whether the GL library works at all."""
    import mujoco

    model = mujoco.MjModel.from_xml_string("<mujoco><worldbody><light/><geom size='1'/></worldbody></mujoco>")
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    renderer = mujoco.Renderer(model, 16, 16)
    renderer.update_scene(data)
    return {"brightest": int(renderer.render().max())}


def shoot(film: Film) -> dict[str, float | int]:
    """Repeats the episode and writes its video; the result, for the process that started this one."""
    environment = Recipe(**film.recipe).build(render=True)
    every = max(1, round(environment.steps_per_second / FPS))
    fps = environment.steps_per_second / every
    rewards: list[float] = []
    pictures = frames(environment, film, every, rewards)
    path = Path(film.video)
    aside = path.with_name(f".{path.stem}.part{path.suffix}")
    count = (write_gif if path.suffix == ".gif" else write_mp4)(aside, pictures, fps)
    aside.replace(path)
    return {"return": math.fsum(rewards), "frames": count, "fps": fps}


def frames(environment: Environment, film: Film, every: int, rewards: list[float]) -> Iterator[np.ndarray]:
    """The first picture, then one after every so many steps, and the last; rewards are added to a list."""
    environment.reset(film.seed)
    yield environment.frame()
    for step, action in enumerate(film.actions, start=1):
        rewards.append(environment.step(np.asarray(action, np.float32)).reward)
        if step % every == 0 or step == len(film.actions):
            yield environment.frame()


def write_mp4(path: Path, pictures: Iterator[np.ndarray], fps: float) -> int:
    """H.264, playable everywhere; sizes are cut to even numbers, as its colours are stored at half the resolution."""
    import imageio.v2 as imageio

    count = 0
    film: Any = imageio.get_writer(path, format="FFMPEG", fps=fps, macro_block_size=1)
    with film as writer:
        for picture in pictures:
            height, width = (size // 2 * 2 for size in picture.shape[:2])
            writer.append_data(picture[:height, :width])
            count += 1
    return count


def write_gif(path: Path, pictures: Iterator[np.ndarray], fps: float) -> int:
    """A gif that repeats for ever; each picture has 256 colours of its own."""
    from PIL import Image

    images = [Image.fromarray(picture).quantize(dither=Image.Dither.NONE) for picture in pictures]
    images[0].save(path, save_all=True, append_images=images[1:], duration=10 * round(100 / fps), loop=0)
    return len(images)


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stderr.flush()
    os._exit(code)  # GL libraries complain when Python takes them down in its own order
