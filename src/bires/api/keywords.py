"""The settings of a run as keywords, for functions that pass them on to `train`: one list, for readers and checkers."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, ParamSpec, TypedDict, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

Names = str | Iterable[str]
"""One name, or several: a grid."""
Numbers = float | Iterable[float]
"""One number, or several: a grid."""
Whole = int | float
"""A whole number, which may be written 1e6."""


class RunSettings(TypedDict, total=False):
    """Those of every run: the fields of `bires.settings.config.Config`."""

    algorithm: Names
    rule: Names
    planner: Names
    eta: Numbers
    eta_end: Numbers
    eta_until: Numbers
    seeds: Whole
    seed: Numbers
    gamma: Numbers
    steps: Whole
    warmup: Whole
    eval_every: Whole
    eval_episodes: Whole
    batch: Whole
    replay: Whole
    update_every: Whole
    update_times: Whole
    hidden: Iterable[int] | int
    lr_end: Numbers
    lr_until: Numbers
    protocol: Literal["modern", "paper"]
    log_every: Whole
    env_kwargs: Mapping[str, Any]
    reward_scale: float
    disturb: float
    normalise_observations: bool


class Settings(RunSettings, total=False):
    """Those of the package's agents, planners and families of environments, too."""

    activation: Literal["relu", "leaky_relu", "elu", "gelu", "silu", "tanh"]
    actor_lr: Numbers
    alpha: float
    alpha_lr: Numbers
    critic_lr: Numbers
    critic_width: int
    critics: int
    double_q: bool
    ensemble: int
    epsilon_end: Numbers
    epsilon_start: Numbers
    epsilon_steps: Numbers
    forward_successor: Literal["min", "own"]
    fresh_action: bool
    full_actions: bool
    horizon: Numbers
    layer_norm: bool
    max_grad_norm: float
    model: Literal["oracle", "learned"]
    model_noise: Literal["none", "gaussian"]
    model_scale: Literal["paper", "small"]
    mve_loss: Literal["paper", "original"]
    noise: Numbers
    optimiser: Literal["adam", "rmsprop"]
    planning_eta: Numbers
    planning_noise: Numbers
    planning_steps: Numbers
    planning_trust: Numbers
    policy_delay: int
    ramping: bool
    smoothing: Numbers
    smoothing_clip: Numbers
    sticky: float
    target_entropy: Numbers
    target_every: Numbers
    tau: Numbers


def given(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that are not None, which stands for the default."""
    return {name: value for name, value in settings.items() if value is not None}


def showing_settings(function: Callable[P, T]) -> Callable[P, T]:
    """The function, with the keywords of `Settings` in its signature: for help and for completion in notebooks."""
    signature = inspect.signature(function)
    *own, rest = signature.parameters.values()
    settings = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)
        for name, kind in Settings.__annotations__.items()
    ]
    function.__signature__ = signature.replace(parameters=[*own, *settings, rest])  # type: ignore[attr-defined]
    return function
