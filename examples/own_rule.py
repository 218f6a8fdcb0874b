"""Train a critic rule of your own beside DDPG's and the paper's, in one compiled program."""

import bires
from bires.rules import ONLINE, RULES, TARGET, Delta, Rule

STEPS = 2_000

RULES["bo"] = Rule(
    backward=Delta(pred=ONLINE, succ=TARGET),  # δ_b = r + γ Q⁻(s′, μ⁻(s′)) − Q(s, a), as in Bi-Res
    forward=Delta(pred=ONLINE, succ=ONLINE),  # δ_f = r + γ Q(s′, μ(s′)) − Q(s, a): no target network
    bidirectional=True,
)

run = bires.train(
    "Pendulum-v1",
    algorithm="ddpg",
    rule=["td", "bi", "bo"],
    eta=0.05,
    seeds=2,
    steps=STEPS,
    warmup=STEPS // 4,
    eval_every=STEPS // 2,
    eval_episodes=3,
    hidden=(64, 64),
    out="runs/own-rule",
)

last = run.evaluations["step"] == STEPS
for algorithm in ("ddpg", "bi-res-ddpg", "bo-ddpg"):
    returns = run.evaluations["return_mean"][last & (run.evaluations["algorithm"] == algorithm)]
    print(f"{algorithm}: {returns.mean():.0f}")
