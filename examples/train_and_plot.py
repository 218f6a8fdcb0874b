"""Train a population and draw its learning curves: DDPG, and Bi-Res-DDPG with two η, three seeds each."""

import matplotlib.pyplot as plt
import numpy as np

import bires

TASK = "Pendulum-v1"
STEPS = 2_000
SEEDS = 3
OUT = "runs/train-and-plot"

run = bires.train(
    TASK,
    algorithm=["ddpg", "bi-res-ddpg"],
    eta=[0.05, 0.2],  # several values make a grid; DDPG has no η and appears once
    seeds=SEEDS,
    steps=STEPS,
    warmup=STEPS // 4,
    eval_every=STEPS // 4,
    eval_episodes=3,
    hidden=(64, 64),
    out=OUT,
)

table = run.evaluations  # one row per member and evaluation
kinds = table["kind"]  # such as ddpg or bi-res-ddpg(0.05)
figure, axes = plt.subplots()
for kind in dict.fromkeys(kinds.tolist()):
    chosen = kinds == kind
    steps = np.unique(table["step"][chosen])
    returns = [table["return_mean"][chosen & (table["step"] == step)].mean() for step in steps]
    axes.plot(steps, returns, label=kind)
axes.set(xlabel="environment steps", ylabel=f"mean return of {SEEDS} seeds", title=TASK)
axes.legend()
figure.savefig(f"{OUT}/my-curves.png")
plt.close(figure)
print(f"{OUT}/my-curves.png")
