"""All planners, by name, and the settings of planning. A user's own planner is found in its module."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from bires.errors import unknown
from bires.planning.models import SCALES
from bires.types import Setting


@dataclass(frozen=True)
class PlannerSpec:
    """How imagined transitions are used."""

    kind: Literal["dyna", "mve"]
    rule: str | None
    """The critic rule of the imagined updates; None for a planner with a loss of its own."""
    numbers: tuple[str, ...]
    """The settings that a member with this planner has; η only where the rule has a forward term."""
    summary: str


SETTINGS = (
    Setting(
        "model",
        "oracle",
        "What planners imagine with: the simulator itself, or networks trained beside the agent.",
        choices=("oracle", "learned"),
    ),
    Setting(
        "planning_steps",
        1,
        "P, the imagined updates that Dyna adds to every update; 0 is none.",
        low=0,
        varies=True,
    ),
    Setting("planning_noise", 0.1, "σ of the Gaussian noise on imagined actions.", low=0.0, varies=True),
    Setting(
        "planning_eta",
        0.2,
        "η of the imagined updates, in [0, 1]; rules without a forward term ignore it.",
        low=0.0,
        high=1.0,
        varies=True,
        hint="the paper uses 0.2",
    ),
    Setting("horizon", 3, "k, the steps that MVE looks ahead.", low=1, varies=True),
    Setting(
        "mve_loss",
        "paper",
        "`original`: TD(k)'s, squared; `paper`: its appendix's, with a term for the real transition, Huber.",
        choices=("paper", "original"),
    ),
    Setting(
        "model_scale",
        "paper",
        "The learned model: `paper` needs an accelerator, `small` suits a CPU.",
        choices=tuple(SCALES),
    ),
    Setting("ensemble", 1, "Learned models per member; they predict their mean, their disagreement is logged.", low=1),
)
"""Those that vary are in the order of the columns of members.csv."""

VARYING = tuple(setting.name for setting in SETTINGS if setting.varies)

PLANNERS: dict[str, PlannerSpec] = {
    **{
        "dyna" if rule == "td" else f"{rule}-dyna": PlannerSpec(
            "dyna",
            rule,
            ("planning_steps", "planning_noise", "planning_eta"),
            f"imagined updates of the critic by `{rule}`",
        )
        for rule in ("td", "res", "to", "ot", "tt", "bi")
    },
    "mve": PlannerSpec(
        "mve", None, ("horizon",), "model-based value expansion: the critic learns from imagined k-step returns"
    ),
}


def planner(name: str) -> PlannerSpec:
    """The planner of that name, or an error with the nearest names."""
    if name not in PLANNERS:
        raise unknown("planner", name, PLANNERS, "See `bires list planners`.")
    return PLANNERS[name]
