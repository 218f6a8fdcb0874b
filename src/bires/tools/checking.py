"""What a task is to an agent, and whether it keeps what training asks of an environment."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial, update_wrapper
from typing import Any

import numpy as np

from bires.agents import registry
from bires.envs import limits, oracle, repeating
from bires.envs import recipe as recipes
from bires.envs.adapter import Environment, Protocol
from bires.envs.pool import Pool
from bires.envs.recipe import Recipe
from bires.envs.slots import TRAIN, Start, episode_seed, require_finite
from bires.errors import UserError
from bires.machine.terminal import counted
from bires.settings.recipes import family_values
from bires.tools.diagnoses import Diagnosis, examined

STEPS, SECONDS = 2_000, 5.0
"""Random steps that are taken, or fewer if they take longer than this."""
ENOUGH = 500
"""Steps without an end after which a task seems to have none."""
LARGE = 100.0
"""Observations and rewards above this are hard on networks whose weights are of order one."""


@dataclass
class RandomSteps:
    """Random actions, and what came of them."""

    observations: list[np.ndarray] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    """Steps of each episode that came to an end."""
    terminated: int = 0
    """How many of them ended by themselves; the others were cut."""
    seconds: list[float] = field(default_factory=list)
    """Of each step."""


def diagnoses(
    task: str, protocol: Protocol, kwargs: Mapping[str, Any], settings: Mapping[str, Any] | None = None
) -> Iterator[Diagnosis]:
    """All that is found, one after another; an unknown task, or one in which no agent can act, is a `UserError`.

    ``settings`` are those of the task's family that are not its defaults.
    """
    own = family_values(task, settings or {})
    recipe = recipes.recipe(task, protocol, own, kwargs)
    with closing(recipe.build()) as environment:
        yield Diagnosis("task", "ok", ", ".join([recipe.id, *(f"{name} {value}" for name, value in own.items())]))
        trial = RandomSteps()
        for check in CHECKS:
            asked = update_wrapper(partial(check, recipe, environment, trial), check)
            found = list(examined(asked, "look into the task's own code; it must keep to docs/environments.md"))
            yield from found
            if check is steps and found[-1].state == "broken":  # too little was seen to say more
                return


def steps(recipe: Recipe, environment: Environment, trial: RandomSteps) -> Iterator[Diagnosis]:
    """Takes the steps of the trial; what raises in them is what would freeze a member."""
    space, rng, episode, length = environment.space, np.random.default_rng(0), 0, 0
    trial.observations.append(environment.reset(episode))
    require_finite(trial.observations[-1])
    began = time.perf_counter()
    while len(trial.rewards) < STEPS and time.perf_counter() - began < SECONDS:
        action = rng.integers(0, space.choices, 1) if space.choices else rng.uniform(space.low, space.high)
        start = time.perf_counter()
        outcome = environment.step(action.astype(np.float32))
        trial.seconds.append(time.perf_counter() - start)
        require_finite(outcome.observation, outcome.reward)
        trial.observations.append(outcome.observation)
        trial.rewards.append(outcome.reward)
        length += 1
        if outcome.terminated or outcome.truncated:
            trial.lengths.append(length)
            trial.terminated += outcome.terminated
            episode, length = episode + 1, 0
            trial.observations.append(environment.reset(episode))
            require_finite(trial.observations[-1])
    yield Diagnosis(
        "steps", "ok", f"{len(trial.rewards):,} random ones, {1e6 * float(np.median(trial.seconds)):.0f} µs each"
    )


def observations(recipe: Recipe, environment: Environment, trial: RandomSteps) -> Iterator[Diagnosis]:
    """Their size and range, and whether they keep their space's bounds."""
    pixels, seen = environment.space.pixels, np.array(trial.observations)
    if pixels is not None:
        yield Diagnosis(
            "observations",
            "ok",
            f"{counted(pixels.stack, 'picture')} of {pixels.channels} × {pixels.height} × {pixels.width}",
        )
        return
    found = f"{counted(environment.space.observation, 'number')}, {seen.min():.3g} to {seen.max():.3g}"
    bounds = environment.observation_space
    outside = int(((seen < bounds.low.reshape(-1)) | (seen > bounds.high.reshape(-1))).any(1).sum())
    if outside:
        fix = "give observation_space the true bounds; nothing is clipped, so training is the same"
        yield Diagnosis(
            "observations", "advice", f"{found}; {outside} of {len(seen)} leave the bounds of the space", fix
        )
    elif np.ptp(seen) == 0:
        yield Diagnosis("observations", "advice", f"{found} in every step", "an observation that depends on the state")
    elif np.abs(seen).max() > LARGE:
        yield Diagnosis("observations", "advice", found, "--normalise-observations, or smaller units")
    else:
        yield Diagnosis("observations", "ok", found)


def actions(recipe: Recipe, environment: Environment, trial: RandomSteps) -> Iterator[Diagnosis]:
    """What an action is, and which agents act so."""
    space = environment.space
    kind = "discrete" if space.choices else "continuous"
    sight = "vector" if space.pixels is None else "pixels"
    able = ", ".join(name for name, one in registry.AGENTS.items() if one.actions == kind and sight in one.run)
    if space.choices:
        found = counted(space.choices, "choice")
    else:
        box = environment.action_space
        found = f"{counted(space.action, 'number')}, {box.low.min():.3g} to {box.high.max():.3g}"
    yield Diagnosis("actions", "ok", f"{found}: {able}")


def rewards(recipe: Recipe, environment: Environment, trial: RandomSteps) -> Iterator[Diagnosis]:
    """Their range; whether chance finds any, and whether they are of a size to learn with."""
    seen = np.array(trial.rewards)
    found = f"{seen.min():.3g} to {seen.max():.3g}, mean {seen.mean():.3g}"
    if np.ptp(seen) == 0 and not (seen[0] and trial.terminated):
        fix = "a reward that chance finds, or many steps" if seen[0] == 0 else "a reward that depends on what agents do"
        yield Diagnosis("rewards", "advice", f"{seen[0]:.3g} in every step", fix)
    elif np.abs(seen).max() > LARGE and not (environment.space.pixels and environment.space.pixels.clip_rewards):
        scale = 10.0 ** -np.floor(np.log10(np.abs(seen).max()))
        yield Diagnosis("rewards", "advice", found, f"--reward-scale {scale:g}: Q is as large as a sum of rewards")
    else:
        yield Diagnosis("rewards", "ok", found)


def episodes(recipe: Recipe, environment: Environment, trial: RandomSteps) -> Iterator[Diagnosis]:
    """How long they are, and how they end."""
    count, cut = len(trial.lengths), len(trial.lengths) - trial.terminated
    if not count:
        found = f"none ended in {len(trial.rewards):,} steps"
    else:
        lengths = " to ".join(str(one) for one in sorted({min(trial.lengths), max(trial.lengths)}))
        found = f"{count} of {lengths} steps: {trial.terminated} ended, {cut} were cut"
    if environment.limited and not count and len(trial.rewards) >= ENOUGH:
        fix = "register it with max_episode_steps, or wrap it in gymnasium.wrappers.TimeLimit"
        yield Diagnosis("episodes", "advice", f"{found}; training will cut them after {limits.LIMIT:,}", fix)
    else:
        yield Diagnosis("episodes", "ok", found)


def seeds(recipe: Recipe, environment: Environment, trial: RandomSteps) -> Iterator[Diagnosis]:
    """Whether seeds decide: runs continue exactly, and paired seeds are pairs, only then."""
    fix = "draw everything random from self.np_random, after super().reset(seed=seed)"
    if not repeating.same_again(recipe, environment, min(200, len(trial.rewards))):
        found = "another episode with the same seed and actions: runs cannot be continued exactly"
        yield Diagnosis("seeds", "advice", found, fix)
    elif all(np.array_equal(environment.reset(0), environment.reset(seed)) for seed in range(1, 5)):
        yield Diagnosis("seeds", "ok", "the same episode again; every episode starts in the same state")
    else:
        yield Diagnosis("seeds", "ok", "the same episode again with the same seed and actions, others with others")


def workers(recipe: Recipe, environment: Environment, trial: RandomSteps) -> Iterator[Diagnosis]:
    """Whether another process can build it."""
    if not recipe.portable:
        fix = "put it into a module and name it MODULE:ID, so that processes can share its steps"
        yield Diagnosis("workers", "advice", "it exists in this process only", fix)
        return
    with closing(Pool(recipe, environment.space, [range(1)], workers=1)) as pool:
        pool.begin([Start(0, 0, TRAIN)])
        there = pool.arrays.observation[0].copy()
        if not pool.failures:
            pool.arrays.action[0] = environment.space.low
            pool.send(0)
            pool.wait(0)
        if pool.failures:
            said = next(iter(pool.failures.values())).strip().splitlines()[-1]
            yield Diagnosis("workers", "advice", f"it raises in another process: {said}", "--workers 0")
            return
    if not np.array_equal(there, environment.reset(episode_seed(0, TRAIN, 0)), equal_nan=True):
        found = "an episode starts elsewhere in another process: runs cannot be continued exactly"
        yield Diagnosis("workers", "advice", found, "nothing may depend on the process, such as the hash of a text")
        return
    yield Diagnosis("workers", "ok", "another process builds, starts and steps it")


def planning(recipe: Recipe, environment: Environment, trial: RandomSteps) -> Iterator[Diagnosis]:
    """Whether planners can ask the simulator itself."""
    if environment.space.choices or environment.space.pixels:
        yield Diagnosis("planning", "absent", "planners need vectors and continuous actions")
        return
    try:
        size = oracle.check(recipe, environment)
    except UserError:
        has = environment.physics() is not None
        found = "its state can be set, but not exactly" if has else "its state cannot be set"
        cure = "mend its physics_state()" if has else "give it physics_state() and set_physics_state(state)"
        yield Diagnosis("planning", "absent", f"{found}, so it is no oracle", f"--model learned; or {cure}")
    else:
        yield Diagnosis("planning", "ok", f"--model oracle: a state is {size} numbers, and stepping from it is exact")


CHECKS: tuple[Callable[[Recipe, Environment, RandomSteps], Iterator[Diagnosis]], ...] = (
    steps,
    observations,
    actions,
    rewards,
    episodes,
    seeds,
    workers,
    planning,
)
