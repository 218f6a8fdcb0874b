"""Studies of questions that the paper does not ask: the agents of today, noise, rivals of its rules."""

from __future__ import annotations

from typing import Any

from bires.envs.minatar import CHANNELS
from bires.studies.claims import Claim, at_noise, better, gain
from bires.studies.study import Part, Study

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


def forward(agent: str, successor: str, fresh: bool) -> str:
    """The label of Bi-Res with a form of its forward term."""
    return f"bi-res-{agent}(0.2)" + " forward_successor=own" * (successor == "own") + " fresh_action" * fresh


NOISY_TASKS = ("cartpole-swingup", "Hopper")
"""Simulators that are quick to ask for second successors."""
NOISES = (0.0, 0.1, 0.3)
"""σ of the noise on actions, which lie in [−1, 1]."""
BRIEF: dict[str, Any] = {
    "protocol": "modern",
    "steps": 100_000,
    "warmup": 1_000,
    "tau": 5e-3,
    "eval_every": 5_000,
    "eval_episodes": 5,
}
"""A tenth of the paper's steps, with a warm-up and target networks that suit them."""
NOISY_KINDS: dict[str, dict[str, Any]] = {
    "": {"algorithm": ("ddpg", "bi-res-ddpg", "res-ddpg"), "eta": (0.05, 0.2)},
    "-double": {"algorithm": ("double-res-ddpg",), "planning_eta": (0.2,), "model": "oracle"},
    "-qrc": {"algorithm": ("qrc-ddpg",)},
}
"""Suffix → a population. What only some members need (a simulator to ask, an estimate of the error) all members of a
population wait for, so these have their own. Without noise a second successor is the first."""
TRUST = 1.0
"""σ_Q of the adaptive η: models that disagree by so much about a successor's value halve it. On HalfCheetah three of
them disagree by 0.6 to 1.7 (results/adaptive-laptop, where σ_Q = 10 left η almost as it was)."""
ADAPTIVE: dict[str, Any] = BRIEF | {
    "algorithm": ("ddpg", "res-dyna-ddpg"),
    "planning_eta": (0.05, 0.2),
    "planning_trust": (0.0, TRUST),
    "model": "learned",
    "ensemble": 3,
}
GAMES = tuple(f"MinAtar/{game}" for game in CHANNELS)
GAME_KINDS: dict[str, dict[str, Any]] = {
    "": {"algorithm": ("dqn", "bi-res-dqn", "convergent-dqn", "minto-dqn"), "eta": (0.05,)},
    "-qrc": {"algorithm": ("qrc-dqn",)},
    "-double": {"algorithm": ("dqn",), "double_q": True},
}
SMALL_GAMES: dict[str, Any] = {"protocol": "modern", "steps": 500_000, "eval_every": 25_000, "eval_episodes": 10}
BRIEF_GAMES: dict[str, Any] = {"hidden": (128,), "epsilon_steps": 12_500}
"""For a laptop: the games' own small network, and an ε that falls within a quarter of the steps."""


def noisy_claims() -> tuple[Claim, ...]:
    """Whether residual updates help at each level of noise, and whether a second successor mends what noise does."""
    return tuple(
        at_noise(noise, claim)
        for noise in NOISES
        for claim in (
            gain("bi-res-ddpg(0.05)"),
            gain("res-ddpg(0.2)"),
            gain("qrc-ddpg"),
            *((gain("double-res-ddpg(0.2)"), better("double-res-ddpg(0.2)", "res-ddpg(0.2)")) if noise else ()),
        )
    )


BEYOND: dict[str, Study] = {
    "modern": Study(
        "beyond the paper: do residual updates help TD3 and SAC, and critics with layer normalisation?",
        modern_parts(),
        seeds=5,
        beyond=True,
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
        beyond=True,
        figure="effects",
        claims=(
            *(gain(forward(agent, *form)) for agent in ("td3", "sac") for form in SUCCESSORS),
            *(
                better(forward(agent, *form), forward(agent, "min", False))
                for agent in ("td3", "sac")
                for form in (("own", False), ("min", True))
            ),
        ),
    ),
    "stochastic": Study(
        "beyond the paper: one and two successor samples, and QRC, where actions are disturbed",
        tuple(
            Part(NOISY_TASKS, BRIEF | kind | {"disturb": noise}, f"{suffix}-noise-{noise:g}")
            for noise in NOISES
            for suffix, kind in NOISY_KINDS.items()
            if noise or suffix != "-double"
        ),
        seeds=5,
        beyond=True,
        figure="effects",
        claims=noisy_claims(),
    ),
    "adaptive": Study(
        "beyond the paper: η of imagined updates, fixed or smaller where learned models disagree",
        (Part(("HalfCheetah", "Swimmer"), ADAPTIVE),),
        seeds=5,
        beyond=True,
        figure="curves",
        claims=tuple(
            better(f"res-dyna-ddpg(0.2) planning_trust={TRUST:g}", over, task)
            for task in ("HalfCheetah", "Swimmer")
            for over in (*(f"res-dyna-ddpg({eta:g}) planning_trust=0" for eta in (0.2, 0.05)), "ddpg")
        ),
    ),
    "minatar": Study(
        "beyond the paper: DQN, Double DQN and the rules' rivals on MinAtar's five games",
        tuple(Part(GAMES, SMALL_GAMES | kind, suffix) for suffix, kind in GAME_KINDS.items()),
        seeds=5,
        beyond=True,
        figure="effects",
        claims=(
            *(gain(f"{rule}-dqn") for rule in ("convergent", "minto", "qrc")),
            gain("bi-res-dqn(0.05)"),
            better("dqn double_q", "dqn"),
        ),
        scaled={"laptop": BRIEF_GAMES},
    ),
}
