"""Checks of a configuration, before anything is built. The bounds of an agent's settings are checked in `config`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import fields
from typing import NamedTuple

from bires import rules
from bires.agents import registry
from bires.errors import UserError
from bires.planning import registry as planners
from bires.settings import grid
from bires.settings.config import Config, settled, types
from bires.settings.values import flag, shown
from bires.types import accepted

LARGEST = 2**31
"""Steps are counted in 32 bits."""
MOST_EPISODES = 10_000
"""Of an evaluation."""
COUNTS = (
    *("steps", "warmup", "eval_every", "eval_episodes", "log_every"),
    *("batch", "replay", "update_every", "update_times"),
)


MAY_BE_NONE = ("rule", "planner", "eta_end", "eta_until", "lr_end", "lr_until")
LEAST_SHARE = 0.01
"""Of a learning rate; what is smaller is one itself, most likely."""


class Bounds(NamedTuple):
    """The numbers that a setting of `Config` may have."""

    low: float
    high: float = math.inf
    hint: str = ""


BOUNDS: dict[str, Bounds] = {
    "eta": Bounds(0.0, 1.0, "0 is no forward term, 1 the full residual gradient; the paper uses 0.05"),
    "eta_end": Bounds(0.0, 1.0, "0 is no forward term, 1 the full residual gradient"),
    "lr_end": Bounds(0.0, 1.0, "a share of every learning rate: 0.1 is a tenth of it"),
    "gamma": Bounds(0.0, 1.0, "the paper uses 0.99"),
    "disturb": Bounds(0.0, hint="actions lie in [-1, 1]; 0 is a world without noise"),
    "seed": Bounds(0, 2**32 - 1),
    "hidden": Bounds(1),
    **{name: Bounds(1) for name in COUNTS},
    "eval_episodes": Bounds(1, MOST_EPISODES),
}


def validate(config: Config) -> None:
    """Refuses a configuration that cannot be trained."""
    for name in types():
        settled(name, getattr(config, name))
    for name in config.algorithm:
        registry.algorithm(name)
    for name in config.rule:
        rules.get(name)
    for planned in filter(None, map(planners.named, config.planner)):
        planners.planner(planned)
    require_finite(config)
    require_within("eta", config.eta)
    require_schedule(config, "eta", "η moves")
    require_schedule(config, "lr", "learning rates move")
    require_rates(config)
    require_within("gamma", config.gamma)
    require_within("disturb", (config.disturb,))
    require_counts(config)
    require_agent(config)
    require_distinct(config)
    require_scales(config)
    require_trust(config)
    require_steps(config)


def require_counts(config: Config) -> None:
    """Refuses numbers of things that cannot be."""
    for name in COUNTS:
        require_count(name, getattr(config, name), int(min(BOUNDS[name].high, LARGEST - 1)))


def require_count(name: str, value: int, most: int) -> None:
    """Refuses a number of something that is not from 1 to ``most``."""
    if not 1 <= value <= most:
        within = f"from 1 to {most}" if most < LARGEST - 1 else "below 2**31" if value > most else "from 1"
        raise UserError(f"{flag(name)} was given {shown(value)}; accepted: whole numbers {within}.")


def require_finite(config: Config) -> None:
    for item in fields(config):
        value = getattr(config, item.name)
        if isinstance(value, tuple) and not value and item.name not in MAY_BE_NONE:
            raise UserError(f"{flag(item.name)} was given no value; give one or more.")
        for number in value if isinstance(value, tuple) else (value,):
            if isinstance(number, float) and not math.isfinite(number):
                raise UserError(f"{flag(item.name)} was given {number}; accepted: finite numbers.")


def require_within(name: str, values: Sequence[float]) -> None:
    low, high, hint = BOUNDS[name]
    for value in values:
        if not low <= value <= high:
            raise UserError(f"{flag(name)} was given {value:g}; accepted: {accepted(float, low, high)} ({hint}).")


def require_schedule(config: Config, name: str, moves: str) -> None:
    """Refuses half a schedule, and one that ends before it begins."""
    end, until = f"{name}_end", f"{name}_until"
    ends, steps = getattr(config, end), getattr(config, until)
    require_within(end, ends)
    if bool(ends) != bool(steps):
        given, missing = (end, f"{until} {config.steps}") if ends else (until, f"{end} 0")
        raise UserError(
            f"{flag(given)} was given alone; {moves} to {flag(end)} at step {flag(until)}. Add {flag(missing)}."
        )
    for step in steps:
        if not config.warmup < step < LARGEST:
            raise UserError(
                f"{flag(until)} was given {shown(step)}; accepted: steps after the warm-up, from {config.warmup + 1}."
            )


def require_rates(config: Config) -> None:
    """Refuses learning rates where shares of them are meant, and an agent none of whose numbers is one that moves."""
    for share in config.lr_end:
        if 0 < share < LEAST_SHARE:
            raise UserError(
                f"--lr-end was given {share:g}; accepted: 0, and numbers from {LEAST_SHARE} to 1 "
                f"({BOUNDS['lr_end'].hint})."
            )
    agent = config.agent
    if config.lr_end and (not agent.rates or set(agent.rates) - set(agent.varying)):
        raise UserError(
            f"--lr-end was given, but {agent.title} has no learning rates that can move: those are settings of an "
            "agent with rate=True and varies=True. Leave it out."
        )


def require_agent(config: Config) -> None:
    """Refuses a task that the agent cannot observe, and sizes that it cannot have."""
    agent = config.agent
    if config.sight not in agent.run:
        able = [name for spec in registry.AGENTS.values() if config.sight in spec.run for name in spec.algorithms]
        raise UserError(
            f"Task {config.task!r} has observations of the kind {config.sight}; {config.algorithm[0]} needs "
            f"{' or '.join(agent.run)}. Use --algorithm {able[0] if able else '…'}, or another task."
        )
    if len(config.hidden) < agent.layers or min(config.hidden) < BOUNDS["hidden"].low:  # large ones: by memory
        example = " ".join(str(size) for size in agent.run[config.sight]["hidden"])
        raise UserError(
            f"--hidden was given {list(config.hidden)}; accepted for {agent.title}: {agent.layers} or more layer sizes "
            f"from 1, such as --hidden {example}."
        )


def require_distinct(config: Config) -> None:
    """Refuses values that would make the same member twice."""
    if min(config.seed) < BOUNDS["seed"].low or max(config.seed) > BOUNDS["seed"].high:
        raise UserError(f"--seed was given {list(config.seed)}; accepted: whole numbers from 0 to 2**32 - 1.")
    own = {one.name: config.own[one.name] for one in config.own_settings if one.varies}
    common = {name: getattr(config, name) for name in grid.CROSSED}
    for name, values in (common | own).items():
        if len(set(values)) < len(values):
            what = "seeds" if name == "seed" else "names" if isinstance(values[0], str) else "numbers"
            raise UserError(f"{flag(name)} was given {list(values)}, some twice; equal {what} are equal members.")


def require_scales(config: Config) -> None:
    """Refuses scales of rewards and observations that no learner can use."""
    if config.reward_scale <= 0:
        raise UserError(f"--reward-scale was given {config.reward_scale:g}; accepted: numbers above 0, such as 0.1.")
    used = config.planner or [registry.algorithm(name).planner for name in config.algorithm]
    planned = list(filter(None, map(planners.named, used)))
    what = "pixels" if config.sight == "pixels" else f"planners ({planned[0]})" if planned else None
    if config.normalise_observations and what:
        raise UserError(f"--normalise-observations was given, but it is not for {what}. Leave it out.")


def require_trust(config: Config) -> None:
    """Refuses an η that is to shrink where models disagree, unless there are several models."""
    trust, several = config.own["planning_trust"], config.own["model"] == "learned" and config.own["ensemble"] > 1
    if any(trust) and not several:
        raise UserError(
            f"--planning-trust was given {' '.join(f'{one:g}' for one in trust)}; it needs several learned models, "
            "which can disagree. Add --model learned --ensemble 3, or leave it out."
        )


def require_steps(config: Config) -> None:
    if config.warmup >= config.steps:
        shorter = f", or a shorter warm-up such as --warmup {config.steps // 10 or 1}" if config.steps > 1 else ""
        raise UserError(
            f"--warmup {config.warmup} leaves nothing to learn in --steps {config.steps}. Give more steps{shorter}."
        )
