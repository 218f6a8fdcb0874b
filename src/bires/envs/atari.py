"""Atari games with DeepMind's preprocessing (Mnih et al. 2015), on ale-py's emulator.

An action is held for four frames; what is seen is the brighter of the last two, grey, 84 × 84; an observation is the
last four of those. An episode starts with up to 30 frames without action (from the seed); where fire is among the
actions it is pressed at the start and after each life, as some games wait for it. Rewards are the game's; the loss of a
life is reported, not an end. Sticky actions (each frame repeats the last action with some probability, Machado et al.
2018) are drawn from the seed.
"""

from __future__ import annotations

import importlib
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from bires.errors import UserError

SKIP, STACK, SIDE, NOOPS = 4, 4, 84, 30
NOOP, FIRE = 0, 1
"""The emulator's own action codes."""


def register() -> None:
    """Makes the ids of the games known to Gymnasium."""
    try:
        ale: Any = importlib.import_module("ale_py")
    except ImportError as error:
        raise UserError("Atari games need ale-py. Type: pip install 'bires[atari]'") from error
    ale.ALEInterface.setLoggerMode(ale.LoggerMode.Error)  # else it greets on the terminal, once for each environment
    gymnasium.register_envs(ale)


def shrink(size: int) -> np.ndarray:
    """The matrix that averages ``size`` pixels over 84 equal areas."""
    edges = np.arange(SIDE + 1) * size / SIDE
    pixels = np.arange(size)
    overlap = np.minimum(edges[1:, None], pixels + 1) - np.maximum(edges[:-1, None], pixels)
    return np.asarray(np.clip(overlap, 0, None) * SIDE / size, np.float32)


class Atari(gymnasium.Env):
    """A game, seen as its learner sees it; its picture is the player's."""

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 60 // SKIP}  # noqa: RUF012

    def __init__(self, id: str, sticky: float | None, full_actions: bool) -> None:
        register()
        settings: dict[str, Any] = {"frameskip": 1, "repeat_action_probability": 0.0, "full_action_space": full_actions}
        usual = gymnasium.spec(id).kwargs.get("repeat_action_probability", 0.0)
        self._sticky: float = usual if sticky is None else sticky
        self._env = gymnasium.make(id, disable_env_checker=True, **settings)
        self.spec = self._env.spec
        self._env.reset(seed=0)
        inner: Any = self._env.unwrapped
        self._ale = inner.ale
        self._start = self._ale.cloneState(include_rng=True)
        self._codes = [code.value for code in inner._action_set]
        self._fires = FIRE in self._codes
        height, width = self._ale.getScreenDims()
        self._screens = np.zeros((2, height, width), np.uint8)
        self._rows, self._columns = shrink(height), np.ascontiguousarray(shrink(width).T)
        self._stack = np.zeros((STACK, SIDE, SIDE), np.uint8)
        self.action_space = spaces.Discrete(len(self._codes))
        self.observation_space = spaces.Box(0, 255, self._stack.shape, np.uint8)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        """Every episode starts from one emulator state: the seed decides what follows, and no game is loaded again."""
        super().reset(seed=seed)
        self._ale.restoreState(self._start)
        self._held = NOOP
        for _ in range(int(self.np_random.integers(1, NOOPS + 1))):
            self._ale.act(NOOP)
        self._press_fire()
        self._lives = self._ale.lives()
        self._ale.getScreenGrayscale(self._screens[1])
        self._screens[0] = self._screens[1]
        self._stack = np.repeat(self._seen()[None], STACK, 0)
        return self._stack, {}

    def render(self) -> Any:
        return self._ale.getScreenRGB()

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        code, reward = self._codes[int(action)], 0.0
        for frame in range(SKIP):
            if not self._sticky or self.np_random.random() >= self._sticky:
                self._held = code
            reward += self._ale.act(self._held)
            if frame >= SKIP - 2:
                self._ale.getScreenGrayscale(self._screens[frame - SKIP + 2])
            if self._ale.game_over():
                break
        over, cut = self._ale.game_over(with_truncation=False), self._ale.game_truncated()
        lost = self._ale.lives() < self._lives
        self._lives = self._ale.lives()
        self._stack = np.concatenate([self._stack[1:], self._seen()[None]])
        if lost and not over:
            self._press_fire()
        return self._stack, float(reward), over, cut and not over, {"life_lost": lost}

    def close(self) -> None:
        self._env.close()

    def _press_fire(self) -> None:
        if self._fires:
            self._ale.act(FIRE)

    def _seen(self) -> np.ndarray:
        """The brighter of the last two screens, 84 × 84."""
        bright = np.maximum(self._screens[0], self._screens[1]).astype(np.float32)
        return np.asarray(np.rint(self._rows @ bright @ self._columns), np.uint8)
