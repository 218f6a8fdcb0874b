"""Stop members that no longer improve: a callback is called after each evaluation."""

import bires

STEPS = 2_000
PATIENCE = 2
"""Evaluations without a better one."""


def without_progress(evaluation):
    """The members whose best evaluation is PATIENCE ago. They are read from the run: if resumed, it decides alike."""
    curves = evaluation.run.evaluations
    for member, value in evaluation.returns.items():
        print(f"step {evaluation.step}: member {member} has {value:.1f}")
        returns = curves["return_mean"][curves["member"] == member].tolist()
        if len(returns) - 1 - returns.index(max(returns)) >= PATIENCE:
            yield member


quick = {"warmup": STEPS // 4, "eval_every": STEPS // 4, "eval_episodes": 2, "hidden": (32, 32), "seeds": 2}
run = bires.train("cartpole-balance", steps=STEPS, out="runs/early-stopping", callback=without_progress, **quick)
for member in run.members.rows():
    print(member["member"], member["status"], member["stopped_at"])
