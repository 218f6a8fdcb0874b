"""Settings that contradict each other, or do nothing: accepted, and worth a warning."""

from __future__ import annotations

from collections.abc import Iterator

from bires import rules
from bires.agents import registry
from bires.settings.config import Config, default_of, flag

RATES = ("lr", "actor_lr", "critic_lr")
"""Learning rates without which nothing is learned; that of SAC's α may be 0."""


def doubts(config: Config) -> Iterator[str]:
    """One line for each thing that its user may not have meant."""
    held = min(config.replay, config.steps)
    if config.batch > held:
        limit = "replay" if config.replay <= config.steps else "steps"
        yield f"--batch {config.batch} is more than --{limit} {held}: a batch always has some transitions twice or more"
    named = (rules.get(name) for name in config.rule)
    used = list(named) or [rules.get(registry.algorithm(name).rule) for name in config.algorithm]
    if len(config.eta) > 1 and not any(rule.weighted for rule in used):
        yield "--eta was given several values, but no rule here reads η: they make no members; see `bires list rules`"
    for name in RATES:
        if 0.0 in config.own.get(name, ()):
            yield f"{flag(name)} 0 was given: what it is the learning rate of does not learn"
    if config.own["model"] == "oracle" and config.own["model_noise"] != "none":
        yield "--model-noise was given with --model oracle, so it does nothing; it is for --model learned"
    if not (config.planner or any(registry.algorithm(name).planner for name in config.algorithm)):
        for one in config.planner_settings:
            if config.own[one.name] != default_of(one, config.sight):
                yield (
                    f"{flag(one.name)} was given, but no algorithm here has a planner, so it does nothing; see "
                    "`bires list planners` and --planner"
                )
