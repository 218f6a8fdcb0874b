"""All agents, by name. An agent of the package is one line here; a user's own is found in its module."""

from __future__ import annotations

from bires import rules
from bires.agents import crossq, ddpg, dqn, sac, td3
from bires.agents.base import AgentSpec, Algorithm
from bires.errors import UserError, unknown
from bires.machine.modules import import_users

AGENTS: dict[str, AgentSpec] = {
    spec.name: spec
    for spec in (
        ddpg.SPEC,
        dqn.SPEC,
        td3.SPEC,
        sac.SPEC,
        crossq.SPEC,
    )
}


ON_POLICY = ("a2c", "a3c", "ppo", "ppg", "reinforce", "trpo", "vpg")
"""What users of other libraries look for."""


def algorithms() -> dict[str, Algorithm]:
    """Every algorithm of every agent, by name."""
    return {name: algorithm for spec in AGENTS.values() for name, algorithm in spec.algorithms.items()}


def algorithm(name: str) -> Algorithm:
    """The algorithm of that name, or an error with the nearest names; MODULE:NAME is one of the user's own."""
    module, _, short = name.rpartition(":")
    agents = load(module) if module else AGENTS
    known = {key: one for spec in agents.values() for key, one in spec.algorithms.items()}
    if short not in known and (made := of_rule(short)) is not None and made.agent in agents:
        return made
    if short in known:
        return known[short]
    if module:
        raise UserError(f"{module} has no algorithm {short!r}; its agents have: {', '.join(known)}.")
    if name.lower() in ON_POLICY:
        raise UserError(f"Unknown algorithm {name!r}: on-policy agents are not here. See `bires list algorithms`.")
    if "," in name:
        raise UserError(f"Unknown algorithm {name!r}. Give several as separate values, without a comma.")
    raise unknown("algorithm", name, known, "See `bires list algorithms`; your own is MODULE:NAME.")


def of_rule(name: str) -> Algorithm | None:
    """RULE-AGENT is every agent's algorithm with a rule; None: there is no such rule or agent."""
    rule, _, agent = name.rpartition("-")
    if agent not in AGENTS or rule not in rules.RULES:
        return None
    return Algorithm(agent, rule, None, f"{AGENTS[agent].title} with {rules.SUMMARIES.get(rule, rule)}")


def agent(name: str) -> AgentSpec:
    """The agent of that name, or an error with the nearest names; MODULE:NAME is one of the user's own."""
    if not isinstance(name, str):
        raise UserError(f"--agent was given {name!r}; accepted: one name, as text (see `bires list algorithms`).")
    module, _, short = name.rpartition(":")
    agents = load(module) if module else AGENTS
    if short in agents:
        return agents[short]
    if module:
        raise UserError(f"{module} has no agent {short!r}; it has: {', '.join(agents)}.")
    raise unknown("agent", name, AGENTS, "See `bires list algorithms`; your own is MODULE:NAME.")


def load(module: str) -> dict[str, AgentSpec]:
    """Adds the agents of a user's module: every `AgentSpec` among its names."""
    found = [value for value in vars(import_users(module, "--algorithm")).values() if isinstance(value, AgentSpec)]
    if not found:
        raise UserError(
            f"--algorithm names the module {module!r}, which has no AgentSpec (see docs/adding-an-agent.md)."
        )
    for spec in found:
        require_new(spec, module)
        AGENTS[spec.name] = spec
    return {spec.name: spec for spec in found}


def require_new(spec: AgentSpec, module: str) -> None:
    """Refuses names that another agent has."""
    taken = {name: other for name, other in AGENTS.items() if other is not spec and name != spec.name}
    if spec.name in AGENTS and AGENTS[spec.name].make.__module__ != spec.make.__module__:
        raise UserError(f"The agent {spec.name!r} of {module} has the name of another agent. Give it its own.")
    others = {name for other in taken.values() for name in other.algorithms}
    for name in spec.algorithms:
        if name in others:
            raise UserError(f"The algorithm {name!r} of {module} has the name of another one. Give it its own.")


def agent_of(names: tuple[str, ...]) -> AgentSpec:
    """The one agent of all algorithms of a population."""
    if not names:
        raise UserError("--algorithm was given no value; give one or more (see `bires list algorithms`).")
    agents = {algorithm(name).agent: name for name in names}
    if len(agents) > 1:
        raise UserError(
            f"--algorithm was given {' and '.join(agents.values())}, which are different agents; a population has one. "
            "Give algorithms of one agent (see `bires list algorithms`), and compare runs with `bires report`."
        )
    return AGENTS[next(iter(agents))]


def named(agent: str, rule: str, planner: str | None) -> str:
    """The name of an agent with a rule and a planner; without a name of its own, its parts joined."""
    for name, known in AGENTS[agent].algorithms.items():
        if (known.rule, known.planner) == (rule, planner):
            return name
    return "-".join(part for part in (planner, rule.rpartition(":")[2], agent) if part)


def owner_of(setting: str) -> list[str]:
    """The agents that have a setting."""
    return [name for name, spec in AGENTS.items() if any(one.name == setting for one in spec.settings)]
