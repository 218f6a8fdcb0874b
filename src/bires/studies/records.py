"""The studies: one short record per figure of the paper; `beyond` has the questions that it does not ask."""

from __future__ import annotations

from bires.envs.families import ATARI
from bires.envs.tasks import DMCONTROL, MUJOCO
from bires.studies.beyond import BEYOND
from bires.studies.claims import (
    best_eta,
    better,
    fails,
    mean_gain,
    median_gain,
    not_better,
    similar,
    steadier,
    wins,
)
from bires.studies.study import Part, Study

ETAS = (0.0, 0.05, 0.1, 0.2, 0.4, 0.8, 1.0)
RESIDUAL = ("bi-res-ddpg", "res-ddpg", "to-res-ddpg", "ot-res-ddpg", "tt-res-ddpg")
PLANNERS = ("ddpg", "dyna-ddpg", "res-dyna-ddpg", "mve-ddpg")


MODEL_FREE = {"algorithm": ("ddpg", "bi-res-ddpg"), "eta": (0.05,)}

EXTRA_CURVE = {"algorithm": ("res-dyna-ddpg",), "planning_eta": (0.05,), "model": "learned"}

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
            similar("to-res-ddpg(0)", "bi-res-ddpg(0)", same=True),
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
    **BEYOND,
    "linear": Study(
        "the policy-evaluation lab: every claim of the paper's section 3, measured (about a minute)",
        (),
        seeds=0,
        figure="lab",
    ),
}
