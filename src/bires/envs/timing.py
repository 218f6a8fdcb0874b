"""How long an environment takes for a step: measured before a run, to decide where it is stepped."""

from __future__ import annotations

import math
import time

import numpy as np

from bires.envs.adapter import Environment
from bires.machine.blas import one_thread


def step_seconds(environment: Environment) -> float:
    """About how long one step takes; infinite for an environment that raises (the run itself will report it)."""
    low, space, rng = math.inf, environment.space, np.random.default_rng(0)
    with one_thread():  # as it will be stepped
        try:
            environment.reset(0)
            for _ in range(10):
                action = rng.uniform(space.low, space.high).astype(np.float32)
                start = time.perf_counter()
                outcome = environment.step(action)
                low = min(low, time.perf_counter() - start)
                if low > 0.01 or outcome.terminated or outcome.truncated:
                    break
        except Exception:
            return math.inf
    return low
