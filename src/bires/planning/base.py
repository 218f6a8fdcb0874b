"""What a planner is: rollouts of a model from a batch of real transitions, and what the critic learns from them.

A `PlannerKind` is a way to use a model (Dyna, value expansion). A `PlannerSpec` is a planner with a name: a kind, the
rule of its imagined updates and the numbers that its members have. Members with different planners train in one
program, which computes what its most demanding member needs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import jax

from bires.agents.base import Hyper, Learner, Parts, Slope
from bires.rules import Needs
from bires.types import Setting, Transition

Model = Callable[[jax.Array, jax.Array, jax.Array], tuple[jax.Array, jax.Array]]
"""key, observations, actions (batch) → rewards, next observations (batch): one step; deterministic ones need no key."""
EveryModel = Callable[[jax.Array, jax.Array], tuple[jax.Array, jax.Array]]
"""observations, actions (batch) → rewards, next observations of every model: (models, batch)."""


class Imagined(NamedTuple):
    """What a model said: (depth, width, batch, ·). For Dyna and MVE nothing that is imagined ends an episode."""

    action: jax.Array
    reward: jax.Array
    next_observation: jax.Array
    each: jax.Array | None = None
    """Every learned model's next observation, (depth, width, models, batch, ·); None: nothing reads it."""
    discount: jax.Array | None = None
    """0 where the simulator came to a true end, else 1; None: learned models know of no ends."""


def follow(parts: Parts, learner: Learner, observation: jax.Array) -> jax.Array:
    """The target policy, within the bounds of real actions: how rollouts go on."""
    return parts.clip(parts.target_action(learner, observation))


@dataclass(frozen=True)
class PlannerKind:
    """A way to use a model: `width` rollouts of `depth` steps from every transition of a batch."""

    name: str
    start: Literal["before", "after"]
    """Whether rollouts begin in the state of a real transition or in its successor."""
    size: Callable[[Mapping[str, Any]], tuple[int, int]]
    """A member's planning numbers → width and depth of its rollouts; a zero: it imagines nothing."""
    first: Callable[[Parts, jax.Array, Learner, Hyper, Transition, int], jax.Array]
    """parts, key, learner, hyper, batch, width → the first actions: (width, batch, action)."""
    following: Callable[[Parts, Learner, jax.Array], jax.Array] = follow
    """parts, learner, observations → the next actions, where rollouts go on."""
    slope: Callable[[Planning, Learner, Hyper, Transition, Imagined], Slope] | None = None
    """The critic's gradient on the real batch, in place of the rule's; None: the rule's."""
    doubts: Callable[[Mapping[str, Any]], bool] = lambda numbers: False
    """A member's planning numbers → whether it reads what every learned model says."""
    regresses: bool = False
    """Whether its slope needs `Parts.regress`."""
    extra: Callable[..., tuple[Learner, jax.Array, Any]] | None = None
    """planning, learner, hyper, batch, imagined, alive → learner, alive, loss (or several numbers by name): what comes
    after the actor's step."""


@dataclass(frozen=True)
class PlannerSpec:
    """A planner as users name it."""

    name: str
    kind: PlannerKind
    rule: str | None
    """The critic rule of the imagined updates; None for a planner with a loss of its own."""
    numbers: tuple[str, ...]
    """The settings that a member with this planner has; `planning_eta` only where the rule has a forward term."""
    summary: str
    settings: tuple[Setting, ...] = ()
    """Settings that no planner of the package has."""


class Use(NamedTuple):
    """A kind of planner that members of a population use, with the largest rollouts among them."""

    kind: PlannerKind
    width: int
    depth: int
    everybody: bool
    """Whether all members use it."""
    doubts: bool = False
    """Whether a member reads what every learned model says."""


@dataclass(frozen=True)
class Planning:
    """What the members of a population need of planners, at most; nothing beyond it is computed."""

    make_parts: Callable[[jax.Array | None], Parts]
    """A key → the agent's update, taken apart; its random numbers come from the key."""
    real: Needs
    """What the rules of real updates read."""
    imagined: Needs
    """What the rules of imagined updates read."""
    uses: tuple[Use, ...]
    shared: tuple[tuple[str, Any], ...] = ()
    """Settings of planners that do not vary, with their names."""
    whole: frozenset[str] = frozenset()
    """The settings that vary and are whole numbers."""
    limits_end: bool = False
    """Whether a time limit is an end, so that a discount of 0 may be one."""

    key: jax.Array | None = None
    """The key of this update; None: agents that draw nothing."""

    @property
    def parts(self) -> Parts:
        """The agent's update, taken apart."""
        return self.make_parts(self.key)

    def of_round(self, number: int) -> Planning:
        """The same with a key of its own, for one of several updates of a step."""
        return self if self.key is None else replace(self, key=jax.random.fold_in(self.key, number))

    def setting(self, name: str) -> Any:
        return dict(self.shared)[name]
