"""Train TD3, SAC or CrossQ of Stable-Baselines3 or SBX and write down what its policy earns, to compare with ours.

Every number that the libraries' defaults disagree on is given here, so that all three train with the same settings.

    .venv-peers/bin/python benchmarks/peers/returns.py sbx sac Pendulum-v1 --steps 20000 --seeds 5
"""

import argparse
import csv
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness import prepare

if TYPE_CHECKING:
    import gymnasium

SETTINGS: dict[str, Any] = {
    "learning_rate": 3e-4,
    "buffer_size": 1_000_000,
    "learning_starts": 100,
    "batch_size": 256,
    "tau": 0.005,
    "gamma": 0.99,
    "train_freq": 1,
    "gradient_steps": 1,
    "policy_kwargs": {"net_arch": [256, 256]},
}
CROSSQ: dict[str, Any] = {"learning_rate": 1e-3}
"""What CrossQ has in place of these; its critics are as wide as its actor here."""
NOISE = 0.1
"""σ of TD3's Gaussian exploration noise, for actions in [−1, 1]."""
COLUMNS = ("library", "agent", "task", "seed", "step", "return_mean", "return_std", "episodes")


def make_env(task: str) -> "gymnasium.Env[Any, Any]":
    """A Gymnasium task, or one of DMControl as a flat float32 vector."""
    import gymnasium
    import numpy as np
    from gymnasium.wrappers import DtypeObservation, FlattenObservation

    if "-v" in task:
        return gymnasium.make(task)
    import shimmy

    gymnasium.register_envs(shimmy)
    return DtypeObservation(FlattenObservation(gymnasium.make(f"dm_control/{task}-v0")), np.float32)


def make_model(library: str, agent: str, task: str, seed: int) -> Any:
    """A fresh agent of a library."""
    import numpy as np
    from stable_baselines3.common.noise import NormalActionNoise

    env = make_env(task)
    size = int(np.prod(env.action_space.shape or ()))
    more: dict[str, Any] = SETTINGS | CROSSQ if agent == "crossq" else dict(SETTINGS)
    if agent == "crossq":
        del more["tau"]  # there are no target networks
    if agent == "td3":
        more["action_noise"] = NormalActionNoise(np.zeros(size), np.full(size, NOISE))
    if library == "sbx":
        import sbx as source
    else:
        import stable_baselines3 as source

        more["device"] = "cpu"
    kind = getattr(source, "CrossQ" if agent == "crossq" else agent.upper())
    return kind("MlpPolicy", env, seed=seed, verbose=0, **more)


def evaluations(model: Any, task: str, seed: int, steps: int, every: int, episodes: int) -> list[dict[str, Any]]:
    """Trains, and lets the noise-free policy play every so many steps."""
    from stable_baselines3.common.evaluation import evaluate_policy
    from stable_baselines3.common.monitor import Monitor

    judge, rows = Monitor(make_env(task)), []
    judge.reset(seed=10_000 + seed)
    for step in range(0, steps + 1, every):
        if step:
            model.learn(every, reset_num_timesteps=False, log_interval=None)
        mean, std = evaluate_policy(model, judge, episodes, deterministic=True)
        rows.append({"step": step, "return_mean": f"{mean:.6g}", "return_std": f"{std:.6g}", "episodes": episodes})
    return rows


def main() -> None:
    """Append one row per evaluation to OUT/LIBRARY-AGENT-TASK.csv; seeds that are there already are not run again."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("library", choices=("sb3", "sbx"))
    parser.add_argument("agent", choices=("td3", "sac", "crossq"))
    parser.add_argument("task", help="a Gymnasium id, or a DMControl task such as cartpole-swingup")
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--eval-every", type=int, default=None, help="default: a tenth of the steps")
    parser.add_argument("--eval-episodes", type=int, default=20)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("results/peers"))
    asked = parser.parse_args()
    prepare(asked.threads)
    import torch

    torch.set_num_threads(asked.threads)
    asked.out.mkdir(parents=True, exist_ok=True)
    path = asked.out / f"{asked.library}-{asked.agent}-{asked.task}.csv"
    done = set()
    if path.exists():
        with path.open() as file:
            done = {int(row["seed"]) for row in csv.DictReader(file)}
    for seed in sorted(set(range(asked.seeds)) - done):
        model = make_model(asked.library, asked.agent, asked.task, seed)
        every = asked.eval_every or asked.steps // 10
        rows = evaluations(model, asked.task, seed, asked.steps, every, asked.eval_episodes)
        name = {"library": asked.library, "agent": asked.agent, "task": asked.task, "seed": seed}
        fresh = not path.exists()
        with path.open("a", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            if fresh:
                writer.writeheader()
            writer.writerows(name | row for row in rows)
        print(f"{path.name} seed {seed}: {rows[-1]['return_mean']}", flush=True)


if __name__ == "__main__":
    main()
