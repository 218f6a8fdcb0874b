"""Time limits: an environment that has none gets one, so that no evaluation waits for an end that never comes."""

from __future__ import annotations

import math
from typing import Any

from bires.envs import suite

LIMIT = 10_000
"""Steps of an episode after which it is cut, where neither Gymnasium nor DMControl cuts it."""


def has_limit(env: Any) -> bool:
    """Whether Gymnasium or DMControl cuts its episodes. What the environment itself does cannot be known."""
    from gymnasium import Wrapper, wrappers

    if suite.is_suite(env):
        return float(env.unwrapped._env._step_limit) < math.inf
    while isinstance(env, Wrapper):
        if isinstance(env, wrappers.TimeLimit):
            return True
        env = env.env
    return False


def limited(env: Any) -> Any:
    """The environment with `LIMIT`."""
    from gymnasium import wrappers

    return wrappers.TimeLimit(env, LIMIT)
