"""What a study is: populations, seeds, a figure and claims; and how much of it is run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from bires.studies.claims import Claim

Scale = Literal["smoke", "laptop", "small", "paper"]


@dataclass(frozen=True)
class Part:
    """Populations with the same settings (fields of `bires.settings.config.Config`), one for each task."""

    tasks: tuple[str, ...]
    settings: Mapping[str, Any]
    suffix: str = ""
    """Distinguishes its run folders from those of another part with the same task."""


@dataclass(frozen=True)
class Study:
    """A figure of the paper, or a question beyond it."""

    summary: str
    parts: tuple[Part, ...]
    seeds: int
    """As many as the paper had, or would have had."""
    figure: Literal["curves", "bars", "variants", "effects", "lab"]
    claims: tuple[Claim, ...] = ()
    runs_of: str | None = None
    """The study whose run folders it shares."""
    beyond: bool = False
    """Whether it asks what the paper does not."""
    scaled: Mapping[Scale, Mapping[str, Any]] = field(default_factory=dict)
    """Its own settings at a scale, in place of those that the scale has for every study."""

    @property
    def tasks(self) -> list[str]:
        """Those of all its parts, each once."""
        return list(dict.fromkeys(task for part in self.parts for task in part.tasks))


@dataclass(frozen=True)
class StudyScale:
    """How much of a study is run: settings in place of the paper's, and the largest number of seeds."""

    summary: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    seeds: int | None = None


SCALES: dict[Scale, StudyScale] = {
    "smoke": StudyScale(
        "minutes on two cores: every code path, no result",
        {"steps": 200, "warmup": 100, "eval_every": 200, "eval_episodes": 1, "batch": 16, "hidden": (32, 32)}
        | {"log_every": 50, "model_scale": "small"},
        seeds=2,
    ),
    "laptop": StudyScale(
        "an hour or more on two cores: 50 000 steps, small networks, five seeds",
        {"steps": 50_000, "warmup": 1_000, "eval_every": 5_000, "eval_episodes": 4, "hidden": (64, 64)}
        | {"model_scale": "small"},
        seeds=5,
    ),
    "small": StudyScale(
        "hours on a workstation: a tenth of the steps, three seeds",
        {"steps": 100_000, "eval_every": 5_000, "eval_episodes": 5, "model_scale": "small"},
        seeds=3,
    ),
    "paper": StudyScale("as in the paper: 10⁶ steps, all seeds, 20 evaluation episodes"),
}
