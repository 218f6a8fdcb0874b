"""The studies: one short record per figure of the paper, and per question beyond it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from bires.envs.families import ATARI
from bires.envs.tasks import DMCONTROL, MUJOCO
from bires.studies.claims import (
    Claim,
    best_eta,
    better,
    fails,
    gain,
    mean_gain,
    median_gain,
    not_better,
    similar,
    steadier,
    wins,
)

ETAS = (0.0, 0.05, 0.1, 0.2, 0.4, 0.8, 1.0)
RESIDUAL = ("bi-res-ddpg", "res-ddpg", "to-res-ddpg", "ot-res-ddpg", "tt-res-ddpg")
PLANNERS = ("ddpg", "dyna-ddpg", "res-dyna-ddpg", "mve-ddpg")


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


@dataclass(frozen=True)
class StudyScale:
    """How much of a study is run: settings in place of the paper's, and the largest number of seeds."""

    summary: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    seeds: int | None = None


SCALES: dict[str, StudyScale] = {
    "smoke": StudyScale(
        "minutes on two cores: every code path, no result",
        {"steps": 200, "warmup": 100, "eval_every": 200, "eval_episodes": 1, "batch": 16, "hidden": (32, 32)}
        | {"log_every": 50, "model_scale": "small"},
        seeds=2,
    ),
    "small": StudyScale(
        "hours on a workstation: a tenth of the steps, three seeds",
        {"steps": 100_000, "eval_every": 5_000, "eval_episodes": 5, "model_scale": "small"},
        seeds=3,
    ),
    "paper": StudyScale("as in the paper: 10⁶ steps, all seeds, 20 evaluation episodes"),
}

MODEL_FREE = {"algorithm": ("ddpg", "bi-res-ddpg"), "eta": (0.05,)}

EXTRA_CURVE = {"algorithm": ("res-dyna-ddpg",), "planning_eta": (0.05,), "model": "learned"}

MODERN_TASKS = (
    "cartpole-swingup_sparse",
    "ball_in_cup-catch",
    "reacher-hard",
    "finger-spin",
    "cheetah-run",
    "walker-run",
    "hopper-stand",
    "fish-swim",
)
"""Sparse, 0/1 and graded rewards; swing-up, reaching, manipulation, swimming and walking."""
MODERN_AGENTS = ("ddpg", "td3", "sac")
MODERN = {"protocol": "modern", "steps": 200_000, "eval_every": 10_000, "eval_episodes": 4}
NORMS = {False: "", True: " layer_norm"}
"""Whether critics are normalised → what labels add."""
SUCCESSORS = [(successor, fresh) for successor in ("min", "own") for fresh in (False, True)]


def modern_parts() -> tuple[Part, ...]:
    """One population for each agent, with and without layer normalisation."""
    return tuple(
        Part(
            MODERN_TASKS,
            MODERN | {"algorithm": (agent, f"bi-res-{agent}"), "eta": (0.05, 0.2), "layer_norm": norm},
            f"-{agent}" + "-norm" * norm,
        )
        for agent in MODERN_AGENTS
        for norm in NORMS
    )


def successor_parts() -> tuple[Part, ...]:
    """One population for each agent and each form of the forward term."""
    return tuple(
        Part(
            ("walker-run", "finger-spin"),
            MODERN
            | {"algorithm": (agent, f"bi-res-{agent}"), "eta": (0.2,)}
            | {"forward_successor": successor, "fresh_action": fresh},
            f"-{agent}-{successor}" + "-fresh" * fresh,
        )
        for agent in ("td3", "sac")
        for successor, fresh in SUCCESSORS
    )


STUDIES: dict[str, Study] = {
    "auc": Study(
        "Bi-Res-DDPG(0.05) against DDPG on 28 DMControl and 5 MuJoCo tasks: sorted AUC improvements",
        (Part((*DMCONTROL, *MUJOCO), MODEL_FREE),),
        seeds=5,
        figure="bars",
        claims=(median_gain("bi-res-ddpg(0.05)", 0.20), mean_gain("bi-res-ddpg(0.05)", 0.41)),
    ),
    "variants": Study(
        "five residual rules × seven η on walker-stand; η = 0 of `bi` and `to` is DDPG",
        (Part(("walker-stand",), {"algorithm": RESIDUAL, "eta": ETAS}),),
        seeds=5,
        figure="variants",
        claims=(
            similar("to-res-ddpg(0)", "bi-res-ddpg(0)"),
            better("bi-res-ddpg(0)", "res-ddpg(0)"),
            better("res-ddpg(0.4)", "res-ddpg(0)"),
            similar("res-ddpg(0.4)", "bi-res-ddpg(0)"),
            best_eta("to-res-ddpg", 0.0),
            *(fails(f"{rule}({eta:g})", "bi-res-ddpg(0)") for eta in (0.8, 1.0) for rule in RESIDUAL),
            better("bi-res-ddpg(0.05)", "bi-res-ddpg(0)"),
            steadier("bi-res-ddpg(0.05)", "bi-res-ddpg(0)"),
            steadier("res-ddpg(0.4)", "res-ddpg(0)"),
        ),
    ),
    "mujoco": Study(
        "learning curves of DDPG and Bi-Res-DDPG(0.05) on the 5 MuJoCo tasks",
        (Part(MUJOCO, MODEL_FREE),),
        seeds=5,
        figure="curves",
        runs_of="auc",
    ),
    "dmc": Study(
        "learning curves of DDPG and Bi-Res-DDPG(0.05) on the 28 DMControl tasks",
        (Part(DMCONTROL, MODEL_FREE),),
        seeds=5,
        figure="curves",
        runs_of="auc",
    ),
    "oracle": Study(
        "planning with the simulator itself: DDPG, Dyna, Res-Dyna(0.2) and MVE on the 5 MuJoCo tasks",
        (Part(MUJOCO, {"algorithm": PLANNERS, "planning_eta": (0.2,), "model": "oracle"}),),
        seeds=8,
        figure="curves",
        claims=(
            wins("dyna-ddpg", 2, 5),
            wins("mve-ddpg", 2, 5),
            wins("res-dyna-ddpg(0.2)", 4, 5),
            not_better("mve-ddpg", "dyna-ddpg", "HalfCheetah"),
            not_better("res-dyna-ddpg(0.2)", "dyna-ddpg", "HalfCheetah"),
        ),
    ),
    "learned": Study(
        "planning with a learned model: DDPG, Dyna, Res-Dyna(0.2) and MVE on the 5 MuJoCo tasks",
        (
            Part(MUJOCO, {"algorithm": PLANNERS, "planning_eta": (0.2,), "model": "learned"}),
            Part(("HalfCheetah",), EXTRA_CURVE, "-eta-0.05"),
        ),
        seeds=8,
        figure="curves",
        claims=(
            *(
                better("res-dyna-ddpg(0.2)", other, task)
                for task in ("Swimmer", "Humanoid")
                for other in ("ddpg", "dyna-ddpg", "mve-ddpg")
            ),
            similar("res-dyna-ddpg(0.2)", "mve-ddpg", "Walker2d"),
            similar("res-dyna-ddpg(0.2)", "mve-ddpg", "Hopper"),
            fails("res-dyna-ddpg(0.2)", "ddpg", "HalfCheetah"),
            better("res-dyna-ddpg(0.05)", "res-dyna-ddpg(0.2)", "HalfCheetah"),
        ),
    ),
    "atari": Study(
        "DQN and Bi-Res-DQN(0.05 and 1) on three Atari games",
        (Part(ATARI, {"algorithm": ("dqn", "bi-res-dqn"), "eta": (0.05, 1.0), "steps": 20_000_000}),),
        seeds=5,
        figure="curves",
        claims=(similar("bi-res-dqn(0.05)", "dqn"),),
    ),
    "modern": Study(
        "beyond the paper: do residual updates help TD3 and SAC, and critics with layer normalisation?",
        modern_parts(),
        seeds=5,
        figure="effects",
        claims=tuple(
            gain(f"bi-res-{agent}({eta:g}){norm}")
            for agent in MODERN_AGENTS
            for norm in NORMS.values()
            for eta in (0.05, 0.2)
        ),
    ),
    "successors": Study(
        "beyond the paper: the forward term of Bi-Res-TD3 and Bi-Res-SAC, with the smallest or each critic's own value",
        successor_parts(),
        seeds=5,
        figure="effects",
        claims=tuple(
            gain(f"bi-res-{agent}(0.2)" + " fresh_action" * fresh + " forward_successor=own" * (successor == "own"))
            for agent in ("td3", "sac")
            for successor, fresh in SUCCESSORS
        ),
    ),
    "linear": Study(
        "the policy-evaluation lab: every claim of the paper's section 3, measured (about a minute)",
        (),
        seeds=0,
        figure="lab",
    ),
}
