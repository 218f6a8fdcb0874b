"""Settings that contradict each other, or do nothing: accepted, and worth a warning."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bires import rules
from bires.agents import registry
from bires.envs.families import is_atari
from bires.planning import mve
from bires.planning import registry as planners
from bires.planning.base import PlannerSpec
from bires.rules import Rule
from bires.settings import grid
from bires.settings.config import Config, default_of
from bires.settings.values import flag, several

RATES = ("lr", "actor_lr", "critic_lr")
"""Learning rates without which nothing is learned; that of SAC's α may be 0."""
LEARNED = ("model_scale", "model_noise", "ensemble")
"""Settings of learned models."""
FORWARD = ("forward_successor", "fresh_action")
"""Settings of the forward term."""
SLOW_ON_ATARI = 1_000_000
"""Steps in which the paper's RMSProp learns nothing yet (docs/dqn.md)."""


def doubts(config: Config) -> Iterator[str]:
    """One line for each thing that its user may not have meant."""
    held = min(config.replay, config.steps)
    if config.batch > held:
        limit = "replay" if config.replay <= config.steps else "steps"
        yield f"--batch {config.batch} is more than --{limit} {held}: a batch always has some transitions twice or more"
    for name in RATES:
        if 0.0 in several(config.own.get(name, ())):
            yield f"{flag(name)} 0 was given: what it is the learning rate of does not learn"
    if 0.0 in several(config.own.get("tau", ())):
        yield "--tau 0 was given: target networks stay as they began"
    yield from doubts_of_short_runs(config)
    known = [registry.algorithm(name) for name in config.algorithm]
    named = map(planners.named, config.planner or [one.planner for one in known])
    specs = [planners.planner(name) for name in named if name is not None]
    real = [rules.get(name) for name in config.rule or [one.rule for one in known]]
    yield from doubts_of_rules(config, real, [rules.get(spec.rule) for spec in specs if spec.rule])
    yield from doubts_of_planners(config, specs)


def doubts_of_short_runs(config: Config) -> Iterator[str]:
    """A schedule and an optimiser that were made for more steps."""
    slowest = max(several(config.own.get("epsilon_steps", ())), default=0.0)
    if slowest > 2 * (config.steps - config.warmup):
        yield (
            f"ε falls in --epsilon-steps {slowest:,.0f}, of which --steps {config.steps:,} has less than half: most "
            f"actions stay random; for fewer, type for example --epsilon-steps {max(1, config.steps // 4)}"
        )
    if is_atari(config.task) and config.own.get("optimiser") == "rmsprop" and config.steps <= SLOW_ON_ATARI:
        yield (
            "--optimiser rmsprop, the paper's and Atari's default, learned nothing on Breakout in 600,000 steps; for "
            "so few, --optimiser adam --critic-lr 1e-4 with shorter schedules learns (see docs/dqn.md)"
        )


def doubts_of_rules(config: Config, real: Sequence[Rule], imagined: Sequence[Rule]) -> Iterator[str]:
    """What the rules of these members do not read; ``imagined``: those of their planners."""
    if not any(rule.weighted for rule in real):
        if len(config.eta) > 1:
            yield (
                "--eta was given several values, but no rule here reads η: they make no members; see `bires list rules`"
            )
        if config.eta_end:
            yield "--eta-end was given, but no rule here reads η, so it does nothing; see `bires list rules`"
    if not any(rule.pushes for rule in (*real, *imagined)):
        for name in given(config, FORWARD):
            yield f"{flag(name)} was given, but no rule here has a forward term, so it does nothing"


def doubts_of_planners(config: Config, specs: Sequence[PlannerSpec]) -> Iterator[str]:
    """What the planners of these members do not read."""
    there = given(config, [one.name for one in config.planner_settings])
    if not specs:
        for name in there:
            yield (
                f"{flag(name)} was given, but no algorithm here has a planner, so it does nothing; see `bires list "
                "planners` and --planner"
            )
        return
    kinds = [kind for name in config.algorithm for kind in grid.kinds_of(config, registry.algorithm(name))]
    columns = zip(config.planned, zip(*(kind.planning for kind in kinds), strict=True), strict=True)
    idle = {name for name, values in columns if set(values) == {None}}
    if config.own["model"] == "learned":
        idle.discard("horizon")  # up to which the errors of models are measured, too
    if not any(spec.kind.slope is mve.slope for spec in specs):
        idle.add("mve_loss")
    for name in there:
        if name in idle:
            yield f"{flag(name)} was given, but no planner here reads it, so it does nothing"
        elif name in LEARNED and config.own["model"] == "oracle":
            yield f"{flag(name)} was given with --model oracle, so it does nothing; it is for --model learned"


def given(config: Config, names: Sequence[str]) -> list[str]:
    """Those of some settings of the agent or of planners that are not the default."""
    defaults = {one.name: default_of(one, config.sight) for one in config.own_settings if one.name in names}
    return [name for name, usual in defaults.items() if config.own[name] != usual]
