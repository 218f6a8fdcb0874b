"""All planners, by name, and the settings of planning.

A planner of the package is a line here; a user's own is found in its module.
"""

from __future__ import annotations

from collections.abc import Iterable

from bires.errors import UserError, unknown
from bires.machine.modules import import_users
from bires.planning import double, dyna, mve
from bires.planning.base import PlannerSpec
from bires.planning.models import SCALES
from bires.types import Setting

PLANNERS: dict[str, PlannerSpec] = {
    spec.name: spec
    for spec in (
        *dyna.PLANNERS,
        *mve.PLANNERS,
        *double.PLANNERS,
    )
}

NONE = "none"
"""The name of planning nothing: the plain agent, beside planners in one population."""

SETTINGS = (
    Setting(
        "model",
        "oracle",
        "What planners imagine with: the simulator itself, or networks trained beside the agent.",
        choices=("oracle", "learned"),
    ),
    *dyna.SETTINGS,
    *mve.SETTINGS,
    Setting(
        "model_scale",
        "paper",
        "The learned model: `paper` needs an accelerator, `small` suits a CPU.",
        choices=tuple(SCALES),
    ),
    Setting(
        "model_noise",
        "none",
        "`gaussian`: the learned model predicts variances, too, is trained by likelihood and drawn from; `none`: it is "
        "deterministic.",
        choices=("none", "gaussian"),
    ),
    Setting("ensemble", 1, "Learned models per member; they predict their mean, their disagreement is logged.", low=1),
)
"""Those of the package's planners."""


def named(name: str | None) -> str | None:
    """The name of a planner; None for `NONE`, too."""
    return None if name == NONE else name


def planner(name: str) -> PlannerSpec:
    """The planner of that name, or an error with the nearest names; MODULE:NAME is one of the user's own."""
    module, _, short = name.rpartition(":")
    own = load(module) if module else []
    if module and short not in own:
        raise UserError(f"{module} has no planner {short!r}; it has: {', '.join(own)}.")
    if short not in PLANNERS:
        raise unknown("planner", name, [*PLANNERS, NONE], "See `bires list planners`; your own is MODULE:NAME.")
    return PLANNERS[short]


def load(module: str) -> list[str]:
    """Takes in the planners of a user's module: every `PlannerSpec` among its names; their names."""
    found = [value for value in vars(import_users(module, "--planner")).values() if isinstance(value, PlannerSpec)]
    if not found:
        raise UserError(
            f"--planner names the module {module!r}, which has no PlannerSpec: see docs/adding-a-planner.md."
        )
    for spec in found:
        if PLANNERS.get(spec.name, spec) is not spec:
            raise UserError(f"{module} has a planner {spec.name!r}, a name that is taken. Give yours another name.")
        kinds = {one.kind.name: one.kind for one in PLANNERS.values()}
        if kinds.get(spec.kind.name, spec.kind) is not spec.kind:
            raise UserError(
                f"The PlannerKind of {module}'s planner {spec.name!r} has the name {spec.kind.name!r}, which another "
                "kind has. Give it its own: dataclasses.replace(kind, name='mine', …)."
            )
        PLANNERS[spec.name] = spec
    return [spec.name for spec in found]


def settings_of(names: Iterable[str | None]) -> tuple[Setting, ...]:
    """The settings of planning, with those of planners of the user's own among some names."""
    own = {one.name: one for name in map(named, names) if name is not None for one in planner(name).settings}
    return (*SETTINGS, *own.values())
