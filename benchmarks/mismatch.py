"""The mismatch of imagined states, on a task small enough for a laptop: how wrong model and critic are, by horizon.

    python benchmarks/mismatch.py                # trains for a few minutes, then writes table and figures
    python benchmarks/mismatch.py --draw         # only draws what is in results/mismatch.csv

From states that a trained policy visits, the same noisy actions are taken k steps in the simulator and in the learned
model. The critic is asked at both ends, and its answer is compared with the discounted return that the policy then
really collects from the simulator's end.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np

import bires
from bires.analysis.figures import COLOURS, DASHES
from bires.envs.adapter import Environment
from bires.planning import fitting
from bires.population.state import shapes
from bires.runs.arrays import unflatten
from bires.runs.policies import newest_checkpoint
from bires.runs.run import Run
from bires.settings.options import Options
from bires.settings.recipes import recipe_of
from bires.training.plan import Plan, make_plan

ROOT = Path(__file__).parents[1]
TABLE, FIGURES = ROOT / "results" / "mismatch.csv", ROOT / "docs" / "figures" / "mismatch"
TASK = "cartpole-swingup"
SETTINGS: dict[str, Any] = {
    "algorithm": ["ddpg", "dyna-ddpg", "res-dyna-ddpg"],
    "model": "learned",
    "model_scale": "small",
    "seeds": 4,
    "steps": 12_000,
    "warmup": 1_000,
    "eval_every": 4_000,
    "eval_episodes": 2,
    "hidden": (128, 128),
    "tau": 5e-3,
    "actor_lr": 3e-4,
}
ENDS = {"true": "at the simulator's state", "imagined": "at the model's state"}
HORIZON, STARTS, EVERY, FUTURE, NOISE = 6, 40, 20, 400, 0.1
"""Steps ahead; states per member; steps between them; steps of a return; standard deviation of the actions' noise."""


@dataclass(frozen=True)
class Row:
    """Root mean square errors of one member, k steps ahead."""

    algorithm: str
    seed: int
    steps_ahead: int
    observation_error: float
    """Of the imagined observation, in units of the observation's spread."""
    value_error_true: float
    """Of Q(s, μ(s)) at the state that the simulator reached."""
    value_error_imagined: float
    """Of Q(ŝ, μ(ŝ)) at the state that the model reached instead."""
    value: float
    """Mean return from there, for scale."""


class Mind:
    """A member: its policy, its critic and its model."""

    def __init__(self, run: Run, plan: Plan, member: int) -> None:
        shape = shapes(plan.program, 1)
        arrays = {k.removeprefix("state/"): v for k, v in newest_checkpoint(run.path).arrays.items()}
        state = unflatten(shape._replace(storage=None), arrays, np.array([member]))
        learner, model = jax.tree.map(lambda leaf: jax.numpy.asarray(leaf[0]), (state.learner, state.model))
        agent, learning = plan.program.agent, plan.program.learning
        assert learning is not None
        predict = jax.jit(fitting.predict(learning, model))
        value = jax.jit(lambda seen: agent.value(learner, seen, agent.greedy(learner, seen)))
        act = jax.jit(lambda seen: agent.greedy(learner, seen))
        self.act: Callable[[np.ndarray], np.ndarray] = lambda seen: np.asarray(act(seen[None]))[0]
        self.value: Callable[[np.ndarray], float] = lambda seen: float(value(seen[None])[0])
        self.imagine: Callable[[np.ndarray, np.ndarray], np.ndarray] = lambda seen, action: np.asarray(
            predict(seen[None], action[None])[1]
        )[0]


def collected(environment: Environment, mind: Mind, state: np.ndarray, seen: np.ndarray, gamma: float) -> float:
    """The discounted return of the policy from a physics state, over as many steps as matter."""
    physics = environment.physics()
    assert physics is not None
    physics.write(state)
    total, weight = 0.0, 1.0
    for _ in range(FUTURE):
        outcome = environment.step(mind.act(seen))
        total, weight, seen = total + weight * outcome.reward, weight * gamma, outcome.observation
    return total


def visited(environment: Environment, mind: Mind, rng: np.random.Generator) -> list[tuple[np.ndarray, np.ndarray]]:
    """(physics state, observation) pairs that the policy, with its noise, comes across."""
    found: list[tuple[np.ndarray, np.ndarray]] = []
    while len(found) < STARTS:
        seen = environment.reset(int(rng.integers(2**31)))
        physics = environment.physics()
        assert physics is not None
        for step in range(min(500, EVERY * (STARTS - len(found)))):
            if step % EVERY == 0:
                found.append((physics.read().copy(), seen))
            seen = environment.step(noisy(mind.act(seen), rng)).observation
    return found


def noisy(action: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return np.clip(action + NOISE * rng.standard_normal(action.shape), -1, 1).astype(np.float32)


def measure(run: Run, plan: Plan, member: int) -> list[Row]:
    """Model and critic of one member against the simulator."""
    rng, gamma = np.random.default_rng(member), plan.members[member].gamma
    mind, environment = Mind(run, plan, member), recipe_of(run.config).build()
    starts = visited(environment, mind, rng)
    spread = np.std([seen for _, seen in starts], axis=0) + 1e-6
    errors = np.zeros((len(starts), HORIZON + 1, 4))
    for i, (state, seen) in enumerate(starts):
        physics = environment.physics()
        assert physics is not None
        guess = seen
        for ahead in range(HORIZON + 1):
            real = collected(environment, mind, state, seen, gamma)
            distance = float(np.sqrt(np.mean(((guess - seen) / spread) ** 2)))
            errors[i, ahead] = distance, mind.value(seen) - real, mind.value(guess) - real, real
            action = noisy(mind.act(seen), rng)
            physics.write(state)
            guess, seen = mind.imagine(guess, action), environment.step(action).observation
            state = physics.read().copy()
    environment.close()
    who = plan.members[member]
    rms = np.sqrt(np.mean(errors**2, axis=0))
    return [
        Row(who.label, who.seed, ahead, *(float(f"{x:.6g}") for x in (*rms[ahead, :3], errors[:, ahead, 3].mean())))
        for ahead in range(HORIZON + 1)
    ]


def draw(rows: list[dict[str, str]]) -> None:
    """Two figures: the model's error against the horizon, and the critic's at true and at imagined states."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    kinds = list(dict.fromkeys(row["algorithm"] for row in rows))
    ahead = sorted({int(row["steps_ahead"]) for row in rows})

    def curve(kind: str, column: str) -> tuple[np.ndarray, np.ndarray]:
        cells = [
            [float(r[column]) for r in rows if r["algorithm"] == kind and int(r["steps_ahead"]) == k] for k in ahead
        ]
        table = np.array(cells)
        return table.mean(1), table.std(1, ddof=1) / np.sqrt(table.shape[1])

    FIGURES.mkdir(parents=True, exist_ok=True)
    plt.rcParams.update({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False})
    figure, axis = plt.subplots(figsize=(5, 3.2), layout="constrained")
    for kind, colour, dash in zip(kinds, COLOURS, DASHES, strict=False):
        mean, error = curve(kind, "observation_error")
        axis.errorbar(ahead, mean, error, color=colour, linestyle=dash, capsize=2, label=kind)
    axis.set(xlabel="steps ahead", ylabel="error of the imagined state\n(in spreads of the state)", title=TASK)
    axis.legend(frameon=False)
    figure.savefig(FIGURES / "model-error.png", dpi=130)
    figure, axes = plt.subplots(1, len(kinds), figsize=(9, 3.2), sharey=True, layout="constrained")
    for axis, kind in zip(axes, kinds, strict=True):
        for (column, label), colour, dash in zip(ENDS.items(), COLOURS, DASHES, strict=False):
            mean, error = curve(kind, f"value_error_{column}")
            axis.errorbar(ahead, mean, error, color=colour, linestyle=dash, capsize=2, label=label)
        axis.set(xlabel="steps ahead", title=kind)
    axes[0].set(ylabel="error of Q(s, μ(s))")
    axes[0].legend(frameon=False)
    figure.savefig(FIGURES / "value-error.png", dpi=130)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draw", action="store_true", help="only draw the figures")
    parser.add_argument(
        "--out", type=Path, default=ROOT / "runs" / "mismatch", help="the run, trained if it is not there"
    )
    given = parser.parse_args()
    if not given.draw:
        run = bires.train(TASK, **SETTINGS, out=given.out)
        plan = make_plan(run.config, Options(workers=0))
        rows = [row for member in plan.members for row in measure(run, plan, member.member)]
        with TABLE.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(asdict(rows[0])), lineterminator="\n")
            writer.writeheader()
            writer.writerows(asdict(row) for row in rows)
    with TABLE.open() as file:
        draw(list(csv.DictReader(file)))
    print(TABLE, *sorted(FIGURES.iterdir()), sep="\n")


if __name__ == "__main__":
    main()
