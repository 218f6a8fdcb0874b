"""Probe environments: tiny MDPs with known values, each isolating one way to fail.

Importing this module registers them with Gymnasium.
"""

import os
import time
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

BOX = spaces.Box(-1.0, 1.0, (1,), np.float32)


class Probe(gymnasium.Env):
    """An environment whose observation is one number, at first 0."""

    observation_space = spaces.Box(-np.inf, np.inf, (1,), np.float32)
    action_space: spaces.Space = BOX

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return self.observe(0.0), {}

    def observe(self, value: float) -> np.ndarray:
        return np.array([value], np.float32)


class ConstantReward(Probe):
    """One state, one step, reward 1: Q = 1 everywhere."""

    def step(self, action):
        return self.observe(0.0), 1.0, True, False, {}


class TwoSteps(Probe):
    """State 0 → state 1 → end, reward 1 at the end: Q(0) = γ, Q(1) = 1. Fails without bootstrapping."""

    def step(self, action):
        self.steps += 1
        return self.observe(1.0), float(self.steps == 2), self.steps == 2, False, {}


class Clock(Probe):
    """One state, reward 1 for ever, cut off by a time limit of 5: Q = 1 / (1 − γ) if one bootstraps through it.

    Under the protocol of the paper the limit is an end; the state is the same at every step, so Q averages over them.
    """

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return self.observe(1.0), {}

    def step(self, action):
        self.steps += 1
        return self.observe(1.0), 1.0, False, self.steps == 5, {}


class Slides(Clock):
    """The same, but its observation counts the steps."""

    def observe(self, value: float) -> np.ndarray:
        return super().observe(self.steps)


class Target(Probe):
    """One step; reward −(a − 0.5)²: the best action is 0.5. Fails when the actor does not climb Q."""

    def step(self, action):
        return self.observe(0.0), -float((action[0] - 0.5) ** 2), True, False, {}


class Endless(Probe):
    """Never ends, and takes its time."""

    def step(self, action):
        time.sleep(0.005)
        return self.observe(0.0), 0.0, False, False, {}


class Forgetful(Clock):
    """Every one that is built starts elsewhere, whatever the seed."""

    def __init__(self) -> None:
        self.start = np.random.default_rng().uniform()

    def observe(self, value: float) -> np.ndarray:
        return super().observe(self.start)


class Counted(Clock):
    """The same; it counts how many of it were built."""

    built = 0

    def __init__(self) -> None:
        Counted.built += 1


class Raises(Probe):
    """Raises at its 30th step of the members whose seed says so."""

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.start = float(self.np_random.uniform(-1, 1))
        self.steps = 0
        return self.observe(self.start), {}

    def step(self, action):
        self.steps += 1
        if self.steps == 30 and self.start < 0:
            raise RuntimeError("the motor came off")
        return self.observe(self.start), 0.0, False, self.steps == 50, {}


class Sticks(Raises):
    """Raises at the first step of episodes whose seed says so; the others have three steps, reward 1."""

    def step(self, action):
        self.steps += 1
        if self.start < -0.5:
            raise RuntimeError("the brake is on")
        return self.observe(self.start), 1.0, False, self.steps == 3, {}


class Leaves(Raises):
    """Ends its process where `Raises` raises."""

    def step(self, action):
        try:
            return super().step(action)
        except RuntimeError:
            os._exit(5)


class Hopeless(Probe):
    """Cannot start."""

    def reset(self, *, seed=None, options=None):
        raise RuntimeError("no licence key")


class Unbuildable(Probe):
    """Cannot be made."""

    def __init__(self):
        raise RuntimeError("no such robot")


class NotFinite(Raises):
    """Gives nan where `Raises` raises."""

    def step(self, action):
        try:
            return super().step(action)
        except RuntimeError:
            return self.observe(float("nan")), 0.0, False, False, {}


class Wide(Probe):
    """Bounds that are not ±1: reward is the action as the environment received it."""

    action_space = spaces.Box(-0.4, 0.4, (1,), np.float32)

    def step(self, action):
        return self.observe(0.0), float(action[0]), True, False, {}


class Choice(Probe):
    """State 0 → state 1 → end among three choices; a reward of 1 for taking 2, then 0. Any other choice ends it."""

    action_space = spaces.Discrete(3)

    def step(self, action):
        right = int(action) == (2, 0)[self.steps]
        self.steps += 1
        return self.observe(1.0), float(right and self.steps == 2), not right or self.steps == 2, False, {}


class Settable(Probe):
    """A point pushed by the action: x ← x + 0.1 v, v ← v + 0.1 a, reward −x². Its state can be read and set."""

    observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        self.x, self.v = self.np_random.uniform(-1, 1, 2)
        return np.array([self.x, self.v], np.float32), {}

    def step(self, action):
        self.steps += 1
        self.x, self.v = self.x + 0.1 * self.v, self.v + 0.1 * float(action[0])
        return np.array([self.x, self.v], np.float32), -(self.x**2), False, self.steps == 50, {}

    def physics_state(self):
        return np.array([self.x, self.v])

    def set_physics_state(self, state):
        self.x, self.v = (float(value) for value in state)


class HalfSettable(Settable):
    """Its reward depends on what its physics state does not hold."""

    def step(self, action):
        observation, _, terminated, truncated, info = super().step(action)
        return observation, float(self.np_random.uniform()), terminated, truncated, info


class Touchy(Settable):
    """Drifts to the right, and cannot be set to where it ends up."""

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x = self.v = 0.0
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.x += 0.05
        return super().step(action)

    def set_physics_state(self, state):
        if state[0] > 1.0:
            raise RuntimeError("out of reach")
        super().set_physics_state(state)


class Drawn(Probe):
    """Six steps whose picture gets brighter; reward is start · action, so an episode is known by its return."""

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012

    def __init__(self, render_mode=None):
        self.render_mode = render_mode

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.start = float(self.np_random.uniform(1, 2))
        self.steps = 0
        return self.observe(self.start), {}

    def step(self, action):
        self.steps += 1
        return self.observe(self.start + self.steps), self.start * float(action[0]), False, self.steps == 6, {}

    def render(self):
        return np.full((24, 33, 3), 30 * self.steps, np.uint8)


class Moody(Drawn):
    """The same with a reward that no seed repeats."""

    def step(self, action):
        observation, _, *rest = super().step(action)
        return observation, float(np.random.default_rng().uniform()), *rest


for kind in (
    Choice,
    ConstantReward,
    TwoSteps,
    Clock,
    Endless,
    Forgetful,
    Counted,
    Target,
    Slides,
    Raises,
    Sticks,
    Leaves,
    Hopeless,
    Unbuildable,
    NotFinite,
    Wide,
    Settable,
    HalfSettable,
    Touchy,
    Drawn,
    Moody,
):
    name = f"bires-test/{kind.__name__}-v0"
    if name not in gymnasium.registry:
        gymnasium.register(name, entry_point=f"{__name__}:{kind.__name__}")
