"""Compare two algorithms on the same seeds and print the improvement of the area under the learning curve."""

import numpy as np

import bires
from bires.analysis.intervals import estimate
from bires.analysis.statistics import auc, mean

TASK = "Pendulum-v1"
STEPS = 2_000
SEEDS = 5

run = bires.compare(
    TASK,
    seeds=SEEDS,
    steps=STEPS,
    warmup=STEPS // 4,
    eval_every=STEPS // 4,
    eval_episodes=3,
    hidden=(64, 64),
    out="runs/compare-paired",
)


def curves(algorithm: str) -> np.ndarray:
    """(seeds × evaluations), in the order of the seeds."""
    table = run.evaluations
    returns = table["return_mean"][table["algorithm"] == algorithm]
    return returns[np.lexsort([table[c][table["algorithm"] == algorithm] for c in ("step", "seed")])].reshape(SEEDS, -1)


base, other = auc(curves("ddpg")), auc(curves("bi-res-ddpg"))
gains = (other - base) / abs(base.mean())  # each seed against itself
for seed, gain in enumerate(gains):
    print(f"seed {seed}: {gain:+.1%}")
print(f"bi-res-ddpg over ddpg on {TASK}: {estimate(mean, gains[:, None])} (95 % interval over {SEEDS} paired seeds)")
