"""`bires list`."""

from __future__ import annotations

from bires.agents.registry import algorithms
from bires.envs.families import ATARI
from bires.envs.tasks import DMCONTROL, MUJOCO
from bires.planning.registry import PLANNERS
from bires.studies.plan import missing
from bires.studies.records import STUDIES

RULE_EQUATIONS = {
    "td": "δ ∇pred,  δ = r + γ succ⁻ − pred",
    "res": "δ (∇pred − ηγ ∇succ),  δ = r + γ succ − pred",
    "to": "δ (∇pred − ηγ ∇succ),  δ = r + γ succ⁻ − pred",
    "ot": "δ (∇pred − ηγ ∇succ),  δ = r + γ succ − pred⁻",
    "tt": "δ (∇pred − ηγ ∇succ),  δ = r + γ succ⁻ − pred⁻",
    "bi": "δ_b ∇pred − δ_f ηγ ∇succ,  δ_b = r + γ succ⁻ − pred,  δ_f = r + γ succ − pred⁻",
}


def listing(what: str) -> str:
    """The lists that were asked for, as text."""
    parts = {
        "algorithms": [f"  {name:14}{algorithm.summary}" for name, algorithm in algorithms().items()],
        "rules": [f"  {name:5}θ ← θ + α [{equation}]" for name, equation in RULE_EQUATIONS.items()],
        "planners": [f"  {name:10}{planner.summary}" for name, planner in PLANNERS.items()],
        "tasks": [
            "  DMControl (28 of the paper): " + ", ".join(DMCONTROL),
            "  MuJoCo (5 of the paper, -v4): " + ", ".join(MUJOCO),
            "  Atari (3 of the paper, for DQN): " + ", ".join(ATARI),
            "  and every Gymnasium id with continuous actions (DDPG) or discrete ones (DQN); your own is MODULE:ID",
        ],
        "studies": [
            f"  {name:10}{study.summary}" + (f" (not yet: {', '.join(missing(study))})" if missing(study) else "")
            for name, study in STUDIES.items()
        ],
    }
    chosen = list(parts) if what == "all" else [what]
    return "\n".join("\n".join([name, *parts[name]]) for name in chosen)
