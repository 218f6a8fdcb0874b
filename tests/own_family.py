"""A family of pixel environments in one file, as a user would write it. Nothing in `src/` knows it.

`bires train tests.own_family:mine/Lamp-v0 --algorithm dqn --lamps 3` finds it by its module.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from bires.envs.families import PixelFamily
from bires.types import Pixels, Setting

SEEN = Pixels(stack=2, height=10, width=10, channels=3, convolutions=((3, 1, 8), (3, 2, 4)), clip_rewards=False)


class Lamp(gymnasium.Env):
    """One of some lamps shines, in its own column and a random colour; pointing at it gives 5, another −2."""

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012
    observation_space = spaces.Box(0, 255, (SEEN.stack * SEEN.channels, SEEN.height, SEEN.width), np.uint8)

    def __init__(self, lamps: int) -> None:
        self.lamps, self.action_space = lamps, spaces.Discrete(lamps)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        self.pictures = deque([self.picture()] * SEEN.stack, SEEN.stack)
        return np.concatenate(self.pictures), {}

    def step(self, action):
        reward = 5.0 if int(action) == self.lit else -2.0
        self.steps += 1
        self.pictures.append(self.picture())
        return np.concatenate(self.pictures), reward, self.steps == 7, False, {}

    def picture(self):
        self.lit = int(self.np_random.integers(self.lamps))
        picture = np.zeros((SEEN.channels, SEEN.height, SEEN.width), np.uint8)
        picture[:, :, 3 * self.lit : 3 * self.lit + 2] = self.np_random.integers(100, 256, (SEEN.channels, 1, 1))
        return picture

    def render(self):
        return np.moveaxis(self.pictures[-1], 0, -1)


FAMILY = PixelFamily(
    name="Lamps",
    owns=lambda task: task.startswith("mine/Lamp"),
    resolve=lambda task, protocol: task,
    build=lambda name, settings: Lamp(settings["lamps"]),
    pixels=SEEN,
    settings=(Setting("lamps", 3, "How many lamps there are.", low=1, high=3),),
)

gymnasium.register("mine/Lamp-v0", entry_point=f"{__name__}:Lamp")
