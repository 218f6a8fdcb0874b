"""What an agent is: a module with an `AgentSpec`, whose `make` gives pure functions of one member.

The spec holds all that is the agent's own: settings with defaults, bounds and help; algorithms; metrics; baseline.
Adding an agent takes its module and one line in `bires.agents.registry`; a user's own agent takes no line of ours.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from bires.agents.activations import RELU, Activation
from bires.errors import UserError
from bires.rules import Needs, Rule
from bires.types import Params, Setting, Sight, Space, Transition


class PlanningNumbers(NamedTuple):
    """How one member plans: arrays inside a population, which computes what its most demanding member needs."""

    rule: Rule
    """The critic rule of imagined updates."""
    eta: jax.Array
    """Its η."""
    numbers: Mapping[str, jax.Array]
    """The planners' settings that vary, by name; 0 where the member does not use one."""
    uses: Mapping[str, jax.Array]
    """Kind of planner → whether the member uses it."""


class Schedule(NamedTuple):
    """A number moves linearly from its value at the end of the warm-up to ``end`` at step ``until``, and stays."""

    end: jax.Array
    until: jax.Array

    def progress(self, clock: jax.Array, warmup: int) -> jax.Array:
        """How much of its way is behind it in step ``clock``, from 0 to 1."""
        return jnp.clip((clock - warmup) / jnp.maximum(self.until - warmup, 1), 0.0, 1.0)

    def at(self, eta: jax.Array, clock: jax.Array, warmup: int) -> jax.Array:
        """η in step ``clock``."""
        share = self.progress(clock, warmup)
        return (1.0 - share) * eta + share * self.end

    def left(self, clock: jax.Array, warmup: int) -> jax.Array:
        """The share of learning rates that is left in step ``clock``: from 1 to ``end``."""
        return 1.0 - self.progress(clock, warmup) * (1.0 - self.end)


EtaSchedule = Schedule
"""Its name when it was for η alone."""


class Hyper(NamedTuple):
    """The numbers of one member that may vary inside one compiled population: all of them are arrays there."""

    rule: Rule
    eta: jax.Array
    gamma: jax.Array
    own: Mapping[str, Any]
    """The agent's settings that vary, by name."""
    planning: PlanningNumbers | None = None
    """None in a population without planners."""
    schedule: Schedule | None = None
    """Where η goes; None in a population whose η stay."""
    rates: Schedule | None = None
    """Where the share of learning rates goes that is left; None in a population whose learning rates stay."""


class Diagnostics(NamedTuple):
    """What one update reports."""

    alive: jax.Array
    """False once a value, the loss or a gradient is not finite or exceeds `VALUE_BOUND`."""
    metrics: Mapping[str, jax.Array]
    """Numbers named by the agent's `AgentSpec.metrics`, and `eta_used` where a rule adapts η; metrics.csv has their
    means."""


def critic_metrics(alive: jax.Array, pred: jax.Array, delta: jax.Array, eta: jax.Array | None = None) -> Diagnostics:
    """`CRITIC_METRICS` of a batch, from its values and its δ_b; and η where it adapts."""
    loss = 0.5 * jnp.mean(delta**2)
    told = {"critic_loss": loss, "q_mean": jnp.mean(pred), "delta": jnp.mean(jnp.abs(delta))}
    return Diagnostics(alive, told if eta is None else told | {ETA_USED: eta})


CRITIC_METRICS = ("critic_loss", "q_mean", "delta")
"""½ mean δ_b², the mean of pred, and the mean of |δ_b| over the batch."""


ETA_USED = "eta_used"
"""The metric of η where it moves or adapts: its value in an update."""
LR_SHARE = "lr_share"
"""The metric of learning rates where they move: the share of them that is left."""

VALUE_BOUND = 1e12
"""A member whose values exceed this has diverged."""

Learner = Any
"""An agent's parameters, targets and optimiser state: a pytree of arrays."""


class Slope(NamedTuple):
    """A critic's gradient, and what it was computed from."""

    gradient: Params
    pred: jax.Array
    """Q(s, a) over the real batch."""
    delta: jax.Array
    """δ_b over the real batch."""
    estimate: Params = None
    """The gradient of an estimate of δ_b, where a rule reads one."""
    eta: jax.Array | None = None
    """The weight of the forward term, where a rule adapts it."""


class Second(NamedTuple):
    """A second sample of what follows a batch, at which the forward term takes its gradient."""

    observation: jax.Array
    discount: jax.Array
    """0 where the episode ended there, else 1."""


Regression = Callable[[jax.Array], tuple[jax.Array, tuple[jax.Array, jax.Array]]]
"""Q's values → a loss, and (pred, δ) to report."""


@dataclass(frozen=True)
class Parts:
    """The parts of an update, for planners, which change some of them: critic, actor, then targets."""

    slope: Callable[..., Slope]
    """learner, hyper, batch, needs → the critic's gradient under the rule of ``hyper``; with a `Second`, if given."""
    regress: Callable[[Learner, jax.Array, jax.Array, Regression], Slope] | None
    """learner, observations, actions, loss → the gradient of a loss of Q's values there; None: planners with a loss
    of their own cannot use the agent."""
    critic: Callable[[Learner, Hyper, Slope, jax.Array], tuple[Learner, Diagnostics]]
    """learner, hyper, slope, alive → one step of the critic's optimiser."""
    actor: Callable[[Learner, Hyper, Transition, jax.Array], tuple[Learner, jax.Array]]
    """learner, hyper, batch, alive → one step of the actor's optimiser, with the critic as it is; alive."""
    targets: Callable[[Learner, Hyper, jax.Array], Learner]
    """learner, hyper, alive → the target networks follow."""
    target_action: Callable[[Learner, jax.Array], jax.Array]
    """learner, observations → the target policy's actions."""
    target_value: Callable[[Learner, jax.Array, jax.Array], jax.Array]
    """learner, observations, actions → the target network's values."""
    bootstrap: Callable[[Learner, Hyper, jax.Array], jax.Array] | None = None
    """learner, hyper, observations → the successor values of the rule `td`; None: target_value of target_action."""
    value: Callable[[Learner, jax.Array], jax.Array] = lambda learner, observation: observation[..., 0] * 0
    """learner, observations → the online network's values of the online policy there."""
    clip: Callable[[jax.Array], jax.Array] = lambda action: jnp.clip(action, -1.0, 1.0)
    """Actions → the same within the task's bounds."""


@dataclass(frozen=True)
class Agent:
    """Pure functions for one member. They know nothing of populations, environments or clocks."""

    init: Callable[[np.random.Generator], Learner]
    """Random numbers → learner."""
    init_noise: Callable[[], Params]
    """The state of the exploration noise before the first episode."""
    explore: Callable[..., tuple[jax.Array, Params]]
    """key, learner, hyper, observation, noise, first → action, noise."""
    random: Callable[[jax.Array], jax.Array]
    """key → an action of the warm-up."""
    greedy: Callable[[Learner, jax.Array], jax.Array]
    """learner, observations (batch) → noise-free actions (batch)."""
    value: Callable[[Learner, jax.Array, jax.Array], jax.Array]
    """learner, observations, actions → Q (batch)."""
    update: Callable[[jax.Array, Learner, Hyper, Transition, jax.Array], tuple[Learner, Diagnostics]]
    """key, learner, hyper, batch, alive → learner, diagnostics: one learning step, or none once the member diverged."""
    delayed: Callable[[jax.Array, Learner, Hyper, Transition, jax.Array], tuple[Learner, jax.Array]] | None = None
    """key, learner, hyper, batch, alive → learner, alive: what comes after every `delay`-th `update` only."""
    delay: int = 1
    parts: Callable[[jax.Array | None], Parts] | None = None
    """key → the parts of the same step; with planners the actor and the targets are the ones that are delayed. None for
    an agent that planners cannot use."""


@dataclass(frozen=True)
class Algorithm:
    """A named triple of agent, rule and planner; one line says what it is."""

    agent: str
    rule: str
    planner: str | None
    summary: str


class Design(NamedTuple):
    """What `AgentSpec.make` is given: all that the members of a population share."""

    space: Space
    hidden: tuple[int, ...]
    """Hidden layers of the networks."""
    own: Mapping[str, Any]
    """The agent's settings that do not vary, by name."""
    needs: Needs
    """Which values the rules of the population read; the others need not be computed."""

    @property
    def activation(self) -> Activation:
        """That of hidden layers, if the agent has the setting `ACTIVATION`; else ReLU."""
        return Activation(self.own.get("activation", RELU.name))


@dataclass(frozen=True)
class AgentSpec:
    """An agent as the rest of the package knows it."""

    name: str
    actions: Literal["continuous", "discrete"]
    settings: tuple[Setting, ...]
    run: Mapping[Sight, Mapping[str, Any]]
    """For each kind of observation that it can see: its defaults of the run's settings (steps, warmup, batch, …)."""
    algorithms: Mapping[str, Algorithm]
    baseline: str
    """The algorithm that the others are compared with."""
    make: Callable[[Design], Agent]
    metrics: tuple[str, ...] = CRITIC_METRICS
    layers: int = 1
    """The least number of hidden layers."""
    written: str = ""
    """Its name in sentences; by default in capitals."""
    values_rewards: bool = True
    """Whether Q is the discounted sum of rewards alone, so that it can be held against returns."""

    def __post_init__(self) -> None:
        """Refuses what could be trained and then not be reported, where it is written."""
        for name, algorithm in self.algorithms.items():
            if algorithm.agent != self.name:
                raise UserError(
                    f"The algorithm {name!r} of the agent {self.name!r} names the agent {algorithm.agent!r}. Give "
                    f"Algorithm({self.name!r}, …)."
                )
        if self.baseline not in self.algorithms:
            raise UserError(
                f"The agent {self.name!r} has the baseline {self.baseline!r}, which is not among its algorithms. "
                f"Accepted: {', '.join(self.algorithms)}."
            )

    @property
    def title(self) -> str:
        return self.written or self.name.upper()

    @property
    def varying(self) -> tuple[str, ...]:
        """The settings that may vary inside a population."""
        return tuple(setting.name for setting in self.settings if setting.varies)

    @property
    def rates(self) -> tuple[str, ...]:
        """The settings that are learning rates."""
        return tuple(setting.name for setting in self.settings if setting.rate)
