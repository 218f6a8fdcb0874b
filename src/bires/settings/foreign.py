"""Names of settings in other libraries (Stable-Baselines3, CleanRL, …), and what they are called here."""

from __future__ import annotations

from collections.abc import Container

TASK = "task"
ELSEWHERE: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("learning_rate", "lr"), ("critic_lr", "actor_lr")),
    **dict.fromkeys(("q_lr", "critic_learning_rate"), ("critic_lr",)),
    **dict.fromkeys(("policy_lr", "actor_learning_rate"), ("actor_lr",)),
    **dict.fromkeys(("total_timesteps", "n_timesteps", "num_timesteps", "max_steps"), ("steps",)),
    **dict.fromkeys(("n_envs", "num_envs"), ("seeds", "workers")),
    **dict.fromkeys(("env_id", "env", "env_name"), (TASK,)),
    **dict.fromkeys(("algo", "algos"), ("algorithm",)),
    **dict.fromkeys(("num_seeds", "n_seeds"), ("seeds",)),
    **dict.fromkeys(("batch_size", "minibatch_size"), ("batch",)),
    **dict.fromkeys(("buffer_size", "replay_size", "memory_size"), ("replay",)),
    **dict.fromkeys(("learning_starts", "start_steps", "start_timesteps"), ("warmup",)),
    **dict.fromkeys(("train_freq", "train_frequency", "train_every"), ("update_every",)),
    **dict.fromkeys(("eval_freq", "eval_frequency", "eval_interval"), ("eval_every",)),
    **dict.fromkeys(("n_eval_episodes", "num_eval_episodes"), ("eval_episodes",)),
    **dict.fromkeys(("net_arch", "hidden_sizes", "hidden_dims"), ("hidden",)),
    **dict.fromkeys(("discount", "discount_factor"), ("gamma",)),
    **dict.fromkeys(("log_interval", "log_freq"), ("log_every",)),
    **dict.fromkeys(("save_freq", "save_every"), ("keep_every",)),
    "target_network_frequency": ("target_every",),
    "target_update_interval": ("target_every",),
    "normalize_observations": ("normalise_observations",),
}
"""A name elsewhere → those here."""
WORDS = {
    "seeds": "--seeds (more members, each with an environment of its own)",
    "workers": "--workers (processes that step the environments)",
}
FURTHER = ("seeds", "workers", "keep_every")
"""What a command accepts beside the settings of a run."""


def instead_of(name: str, known: Container[str]) -> str | None:
    """What to type in place of another library's name, among the known settings; None: it is no such name."""
    here = [mine for mine in ELSEWHERE.get(name, ()) if mine in known or mine in FURTHER]
    if not here:
        return None
    flag = "--" + name.replace("_", "-")
    if here == [TASK]:
        return f"{flag} is not a setting here: the task comes first, without a name, as in `bires train CartPole-v1`."
    words = " and ".join(WORDS.get(mine, "--" + mine.replace("_", "-")) for mine in here)
    return f"{flag} is not a setting here; use {words}."
