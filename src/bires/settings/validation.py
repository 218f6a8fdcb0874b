"""What no configuration may say: refused before anything is built."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import fields

from bires.envs import tasks
from bires.errors import UserError
from bires.settings import algorithms, defaults
from bires.settings.config import GRID, PLANNING_NUMBERS, Config, flag, settled, types

LARGEST = 2**31
"""Steps are counted in 32 bits."""


def validate(config: Config) -> None:
    """Refuses what cannot be meant, before anything is built."""
    from bires import rules

    for name in types():
        settled(name, getattr(config, name))
    for name in config.algorithm:
        algorithms.get(name)
    for name in config.rule:
        rules.get(name)
    for name in config.planner:
        algorithms.planner(name)
    require_finite(config)
    within("eta", config.eta, 0.0, 1.0, "0 is no forward term, 1 the full residual gradient; the paper uses 0.05")
    within("planning_eta", config.planning_eta, 0.0, 1.0, "the paper uses 0.2")
    within("gamma", config.gamma, 0.0, 1.0, "the paper uses 0.99")
    within("tau", config.tau, 0.0, 1.0, "the paper uses 1e-3")
    for name in ("epsilon_start", "epsilon_end"):
        within(name, getattr(config, name), 0.0, 1.0, "a share of all actions")
    within("sticky", [x for x in (config.sticky,) if x != -1], 0.0, 1.0, "-1: as the task's id says")
    require_counts(config)
    require_agent(config)
    require_distinct(config)
    require_steps(config)


def require_distinct(config: Config) -> None:
    """Refuses values that would make the same member twice."""
    if min(config.seed) < 0 or max(config.seed) >= 2**32:
        raise UserError(f"--seed was given {list(config.seed)}; accepted: whole numbers from 0 to 2**32 - 1.")
    for name in ("seed", *GRID, *PLANNING_NUMBERS):
        values = getattr(config, name)
        if len(set(values)) < len(values):
            what = "seeds" if name == "seed" else "numbers"
            raise UserError(f"{flag(name)} was given {list(values)}, some twice; equal {what} are equal members.")


def require_steps(config: Config) -> None:
    if config.warmup >= config.steps:
        shorter = f", or a shorter warm-up such as --warmup {config.steps // 10 or 1}" if config.steps > 1 else ""
        raise UserError(
            f"--warmup {config.warmup} leaves nothing to learn in --steps {config.steps}. Give more steps{shorter}."
        )
    if config.steps >= LARGEST:
        raise UserError(f"--steps was given {config.steps:g}; accepted: whole numbers below 2**31.")


def require_agent(config: Config) -> None:
    """Refuses settings that the agent does not have."""
    agent = config.agent
    settings = defaults.settings_for(config.task, config.algorithm)
    if agent == "ddpg" and tasks.is_atari(config.task):
        raise UserError(
            f"Task {config.task!r} is an Atari game, with discrete actions and pixels; {config.algorithm[0]} needs "
            "continuous actions and vectors. Use --algorithm dqn bi-res-dqn."
        )
    for name in GRID[1:]:
        if getattr(config, name) and name not in settings:
            raise UserError(f"{flag(name)} is no setting of {agent.upper()}; use {defaults.INSTEAD[name]}.")
        if not getattr(config, name) and name in settings:
            raise UserError(f"{flag(name)} was given no value; give one or more.")
    least = 2 if agent == "ddpg" else 1
    if len(config.hidden) < least or min(config.hidden) < 1:
        raise UserError(
            f"--hidden was given {list(config.hidden)}; accepted: {least} or more layer sizes from 1"
            + (", as the action enters at the second layer. The paper uses --hidden 400 300." if least == 2 else ".")
        )
    if agent == "ddpg":
        for name, accepted in (("optimiser", "adam"), ("max_grad_norm", 0.0), ("double_q", False), ("update_every", 1)):
            if getattr(config, name) != accepted:
                raise UserError(f"{flag(name)} {getattr(config, name)} is for DQN; DDPG has {accepted}.")


def require_finite(config: Config) -> None:
    for field in fields(config):
        value = getattr(config, field.name)
        if isinstance(value, tuple) and not value and field.name not in ("rule", "planner", *GRID[1:]):
            raise UserError(f"{flag(field.name)} was given no value; give one or more.")
        for number in value if isinstance(value, tuple) else (value,):
            if isinstance(number, float) and not math.isfinite(number):
                raise UserError(f"{flag(field.name)} was given {number}; accepted: finite numbers.")


def require_counts(config: Config) -> None:
    for name in (
        "steps",
        "warmup",
        "eval_every",
        "eval_episodes",
        "batch",
        "replay",
        "update_every",
        "log_every",
        "ensemble",
    ):
        if getattr(config, name) < 1:
            raise UserError(f"{flag(name)} was given {getattr(config, name)}; accepted: whole numbers from 1.")
    for name in (
        "actor_lr",
        "critic_lr",
        "noise",
        "planning_steps",
        "planning_noise",
        "epsilon_steps",
        "max_grad_norm",
    ):
        value = getattr(config, name)
        for number in value if isinstance(value, tuple) else (value,):
            if number < 0:
                raise UserError(f"{flag(name)} was given {number}; accepted: numbers from 0.")
    if min(config.horizon) < 1:
        raise UserError(f"--horizon was given {min(config.horizon)}; accepted: whole numbers from 1.")
    for period in config.target_every:
        if period < 1 or not float(period).is_integer():
            raise UserError(f"--target-every was given {period:g}; accepted: whole numbers from 1.")


def within(name: str, values: Sequence[float], low: float, high: float, hint: str) -> None:
    for value in values:
        if not low <= value <= high:
            raise UserError(f"{flag(name)} was given {value:g}; accepted: numbers from {low:g} to {high:g} ({hint}).")
