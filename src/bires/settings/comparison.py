"""The algorithms where none is named: an agent's baseline, and its version with the bidirectional rule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from bires.agents import registry
from bires.agents.base import AgentSpec
from bires.envs import families, tasks
from bires.envs.recipe import probe, recipe
from bires.errors import UserError
from bires.settings import grid
from bires.settings.arguments import arguments
from bires.settings.config import Config


def compared(task: str, agent: str | None = None, kwargs: Mapping[str, Any] | None = None) -> tuple[str, str]:
    """The algorithms to compare on a task; without an agent, those of the first that can act there."""
    if not isinstance(task, str):
        raise UserError(
            f"task was given {task!r}; accepted: one task, as text. For several: bires.train_each([…], algorithm=[…])."
        )
    if agent is None:
        return both(agent_for(task, kwargs).name)
    if isinstance(agent, str):
        refuse_algorithm(agent)
    return both(agent)


def both(agent: str) -> tuple[str, str]:
    """An agent's baseline, and its version with the bidirectional rule."""
    spec = registry.agent(agent)
    named = [name for name, one in spec.algorithms.items() if (one.rule, one.planner) == ("bi", None)]
    module = agent.rpartition(":")[0]
    prefix = f"{module}:" if module else ""
    return prefix + spec.baseline, prefix + (named[0] if named else f"bi-{spec.name}")


def require_two(config: Config) -> Config:
    """The configuration of a comparison, whose members must differ in more than their seeds."""
    first, *others = grid.members(config)
    if any(replace(one, member=0, seed=first.seed) != first for one in others):
        return config
    module, colon, _ = config.algorithm[0].rpartition(":")
    agent = module + colon + registry.algorithm(config.algorithm[0]).agent
    raise UserError(
        f"All members are {first.label}: there is nothing to compare. Use --agent {agent}, which is "
        f"{' and '.join(both(agent))}; name several algorithms; or `bires train` this one alone."
    )


def refuse_algorithm(name: str) -> None:
    """Refuses an algorithm where its agent is wanted, and names that."""
    if name in registry.AGENTS or ":" in name:
        return
    try:
        agent = registry.algorithm(name).agent
    except UserError:
        return  # the agent's own error says more
    raise UserError(f"--agent was given {name}, an algorithm; --agent {agent} trains {' and '.join(both(agent))}.")


def default_algorithm(task: str, kwargs: Mapping[str, Any] | None = None) -> str:
    """What is trained on a task: the first agent that can act there, with the bidirectional rule."""
    return compared(task, kwargs=kwargs)[1]


def agent_for(task: str, kwargs: Mapping[str, Any] | None = None) -> AgentSpec:
    """The first agent for a task's observations and actions. What is wrong with a task is said where it is built."""
    specs = list(registry.AGENTS.values())
    if task in tasks.SHORT:
        return specs[0]
    if families.family_of(task) is not None:
        return next(spec for spec in specs if "pixels" in spec.run)
    given = None if kwargs is None else arguments(kwargs)
    try:
        space = probe(recipe(task, "modern", kwargs=given))
    except UserError:
        return specs[0]
    actions = "continuous" if space.choices is None else "discrete"
    return next(spec for spec in specs if spec.actions == actions)
