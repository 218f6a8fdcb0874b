"""Scores of curves, on a scale that does not depend on a baseline; what was learned; and the values that Q predicts.

A run's score is the mean of its curve's points (AUC / their number), in units of the task's scale. A ratio to a
baseline near zero is an accident; a difference of scores is not.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from bires.agents import registry
from bires.analysis.curves import Curves, Panel
from bires.analysis.intervals import CONFIDENCE, estimate
from bires.analysis.statistics import matrix, mean
from bires.envs.families import family_of, is_atari
from bires.envs.tasks import DMCONTROL, MUJOCO, SHORT, known_as
from bires.runs import run as reading
from bires.settings.config import Config
from bires.types import Pixels

SCALES = {
    **dict.fromkeys(DMCONTROL, 1000.0),
    "HalfCheetah": 10_000.0,
    "Walker2d": 5_000.0,
    "Hopper": 3_500.0,
    "Swimmer": 350.0,
    "Humanoid": 5_000.0,
    "MinAtar/Asterix": 17.0,
    "MinAtar/Breakout": 10.0,
    "MinAtar/Freeway": 50.0,
    "MinAtar/Seaquest": 20.0,
    "MinAtar/SpaceInvaders": 45.0,
}
"""A good return. DMControl: the largest there is. HalfCheetah, Walker2d, Hopper: what TD3's authors report after 10⁶
steps (9637, 4683, 3564), rounded. Swimmer: Gymnasium's reward threshold (360), rounded. Humanoid: what later agents
reach (about 5000). MinAtar: what its authors' DQN reaches in 5·10⁶ frames, read from their figure. They only make
tasks comparable: a common factor changes no sign and no verdict."""
SPARSE = (
    "acrobot-swingup_sparse",
    "ball_in_cup-catch",
    "cartpole-swingup_sparse",
    "cartpole-balance_sparse",
    "finger-spin",
    "finger-turn_easy",
    "finger-turn_hard",
    "pendulum-swingup",
    "reacher-easy",
    "reacher-hard",
)
"""DMControl tasks whose reward is 0 or 1, without a slope towards 1."""
ENDLESS = (*DMCONTROL, "HalfCheetah", "Swimmer")
"""Tasks whose episodes end by their time limit alone."""
FLOOR = 0.05
"""A task counts as learned if the curve of some algorithm rose by this share of the scale above the untrained level."""

Measure = Callable[[Curves], np.ndarray]
"""A kind's members → one number each."""


@dataclass(frozen=True)
class Scale:
    """What returns are divided by."""

    value: float
    given: bool
    """Whether it is in `SCALES`; else it was measured: the range of the panel's mean curves."""


@dataclass(frozen=True)
class Compared:
    """Numbers of a baseline's and of another kind's runs (runs × tasks)."""

    base: np.ndarray
    other: np.ndarray
    paired: np.ndarray
    """Whether the two have the same seeds, row by row, for each task."""

    @property
    def interval(self) -> str:
        """The kind of interval."""
        share = int(self.paired.sum())
        if share in (0, len(self.paired)):
            return "paired" if share else "unpaired"
        return f"paired on {share} of {len(self.paired)} tasks"


def short(task: str) -> str:
    """A task's short name, without its version."""
    return known_as(re.sub(r"-v\d+$", "", task.removeprefix("dm_control/")))


def scale_of(panel: Panel) -> Scale:
    name = short(panel.task)
    if name in SCALES:
        return Scale(SCALES[name], given=True)
    means = [kind.returns.mean(axis=0) for kind in panel.kinds if kind.returns.size]
    spread = max((float(mean.max()) for mean in means), default=0.0) - min((float(m.min()) for m in means), default=0.0)
    return Scale(spread or 1.0, given=False)


def kind_of_task(task: str) -> str:
    """What tasks are grouped by."""
    name = short(task)
    if name in DMCONTROL:
        return "DMControl, 0/1 rewards" if name in SPARSE else "DMControl, graded rewards"
    return "MuJoCo" if name in MUJOCO else "Atari" if is_atari(task) else "others"


# Of one kind's members.


def score(kind: Curves) -> np.ndarray:
    """The mean over the curve: AUC / number of points."""
    return np.asarray(kind.returns.mean(axis=1))


def final(kind: Curves) -> np.ndarray:
    """The mean of the last tenth of the curve."""
    return np.asarray(kind.returns[:, tail(kind)].mean(axis=1))


def tail(kind: Curves) -> slice:
    return reading.tail(len(kind.steps))


def untrained(kind: Curves, warmup: int) -> np.ndarray:
    """The mean of the points before the first update: of the same policy, as nothing is learned in the warm-up."""
    return np.asarray(kind.returns[:, : max(1, int(np.sum(kind.steps <= warmup)))].mean(axis=1))


def gained(kind: Curves, warmup: int) -> np.ndarray:
    """What was learned: score − untrained level."""
    return np.asarray(score(kind) - untrained(kind, warmup))


def warmup_of(panel: Panel) -> int:
    return min(run.config.warmup for run in panel.runs)


def learned(panel: Panel, agent: str | None = None) -> bool:
    """Whether some kind's mean score, or final performance, is `FLOOR` of the scale above its untrained level.

    A measured scale is the range of the curves themselves, of which noise alone has a large share: there the interval
    of the rise must lie above 0, too. The more kinds there are, the sooner one of them rises by chance: so the
    intervals are as wide as that many kinds need (Bonferroni).

    ``agent``: only its kinds are asked; another agent may learn what these do not.
    """
    scale, warmup = scale_of(panel), warmup_of(panel)
    there = [kind for kind in panel.kinds if kind.returns.size and agent in (None, kind.agent)]
    rises = (measure(kind) - untrained(kind, warmup) for kind in there for measure in (score, final))
    large = [rise for rise in rises if float(np.mean(rise)) >= FLOOR * scale.value]
    return bool(large) and (scale.given or any(certain(rise, len(there)) for rise in large))


def certain(rise: np.ndarray, kinds: int) -> bool:
    """Whether the interval of a mean, that of one of so many kinds, lies above 0; one run has no interval."""
    return estimate(mean, rise[:, None], confidence=1 - (1 - CONFIDENCE) / kinds).low > 0


def values(panel: Panel, kind: Curves) -> tuple[float, float]:
    """Mean Q(s, μ(s)) over the last tenth of evaluations, and the mean discounted return there if rewards are even.

    The latter is nan where Q is of something else than the rewards of returns: of entropy, too (SAC), or of rewards
    that are clipped (Atari's, and others whose family says so). And where γ = 1, as then it has no bound, or where
    nobody knows whether episodes end or are cut.

    With R / L reward per step, the return that is left from a step on is (R / L) / (1 − γ) if the episode goes on,
    and its mean over L steps is smaller by the factor 1 − γ (1 − γᴸ) / (L (1 − γ)) if nothing follows.
    """
    last, gamma, config = tail(kind), kind.gamma, panel.runs[0].config
    plain = kind.agent not in registry.AGENTS or registry.AGENTS[kind.agent].values_rewards
    limit = limit_of(config)
    if not plain or clipped(config) or gamma >= 1 or math.isnan(limit):
        return float(kind.q[:, last].mean()), float("nan")
    lengths = kind.lengths[:, last]
    forever = kind.returns[:, last] / lengths / (1 - gamma)
    left = 1 - gamma * (1 - gamma**lengths) / (lengths * (1 - gamma))
    return float(kind.q[:, last].mean()), float((forever * np.where(lengths < limit, left, 1.0)).mean())


def limit_of(config: Config) -> float:
    """From which length on learners see an episode as cut and not as ended: 0: always, ∞: never, nan: it is not known.

    Of a task that Gymnasium does not know, such as MODULE:FUNCTION, nobody can tell.
    """
    import gymnasium

    if config.protocol == "paper" or family_of(config.task) is not None:
        return math.inf
    if short(config.task) in ENDLESS:
        return 0.0
    spec = gymnasium.registry.get(SHORT.get(known_as(config.task), config.task.rpartition(":")[2]))
    limit = config.env_kwargs.get("max_episode_steps", spec.max_episode_steps if spec else None)
    return float(limit) if isinstance(limit, int) else math.nan


def clipped(config: Config) -> bool:
    """Whether learners see only the signs of rewards."""
    family, name = family_of(config.task), config.task.rpartition(":")[2]
    if family is None:
        return False
    if isinstance(family.pixels, Pixels):  # no name is needed: reports of games need no emulator
        return family.pixels.clip_rewards
    return family.pixels(family.resolve(name, config.protocol)).clip_rewards


# Of two kinds.


def compared(pairs: Sequence[tuple[Curves, Curves]], measure: Measure, scales: Sequence[float] = ()) -> Compared:
    """A measure of baseline and other on each task, in units of the scales where there are some."""
    units = scales or [1.0] * len(pairs)
    columns = [[measure(pair[i]) / unit for pair, unit in zip(pairs, units, strict=True)] for i in (0, 1)]
    return Compared(
        matrix(columns[0]), matrix(columns[1]), np.array([base.seeds == kind.seeds for base, kind in pairs], bool)
    )
