"""Search for a learning rate with Optuna: trials that fall behind are pruned. Needs `pip install optuna`."""

import optuna

import bires

STEPS = 1_000
SEEDS = 2


def objective(trial):
    """The mean return of the last evaluation, over the seeds."""

    def report(evaluation):
        trial.report(sum(evaluation.returns.values()) / SEEDS, evaluation.step)
        return not trial.should_prune()  # False stops the run

    run = bires.train(
        "Pendulum-v1",
        critic_lr=trial.suggest_float("critic_lr", 1e-4, 1e-2, log=True),
        seeds=SEEDS,
        steps=STEPS,
        warmup=STEPS // 4,
        eval_every=STEPS // 4,
        eval_episodes=2,
        hidden=(32, 32),
        out=f"runs/prune-{trial.number}",
        callback=report,
        quiet=True,
    )
    if "stopped" in run.members["status"]:
        raise optuna.TrialPruned
    return run.evaluations["return_mean"][-SEEDS:].mean()


study = optuna.create_study(direction="maximize", pruner=optuna.pruners.MedianPruner(n_startup_trials=1))
study.optimize(objective, n_trials=3)
for trial in study.trials:
    print(trial.number, trial.params, trial.value, trial.state.name)
