"""MinAtar's five games (Young & Tian 2019), Atari for a laptop: 10 × 10 pictures, a channel for each kind of object."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from bires.errors import UserError
from bires.types import Pixels

SIDE = 10
CHANNELS = {"Asterix": 4, "Breakout": 4, "Freeway": 7, "Seaquest": 10, "SpaceInvaders": 6}
"""Game → kinds of objects in it."""
LIMIT = 5_000
"""Steps after which an episode is cut off: a good policy may play for ever."""
SCALE = 16
"""Pixels of a drawn picture for each of the game's."""


def game_of(task: str) -> str | None:
    """The game of a task's name, such as MinAtar/Breakout-v1 or MinAtar/breakout; None: it is not one."""
    family, _, name = task.partition("/")
    plain = name.removesuffix("-v1").replace("_", "").lower()
    return next((game for game in CHANNELS if game.lower() == plain), None) if family.lower() == "minatar" else None


def pixels_of(task: str) -> Pixels:
    """What a game shows; one convolution and no clipped rewards, as its authors have it."""
    game = game_of(task)
    assert game is not None
    return Pixels(1, SIDE, SIDE, CHANNELS[game], convolutions=((3, 1, 16),), clip_rewards=False)


def resolve(task: str, protocol: str) -> str:
    """The id of a game, registered; nothing depends on the protocol."""
    name = f"MinAtar/{game_of(task)}-v1"
    if name not in gymnasium.registry:
        gymnasium.register(name, entry_point=f"{__name__}:MinAtar")
    return name


def build(name: str, settings: Mapping[str, Any]) -> MinAtar:
    return MinAtar(str(game_of(name)), settings["sticky"], settings["ramping"])


class MinAtar(gymnasium.Env[np.ndarray, Any]):
    """A game with its minimal set of actions; an episode depends on its seed alone."""

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 30}  # noqa: RUF012
    render_mode = "rgb_array"

    def __init__(self, game: str, sticky: float, ramping: bool) -> None:
        try:
            library: Any = importlib.import_module("minatar")
        except ImportError as error:
            raise UserError("MinAtar's games need MinAtar. Type: pip install 'bires[minatar]'") from error
        name = "space_invaders" if game == "SpaceInvaders" else game.lower()
        self._game = library.Environment(name, sticky_action_prob=sticky, difficulty_ramping=ramping)
        self._actions = self._game.minimal_action_set()
        self._steps = 0
        self.action_space = spaces.Discrete(len(self._actions))
        self.observation_space = spaces.Box(0, 255, (CHANNELS[game], SIDE, SIDE), np.uint8)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self._game.seed(int(self.np_random.integers(2**32)))
        self._game.last_action = 0  # what a sticky first action repeats
        self._game.reset()
        self._steps = 0
        return self._observation(), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        reward, over = self._game.act(self._actions[int(action)])
        self._steps += 1
        return self._observation(), float(reward), bool(over), self._steps >= LIMIT and not over, {}

    def render(self) -> Any:
        """The kinds of objects in colours."""
        state = np.asarray(self._game.state())
        hues = np.linspace(0, 1, state.shape[2], endpoint=False)[:, None] + np.array([0.0, 1 / 3, 2 / 3])
        colours = (128 + 127 * np.cos(2 * np.pi * hues)).astype(np.uint8)
        kind = np.where(state.any(2), state.argmax(2), -1)
        picture = np.where(kind[..., None] < 0, np.uint8(0), colours[kind])
        return picture.repeat(SCALE, 0).repeat(SCALE, 1).astype(np.uint8)

    def _observation(self) -> np.ndarray:
        return np.asarray(np.moveaxis(self._game.state(), 2, 0) * 255, np.uint8)
