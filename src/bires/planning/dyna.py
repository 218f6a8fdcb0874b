"""Dyna, the paper's Algorithm 1: the critic also learns from transitions near the real ones, which a model imagines."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from bires.agents.base import Hyper, Learner, Parts
from bires.planning.base import Imagined, PlannerKind, PlannerSpec, Planning
from bires.types import Setting, Transition

SETTINGS = (
    Setting(
        "planning_steps",
        1,
        "P, the imagined updates that Dyna adds to every update; 0 is none.",
        low=0,
        high=1000,
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
    Setting(
        "planning_trust",
        0.0,
        "σ_Q: η of an imagined update shrinks where learned models disagree by more than this about the successor's "
        "value; 0: it stays.",
        low=0.0,
        varies=True,
    ),
)


def proposals(parts: Parts, key: jax.Array, action: jax.Array, noise: jax.Array, steps: int) -> jax.Array:
    """â = clip(a + N(0, σ²)) to the bounds of real actions, for each of P rounds: (P, batch, action)."""
    return parts.clip(action + noise * jax.random.normal(key, (steps, *action.shape)))


def first(parts: Parts, key: jax.Array, learner: Learner, hyper: Hyper, batch: Transition, width: int) -> jax.Array:
    """Noisy actions near those of the batch."""
    assert hyper.planning is not None
    return proposals(parts, key, batch.action, hyper.planning.numbers["planning_noise"], width)


def transition(batch: Transition, imagined: Imagined, step: int) -> Transition:
    """Round ``step`` as a transition from the batch's states. It never ends an episode."""
    return Transition(
        batch.observation,
        imagined.action[0, step],
        imagined.reward[0, step],
        jnp.ones_like(batch.discount),
        imagined.next_observation[0, step],
    )


def trusted(parts: Parts, learner: Learner, hyper: Hyper, each: jax.Array) -> jax.Array:
    """η of every sample: η₀ σ_Q² / (σ_Q² + γ² Var[Q(ŝ', μ(ŝ'))]) over the models; σ_Q = 0: η₀.

    ``each``: every model's successors, (models, batch, ·).
    """
    assert hyper.planning is not None
    eta, trust = hyper.planning.eta, hyper.planning.numbers["planning_trust"]
    doubt = hyper.gamma**2 * jnp.var(jax.vmap(lambda seen: parts.value(learner, seen))(each), axis=0)
    return jnp.where(trust > 0, eta * trust**2 / jnp.maximum(trust**2 + doubt, 1e-30), eta)


def update(
    planning: Planning,
    learner: Learner,
    hyper: Hyper,
    imagined: Transition,
    used: jax.Array,
    eta: jax.Array | None = None,
) -> tuple[Learner, jax.Array, jax.Array]:
    """One imagined update of the critic alone, by the planning rule, of a member that uses it; alive, loss."""
    assert hyper.planning is not None
    planned = hyper._replace(rule=hyper.planning.rule, eta=hyper.planning.eta if eta is None else eta)
    slope = planning.parts.slope(learner, planned, imagined, planning.imagined)
    slope = slope._replace(estimate=None)  # it learns the error of the rule of real updates
    learner, seen = planning.parts.critic(learner, hyper, slope, used)
    return learner, seen.alive, jnp.where(used, seen.metrics["critic_loss"], 0.0)


def extra(
    planning: Planning, learner: Learner, hyper: Hyper, batch: Transition, imagined: Imagined, alive: jax.Array
) -> tuple[Learner, jax.Array, jax.Array | dict[str, jax.Array]]:
    """P imagined updates; nothing moves from the member's P-th round on. Says, too, the mean η where it adapts."""
    assert hyper.planning is not None
    loss, etas = jnp.zeros(()), jnp.zeros(())
    own = jnp.maximum(hyper.planning.numbers["planning_steps"], 1)
    for step in range(imagined.reward.shape[1]):
        eta = hyper.planning.eta
        used = alive & (step < hyper.planning.numbers["planning_steps"])
        if imagined.each is not None:
            eta = trusted(planning.parts, learner, hyper, imagined.each[0, step])
            etas = etas + jnp.where(used, jnp.mean(eta) / own, 0.0)
        again = planning.of_round(1 + step)
        learner, ok, found = update(again, learner, hyper, transition(batch, imagined, step), used, eta)
        alive, loss = jnp.where(used, ok, alive), loss + found
    return learner, alive, loss if imagined.each is None else {"imagined_loss": loss, "imagined_eta": etas}


KIND = PlannerKind(
    name="dyna",
    start="before",
    size=lambda numbers: (numbers["planning_steps"], 1),
    first=first,
    extra=extra,
    doubts=lambda numbers: (numbers.get("planning_trust") or 0.0) > 0,
)

PLANNERS = tuple(
    PlannerSpec(
        "dyna" if rule == "td" else f"{rule}-dyna",
        KIND,
        rule,
        tuple(setting.name for setting in SETTINGS),
        f"imagined updates of the critic by `{rule}`",
    )
    for rule in ("td", "res", "to", "ot", "tt", "bi")
)
