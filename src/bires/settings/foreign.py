"""Names of settings in other libraries (Stable-Baselines3, CleanRL, …), and what they are called here."""

from __future__ import annotations

from collections.abc import Container

TASK, DEVICE, VIDEO, QUIET = "task", "device", "video", "quiet"
NETWORK, SAVING, PROJECT, STACK, ON_POLICY = "network", "saving", "project", "stack", "on_policy"
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
    **dict.fromkeys(("ent_coef", "entropy_coef", "init_temperature"), ("alpha",)),
    **dict.fromkeys(("target_policy_noise", "policy_noise"), ("smoothing",)),
    **dict.fromkeys(("target_noise_clip", "noise_clip"), ("smoothing_clip",)),
    **dict.fromkeys(("exploration_noise", "action_noise"), ("noise",)),
    **dict.fromkeys(("policy_frequency", "policy_freq"), ("policy_delay",)),
    **dict.fromkeys(("exploration_fraction", "exploration_steps"), ("epsilon_steps",)),
    **dict.fromkeys(("exploration_initial_eps", "start_e"), ("epsilon_start",)),
    **dict.fromkeys(("exploration_final_eps", "end_e"), ("epsilon_end",)),
    **dict.fromkeys(("n_critics", "num_critics"), ("critics",)),
    **dict.fromkeys(("optimizer", "optimizer_class"), ("optimiser",)),
    **dict.fromkeys(("track", "tensorboard_log", "wandb"), ("log",)),
    **dict.fromkeys(("output", "output_dir", "save_path"), ("out",)),
    **dict.fromkeys(("device", "cuda"), (DEVICE,)),
    **dict.fromkeys(("capture_video", "render"), (VIDEO,)),
    **dict.fromkeys(("lr_schedule", "learning_rate_schedule", "lr_decay", "anneal_lr"), ("lr_end", "lr_until")),
    **dict.fromkeys(("verbose", "verbosity", "progress_bar", "silent"), (QUIET,)),
    **dict.fromkeys(("exp_name", "run_name"), ("out",)),
    **dict.fromkeys(("gradient_steps", "utd", "utd_ratio", "replay_ratio", "updates_per_step"), ("update_times",)),
    **dict.fromkeys(("activation_fn", "activation_function"), ("activation",)),
    **dict.fromkeys(("policy", "policy_kwargs", "policy_type"), (NETWORK,)),
    **dict.fromkeys(("save_model", "upload_model"), (SAVING,)),
    **dict.fromkeys(("wandb_project", "wandb_project_name", "wandb_entity"), (PROJECT,)),
    **dict.fromkeys(("frame_stack", "n_stack"), (STACK,)),
    **dict.fromkeys(("n_steps", "num_steps", "n_epochs", "update_epochs", "num_minibatches"), (ON_POLICY,)),
    **dict.fromkeys(("gae_lambda", "clip_range", "clip_coef", "vf_coef", "target_kl"), (ON_POLICY,)),
    "target_network_frequency": ("target_every",),
    "target_update_interval": ("target_every",),
    "normalize_observations": ("normalise_observations",),
}
"""A name elsewhere → those here."""
INSTEAD = {
    TASK: "the task comes first, without a name, as in `bires train CartPole-v1`",
    DEVICE: "an accelerator is used where JAX finds one; the environment variable JAX_PLATFORMS=cpu says otherwise",
    QUIET: "progress is shown as it is; --quiet prints nothing",
    NETWORK: "networks have layers of --hidden units with --activation, after convolutions where pixels are seen",
    SAVING: "a run keeps its policies: `run.policy(0).save(…)` in Python, `bires export RUN --to hub`",
    PROJECT: "--log wandb goes where the environment variables of W&B say, such as WANDB_PROJECT",
    STACK: "Atari's frames are stacked by 4; for other tasks name a function that wraps yours, MODULE:FUNCTION",
    ON_POLICY: "it belongs to on-policy agents such as PPO; here are off-policy ones, see `bires list algorithms`",
    VIDEO: "`bires play RUN --video out.mp4` films a trained member",
}
"""What to do, where that is no other setting."""
WORDS = {
    "seeds": "--seeds (more members, each with an environment of its own)",
    "workers": "--workers (processes that step the environments)",
}
FURTHER = (
    "seeds",
    "out",
    "workers",
    "cohorts",
    "checkpoint_minutes",
    "keep_going",
    "keep_every",
    "callback",
    "log",
    QUIET,
)
"""What a command accepts beside the settings of a run."""


def instead_of(name: str, known: Container[str]) -> str | None:
    """What to type in place of another library's name, among the known settings; None: it is no such name."""
    here = [mine for mine in ELSEWHERE.get(name, ()) if mine in known or mine in FURTHER or mine in INSTEAD]
    if not here:
        return None
    flag = "--" + name.replace("_", "-")
    if here[0] in INSTEAD:
        return f"{flag} is not a setting here: {INSTEAD[here[0]]}."
    words = " and ".join(WORDS.get(mine, "--" + mine.replace("_", "-")) for mine in here)
    return f"{flag} is not a setting here; use {words}."
