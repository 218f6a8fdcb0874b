"""Where episodes end for a learner: what a protocol makes of terminations, time limits and lost lives."""

from __future__ import annotations

import numpy as np

from bires.envs.adapter import Protocol


def is_end(
    protocol: Protocol, terminated: np.ndarray, truncated: np.ndarray, life_lost: np.ndarray | bool = False
) -> np.ndarray:
    """Whether transitions are true ends: their discount is 0, and the value of the successor does not count.

    `modern` bootstraps through time limits; `paper` treats them as ends, as the paper's code did. A lost life of a game
    is an end for a learner, though its episode goes on.
    """
    ends = terminated | truncated if protocol == "paper" else terminated
    return np.asarray(ends | life_lost)
