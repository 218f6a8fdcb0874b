"""Load a run, play its policy in a plain Gymnasium loop, and record the returns."""

import csv

import gymnasium

import bires

TASK = "Pendulum-v1"
STEPS = 2_000
EPISODES = 3
OUT = "runs/evaluate-policy"

quick = {"warmup": STEPS // 4, "eval_every": STEPS, "eval_episodes": 1, "hidden": (64, 64)}
bires.train(TASK, algorithm="bi-res-ddpg", steps=STEPS, out=OUT, **quick)

run = bires.load(OUT)  # any run folder, also one that was copied from elsewhere
policy = run.policy(member=0)  # noise-free, from the newest checkpoint
env = gymnasium.make(TASK)

with open(f"{OUT}/my-returns.csv", "w", newline="") as file:
    rows = csv.writer(file)
    rows.writerow(["episode", "return", "length"])
    for episode in range(EPISODES):
        observation, _ = env.reset(seed=episode)
        total, length, ended = 0.0, 0, False
        while not ended:
            observation, reward, terminated, truncated, _ = env.step(policy(observation))
            total, length, ended = total + float(reward), length + 1, terminated or truncated
        rows.writerow([episode, total, length])
        print(f"episode {episode}: return {total:.1f} in {length} steps")
env.close()
