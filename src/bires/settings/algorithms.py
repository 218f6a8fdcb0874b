"""The paper's algorithms: each name is a triple of agent, critic rule and planner."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from bires.errors import unknown


@dataclass(frozen=True)
class Algorithm:
    """A named triple; one line says what it is."""

    agent: str
    rule: str
    planner: str | None
    summary: str


@dataclass(frozen=True)
class Planner:
    """How imagined transitions are used."""

    kind: Literal["dyna", "mve"]
    rule: str | None
    """The critic rule of the imagined updates; None where the planner has a loss of its own."""
    summary: str


PLANNERS: dict[str, Planner] = {
    **{
        "dyna" if rule == "td" else f"{rule}-dyna": Planner("dyna", rule, f"imagined updates of the critic by `{rule}`")
        for rule in ("td", "res", "to", "ot", "tt", "bi")
    },
    "mve": Planner("mve", None, "model-based value expansion: the critic learns from imagined k-step returns"),
}

ALGORITHMS: dict[str, Algorithm] = {
    "ddpg": Algorithm("ddpg", "td", None, "DDPG (Lillicrap et al. 2015): semi-gradient critic with target networks"),
    "res-ddpg": Algorithm("ddpg", "res", None, "Baird's residual algorithm in DDPG, without target networks"),
    "to-res-ddpg": Algorithm("ddpg", "to", None, "residual DDPG, target network at the successor"),
    "ot-res-ddpg": Algorithm("ddpg", "ot", None, "residual DDPG, target network at the predecessor"),
    "tt-res-ddpg": Algorithm("ddpg", "tt", None, "residual DDPG, target network at both ends"),
    "bi-res-ddpg": Algorithm("ddpg", "bi", None, "residual DDPG with the bidirectional target network (the paper's)"),
    "dyna-ddpg": Algorithm("ddpg", "td", "dyna", "DDPG that also learns from imagined transitions, by `td`"),
    "res-dyna-ddpg": Algorithm("ddpg", "td", "res-dyna", "Dyna-DDPG with residual imagined updates (the paper's)"),
    "mve-ddpg": Algorithm("ddpg", "td", "mve", "DDPG with model-based value expansion, TD(k) (Feinberg et al. 2018)"),
    "dqn": Algorithm("dqn", "td", None, "DQN (Mnih et al. 2015) for discrete actions; --double-q makes it Double DQN"),
    "res-dqn": Algorithm("dqn", "res", None, "Baird's residual algorithm in DQN, without a target network"),
    "to-res-dqn": Algorithm("dqn", "to", None, "residual DQN, target network at the successor"),
    "ot-res-dqn": Algorithm("dqn", "ot", None, "residual DQN, target network at the predecessor"),
    "tt-res-dqn": Algorithm("dqn", "tt", None, "residual DQN, target network at both ends"),
    "bi-res-dqn": Algorithm("dqn", "bi", None, "residual DQN with the bidirectional target network (the paper's)"),
}


def get(name: str) -> Algorithm:
    """The algorithm of that name, or an error with the nearest names."""
    if name not in ALGORITHMS:
        raise unknown("algorithm", name, ALGORITHMS, "See `bires list algorithms`.")
    return ALGORITHMS[name]


def planner(name: str) -> Planner:
    """The planner of that name, or an error with the nearest names."""
    if name not in PLANNERS:
        raise unknown("planner", name, PLANNERS, "See `bires list planners`.")
    return PLANNERS[name]


def named(agent: str, rule: str, planner: str | None) -> str:
    """The name of a triple; one that the paper does not name is called by its parts."""
    for name, algorithm in ALGORITHMS.items():
        if (algorithm.agent, algorithm.rule, algorithm.planner) == (agent, rule, planner):
            return name
    return "-".join(part for part in (planner, rule, agent) if part)
