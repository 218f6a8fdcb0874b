"""The oracle: the simulator itself as a model, asked in batches.

Questions (a physics state and an action each) and answers (reward, observation, whether it is an end, and the state
after the step) share memory with the workers; a worker answers its part of the rows with one environment that it keeps
for this.
"""

from __future__ import annotations

import traceback
import zlib
from contextlib import closing
from typing import Any

import numpy as np

from bires.envs.adapter import Environment
from bires.envs.memory import Layout
from bires.envs.physics import inexact, missing
from bires.envs.recipe import Recipe
from bires.envs.slots import require_finite
from bires.errors import UserError
from bires.types import Space


class Questions:
    """Shared arrays of questions and answers, one row per question."""

    def __init__(self, layout: Layout, rows: int, space: Space, physics: int) -> None:
        self.rows = rows
        self.asked = layout.take((1,), np.int64)
        """How many of the rows are asked."""
        self.moment = layout.take((1,), np.int64)
        """The number of the step in which they are asked."""
        self.owner = layout.take((rows,), np.int64)
        """The slot that asks; it fails if the simulator raises."""
        self.state = layout.take((rows, physics), np.float64)
        self.action = layout.take((rows, space.action), np.float32)
        self.reward = layout.take((rows,), np.float64)
        self.terminated = layout.take((rows,), np.bool_)
        self.observation = layout.take((rows, space.observation), np.float32)
        self.successor = layout.take((rows, physics), np.float64)
        """The state after the step."""


class Oracle:
    """Answers questions with an environment of its own."""

    def __init__(self, recipe: Recipe) -> None:
        self._recipe = recipe
        self._environment: Environment | None = None

    def answer(self, questions: Questions, worker: int, workers: int) -> dict[int, str]:
        """Answers a worker's part of the rows; slot → traceback where the simulator raised."""
        asked = int(questions.asked[0])
        failures: dict[int, str] = {}
        for row in range(asked * worker // workers, asked * (worker + 1) // workers):
            try:
                self._answer(questions, row)
            except Exception:
                failures[int(questions.owner[row])] = traceback.format_exc()
                self.close()
        return failures

    def close(self) -> None:
        if self._environment is not None:
            self._environment.close()
            self._environment = None

    def _answer(self, questions: Questions, row: int) -> None:
        if self._environment is None:
            self._environment = self._recipe.build()
            self._environment.reset(0)
        physics = self._environment.physics()
        if physics is None:
            raise missing(self._recipe.id)
        physics.write(questions.state[row])
        moment = int(questions.moment[0])
        self._environment.draw_from(*drawn_from(questions.state[row], questions.action[row], moment))
        outcome = self._environment.step(questions.action[row])
        require_finite(outcome.observation, outcome.reward)
        questions.reward[row] = outcome.reward
        questions.terminated[row] = outcome.terminated
        questions.observation[row] = outcome.observation
        questions.successor[row] = physics.read()


def check(recipe: Recipe, first: Environment, steps: int = 8) -> int:
    """The size of a task's physics state, or a refusal: a second environment, set to each state, must do the same."""
    try:
        with closing(recipe.build()) as second:
            return compare(recipe, first, second, steps)
    except UserError:
        raise
    except Exception as error:
        raise UserError(
            f"--model oracle was given, but the environment of task {recipe.id!r} raised when it was tried:\n"
            f"{traceback.format_exc()}Use --model learned."
        ) from error


def compare(recipe: Recipe, first: Environment, second: Environment, steps: int) -> int:
    """Steps two environments side by side, the second always from the state of the first."""
    first.reset(1)
    second.reset(2)
    mine, other = first.physics(), second.physics()
    if mine is None or other is None:
        raise missing(recipe.id)
    rng = np.random.default_rng(0)
    for _ in range(steps):
        action = rng.uniform(first.space.low, first.space.high).astype(np.float32)
        other.write(mine.read())
        for environment in (first, second):
            environment.draw_from(*drawn_from(mine.read(), action, 0))
        did, imagined = first.step(action), second.step(action)
        for name in ("observation", "reward"):
            if not same_bits(getattr(did, name), getattr(imagined, name)):
                raise inexact(recipe.id, name)
        if did.terminated or did.truncated:
            first.reset(1)
    return mine.size


def drawn_from(state: np.ndarray, action: np.ndarray, moment: int) -> tuple[int, int, int]:
    """What disturbs an imagined action is a function of the question and of the step in which it is asked.

    So the noise is fresh each time, and the same after a resume.
    """
    return zlib.crc32(state.tobytes()), zlib.crc32(action.tobytes()), moment


def same_bits(a: Any, b: Any) -> bool:
    return np.asarray(a).tobytes() == np.asarray(b).tobytes()
