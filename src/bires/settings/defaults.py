"""Settings that depend on the agent and on what it sees: a configuration that leaves them out gets these.

DDPG's are the paper's; DQN's for pixels are those of the authors' code (docs/paper.md); DQN's for vectors are ours.
"""

from __future__ import annotations

from typing import Any

from bires.envs import tasks
from bires.errors import UserError
from bires.settings import algorithms


class Omitted(int):
    """A number that was left out."""


class OmittedValues(tuple):
    """Values that were left out."""

    __slots__ = ()


BY_AGENT, VALUES_BY_AGENT = Omitted(-1), OmittedValues()
"""Defaults of settings that depend on the agent; no configuration keeps them, see `settings_for`."""

Settings = dict[str, Any]
DDPG: Settings = {
    "tau": (1e-3,),
    "actor_lr": (1e-4,),
    "critic_lr": (1e-3,),
    "noise": (0.2,),
    "steps": 1_000_000,
    "warmup": 10_000,
    "eval_every": 10_000,
    "batch": 64,
    "replay": 1_000_000,
    "update_every": 1,
    "hidden": (400, 300),
    "optimiser": "adam",
    "max_grad_norm": 0.0,
}
DQN_VECTOR: Settings = {
    "critic_lr": (1e-3,),
    "epsilon_start": (1.0,),
    "epsilon_end": (0.05,),
    "epsilon_steps": (10_000.0,),
    "target_every": (50.0,),
    "steps": 100_000,
    "warmup": 1_000,
    "eval_every": 5_000,
    "batch": 128,
    "replay": 100_000,
    "update_every": 2,
    "hidden": (256, 256),
    "optimiser": "adam",
    "max_grad_norm": 10.0,
}
DQN_PIXELS: Settings = {
    "critic_lr": (2.5e-4,),
    "epsilon_start": (1.0,),
    "epsilon_end": (0.01,),
    "epsilon_steps": (1e6,),
    "target_every": (10_000.0,),
    "steps": 20_000_000,
    "warmup": 50_000,
    "eval_every": 250_000,
    "batch": 32,
    "replay": 1_000_000,
    "update_every": 4,
    "hidden": (512,),
    "optimiser": "rmsprop",
    "max_grad_norm": 5.0,
}
DEFAULTS: dict[tuple[str, bool], Settings] = {
    ("ddpg", False): DDPG,
    ("dqn", False): DQN_VECTOR,
    ("dqn", True): DQN_PIXELS,
}
"""(agent, whether it sees pixels) → settings."""
INSTEAD = {
    "tau": "--target-every, as its target network is copied whole",
    "actor_lr": "--critic-lr, as Q is its only network",
    "noise": "--epsilon-start, --epsilon-end and --epsilon-steps",
    "epsilon_start": "--noise",
    "epsilon_end": "--noise",
    "epsilon_steps": "--noise",
    "target_every": "--tau, as its target networks follow softly",
}
"""Settings that only one agent has → what the other has in their place."""


def agent_of(names: tuple[str, ...]) -> str:
    """The agent of some algorithms: all of a population have the same."""
    agents = {algorithms.get(name).agent: name for name in names}
    if len(agents) > 1:
        raise UserError(
            f"--algorithm was given {' and '.join(agents.values())}: one acts continuously, the other by choice among "
            "discrete actions, and no task has both. Give algorithms of one kind: see `bires list algorithms`."
        )
    return next(iter(agents))


def settings_for(task: str, names: tuple[str, ...]) -> Settings:
    """What a configuration that says nothing of them gets. (Names that do not exist or fit are refused elsewhere.)"""
    agents = [algorithms.ALGORITHMS[name].agent for name in names if name in algorithms.ALGORITHMS]
    return DEFAULTS.get((agents[0], tasks.is_atari(task)), DDPG) if agents else DDPG
