"""CrossQ with any critic rule: Bhatt et al. (2024), SAC with batch normalisation in place of target networks.

Both ends of a transition, (s, a) and (s', a'), go through the critics in one pass, so that they are normalised by the
same moments (`bires.agents.batchnorm`); the semi-gradient reads the online critics at both (the rule `online`):

    δ_i = r + γ [min_j Q_j(s', a') − α log π(a'|s')] − Q_i(s, a)        a' ~ π(·|s')

The other rules are those of SAC. Where one reads target critics, these follow slowly, and see both ends, too. The
residual forms are ours.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from bires.agents import batchnorm, optimisers, sac
from bires.agents import critics as stacked
from bires.agents.base import CRITIC_METRICS, Agent, AgentSpec, Algorithm, Design, Diagnostics, Hyper, Slope
from bires.agents.batchnorm import BatchMlp, BatchMoments, RunningMoments
from bires.agents.critics import NextAction, NextActions
from bires.agents.networks import Mlp, init_mlp
from bires.agents.optimisers import Averages, descend, soft_update
from bires.agents.slopes import Trained, improve, reached_first_layer
from bires.types import Setting, Transition

BETA_1 = 0.5
"""Adam's, of actor and critics (the authors')."""


class CrossQLearner(NamedTuple):
    """A policy and several critics (stacked), with running means of their moments, log α, and the optimisers."""

    policy: BatchMlp
    policy_running: RunningMoments
    critics: Trained
    critics_running: RunningMoments
    log_alpha: jax.Array
    policy_adam: Averages
    alpha_adam: Averages
    target_critics: BatchMlp | None = None
    """Where a rule reads them."""

    @property
    def actor(self) -> Mlp:
        """The policy as it acts."""
        return batchnorm.folded(self.policy, self.policy_running)

    @property
    def acting_critics(self) -> Mlp:
        """The critics with running means in place of a batch's moments."""
        folded: Mlp = jax.vmap(batchnorm.folded)(self.critics.params, self.critics_running)
        return folded


def init(rng: np.random.Generator, design: Design) -> CrossQLearner:
    """Online networks, targets equal to them where they are read, α as set, fresh optimisers."""
    space, hidden, count = design.space, design.hidden, design.own["critics"]
    sizes = (space.observation + space.action, *(design.own["critic_width"],) * len(hidden), 1)
    policy = batchnorm.init(rng, (space.observation, *hidden, 2 * space.action), design.activation)
    critics: BatchMlp = stack([batchnorm.init(rng, sizes, design.activation) for _ in range(count)])
    trained = Trained(critics, optimisers.init(critics))
    if design.needs.estimated:
        estimate: Mlp = stack([init_mlp(rng, sizes, activation=design.activation) for _ in range(count)])
        trained = trained._replace(estimate=estimate, estimate_adam=optimisers.init(estimate))
    log_alpha = jnp.log(jnp.asarray(design.own["alpha"], jnp.float32))
    return CrossQLearner(
        policy,
        batchnorm.begin(policy),
        trained,
        jax.vmap(batchnorm.begin)(critics),
        log_alpha,
        optimisers.init(policy),
        optimisers.init(log_alpha),
        jax.tree.map(jnp.copy, critics) if reads_targets(design) else None,
    )


def stack(members: list[Any]) -> Any:
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *members)


def reads_targets(design: Design) -> bool:
    return design.needs.target_pred or design.needs.target_succ


def network(
    running: RunningMoments, rows: int, params: BatchMlp, x: jax.Array
) -> tuple[jax.Array, tuple[BatchMoments, ...]]:
    """What every critic gives for a batch from which it learns: (critics, batch, 1), and the moments of some rows."""
    learning = partial(batchnorm.learning, rows=rows)
    found: tuple[jax.Array, tuple[BatchMoments, ...]] = jax.vmap(learning, (0, 0, None))(params, running, x)
    return found


def critic_slope(
    design: Design, key: jax.Array, state: CrossQLearner, hyper: Hyper, batch: Transition
) -> tuple[Slope, tuple[BatchMoments, ...]]:
    """The critics' gradient under the rule of ``hyper``, and the moments of what they saw.

    One a' serves all networks, and a fresh one ∇succ if set. Both ends are seen by every network that gives a value.
    The moments are theirs: a fresh a' counts for nothing, or it would touch members that have no use for it.
    """
    first, fresh = jax.random.split(key)
    actor, targets = state.actor, reads_targets(design)

    def soft(key: jax.Array) -> NextAction:
        drawn = sac.sample(actor, key, batch.next_observation)
        return NextAction(drawn.action, -jnp.exp(state.log_alpha) * drawn.log_prob)

    drawn, again = soft(first), soft(fresh) if design.needs.forward and design.own["fresh_action"] else None
    following = NextActions(drawn if targets else None, drawn, again)
    needs = design.needs._replace(target_pred=targets, target_succ=targets)
    seen = [(batch.observation, batch.action), (batch.next_observation, drawn.action)]
    seen += [(batch.next_observation, again.action)] if again is not None else []
    joint = jnp.concatenate([jnp.concatenate(pair, -1) for pair in seen])
    learning = partial(network, state.critics_running, 2 * len(batch.reward))
    slope = stacked.rule_slope(
        state.critics.params,
        state.target_critics,
        hyper,
        batch,
        needs,
        following,
        design.own["forward_successor"] == "own",
        state.critics.estimate,
        lambda params, x: learning(params, x)[0],
    )
    # The same pass as in the gradient: XLA computes it once.
    return slope, learning(state.critics.params, joint)[1]


def update(
    design: Design, key: jax.Array, state: CrossQLearner, hyper: Hyper, batch: Transition, alive: jax.Array
) -> tuple[CrossQLearner, Diagnostics]:
    """Critics, their running means, and the targets where a rule reads them; reports α, too."""
    slope, moments = critic_slope(design, key, state, hyper, batch)
    critics, seen = improve(slope, state.critics, hyper.own["critic_lr"], alive, partial(descend, beta_1=BETA_1))
    follow = jax.vmap(batchnorm.follow, (0, 0, None))
    new = state._replace(critics=critics, critics_running=follow(state.critics_running, moments, seen.alive))
    if state.target_critics is not None:
        targets = soft_update(critics.params, state.target_critics, hyper.own["tau"], seen.alive)
        new = new._replace(target_critics=targets)
    return new, seen._replace(metrics={**seen.metrics, "alpha": jnp.exp(state.log_alpha)})


def improve_actor(
    key: jax.Array, state: CrossQLearner, hyper: Hyper, batch: Transition, alive: jax.Array
) -> tuple[CrossQLearner, jax.Array]:
    """One step of the actor, on mean [α log π(a|s) − min_j Q_j(s, a)] with critics as they act; one of log α."""
    alpha, critics = jnp.exp(state.log_alpha), state.acting_critics

    def loss(policy: BatchMlp) -> tuple[jax.Array, tuple[jax.Array, tuple[BatchMoments, ...]]]:
        outputs, moments = batchnorm.learning(policy, state.policy_running, batch.observation)
        drawn = sac.squashed(key, outputs)
        value = stacked.smallest(critics, batch.observation, drawn.action)
        return jnp.mean(alpha * drawn.log_prob - value), (jnp.mean(drawn.log_prob), moments)

    slope, (log_prob, moments) = jax.grad(loss, has_aux=True)(state.policy)
    ok = alive & reached_first_layer(slope)
    policy, policy_adam = descend(slope, state.policy_adam, state.policy, hyper.own["actor_lr"], ok, BETA_1)
    log_alpha, alpha_adam = sac.improve_alpha(state, hyper, log_prob, batch, ok)
    running = batchnorm.follow(state.policy_running, moments, ok)
    new = state._replace(policy=policy, policy_running=running, policy_adam=policy_adam)
    return new._replace(log_alpha=log_alpha, alpha_adam=alpha_adam), ok


def make(design: Design) -> Agent:
    """The agent for a task."""
    space = design.space

    def explore(
        key: jax.Array, state: CrossQLearner, hyper: Hyper, observation: jax.Array, noise: jax.Array, first: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        return space.clip(sac.sample(state.actor, key, observation[None]).action[0]), noise

    return Agent(
        init=lambda rng: init(rng, design),
        init_noise=lambda: jnp.zeros(()),
        explore=explore,
        random=space.uniform,
        greedy=lambda state, observation: space.clip(sac.greedy(state.actor, observation)),
        value=lambda state, observation, action: stacked.smallest(state.acting_critics, observation, action),
        update=partial(update, design),
        delayed=improve_actor,
        delay=design.own["policy_delay"],
    )


SETTINGS = (
    Setting(
        "tau",
        5e-3,
        "τ, how much of the online critics the target critics take in at each update, where a rule reads these.",
        low=0.0,
        high=1.0,
        varies=True,
    ),
    Setting("actor_lr", 1e-3, "Learning rate of the actor.", low=0.0, varies=True, rate=True),
    Setting("critic_lr", 1e-3, "Learning rate of the critics.", low=0.0, varies=True, rate=True),
    Setting(
        "alpha_lr", 1e-3, "Learning rate of the entropy coefficient α; 0: it stays.", low=0.0, varies=True, rate=True
    ),
    Setting("alpha", 1.0, "The entropy coefficient α at the start.", low=1e-8),
    Setting("target_entropy", -1.0, "The entropy that α is learned for, per number of an action.", varies=True),
    Setting("policy_delay", 3, "Updates of the critics for each of the actor and of α.", low=1, high=2**31 - 1),
    Setting("critic_width", 1024, "Units in each hidden layer of the critics; --hidden is the actor's.", low=1),
    *(setting for setting in stacked.SETTINGS if setting.name != "layer_norm"),
)

ALGORITHMS = {
    "crossq": Algorithm(
        "crossq", "online", None, "CrossQ (Bhatt et al. 2024): SAC with batch normalisation, no targets"
    ),
    "res-crossq": Algorithm("crossq", "res", None, "Baird's residual algorithm in CrossQ, without target networks"),
    "bi-res-crossq": Algorithm("crossq", "bi", None, "residual CrossQ with the bidirectional target network"),
}

SPEC = AgentSpec(
    name="crossq",
    written="CrossQ",
    actions="continuous",
    values_rewards=False,  # entropy, too
    settings=SETTINGS,
    run={"vector": stacked.RUN},  # SBX's, which are the authors' but for critics of half their width, and the warm-up
    algorithms=ALGORITHMS,
    baseline="crossq",
    make=make,
    metrics=(*CRITIC_METRICS, "alpha"),
)
