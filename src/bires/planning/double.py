"""Double sampling: a second successor of every real transition, for the gradient of the forward term (Baird 1995).

In a stochastic world a single successor makes residual algorithms minimise E[δ²], not E[δ]². With a second, independent
one the product of error and gradient has the right mean:

    θ ← θ + α [δ ∇Q(s, a) − η γ δ ∇Q(s″, μ(s″))],    δ from (s, a, r, s′), s″ a second sample after (s, a)

The simulator (`--model oracle`) steps again from the same state with the same action and fresh noise. A learned model
gives its mean, or, with `--model-noise gaussian`, a draw. Where the world is deterministic both successors are the
same, and this is the rule itself.

The second successor has an end of its own, where the simulator is asked. Learned models know of none: there it shares
the first one's. So it does at a time limit that is an end (`--protocol paper`), as both have the same clock.
"""

from __future__ import annotations

import jax.numpy as jnp

from bires.agents.base import Hyper, Learner, Second, Slope
from bires.planning.base import Imagined, PlannerKind, PlannerSpec, Planning
from bires.types import Transition


def slope(planning: Planning, learner: Learner, hyper: Hyper, batch: Transition, imagined: Imagined) -> Slope:
    """The gradient of the planning rule on the real batch, its ∇succ at the second successors."""
    assert hyper.planning is not None
    planned = hyper._replace(rule=hyper.planning.rule, eta=hyper.planning.eta)
    discount = batch.discount
    if imagined.discount is not None:
        own = imagined.discount[0, 0]
        discount = jnp.minimum(own, batch.discount) if planning.limits_end else own
    second = Second(imagined.next_observation[0, 0], discount)
    return planning.parts.slope(learner, planned, batch, planning.imagined, second)


KIND = PlannerKind(
    name="double",
    start="before",
    size=lambda numbers: (1, 1),
    first=lambda parts, key, learner, hyper, batch, width: batch.action[None],
    slope=slope,
)

PLANNERS = tuple(
    PlannerSpec(f"double-{rule}", KIND, rule, ("planning_eta",), f"`{rule}` with a second successor for its gradient")
    for rule in ("res", "bi")
)
