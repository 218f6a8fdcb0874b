"""The paper's algorithms: each name is a triple of agent, critic rule and planner."""

from __future__ import annotations

from dataclasses import dataclass

from bires.errors import unknown


@dataclass(frozen=True)
class Algorithm:
    """A named triple; one line says what it is."""

    agent: str
    rule: str
    planner: str | None
    summary: str


ALGORITHMS: dict[str, Algorithm] = {
    "ddpg": Algorithm("ddpg", "td", None, "DDPG (Lillicrap et al. 2015): semi-gradient critic with target networks"),
    "res-ddpg": Algorithm("ddpg", "res", None, "Baird's residual algorithm in DDPG, without target networks"),
    "to-res-ddpg": Algorithm("ddpg", "to", None, "residual DDPG, target network at the successor"),
    "ot-res-ddpg": Algorithm("ddpg", "ot", None, "residual DDPG, target network at the predecessor"),
    "tt-res-ddpg": Algorithm("ddpg", "tt", None, "residual DDPG, target network at both ends"),
    "bi-res-ddpg": Algorithm("ddpg", "bi", None, "residual DDPG with the bidirectional target network (the paper's)"),
}


def get(name: str) -> Algorithm:
    """The algorithm of that name, or an error with the nearest names."""
    if name not in ALGORITHMS:
        raise unknown("algorithm", name, ALGORITHMS, "See `bires list algorithms`.")
    return ALGORITHMS[name]


def named(agent: str, rule: str, planner: str | None) -> str:
    """The name of a triple; one that the paper does not name is called by its parts."""
    for name, algorithm in ALGORITHMS.items():
        if (algorithm.agent, algorithm.rule, algorithm.planner) == (agent, rule, planner):
            return name
    return "-".join(part for part in (planner, rule, agent) if part)
