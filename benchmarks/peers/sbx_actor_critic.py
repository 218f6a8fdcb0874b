"""Time DDPG, TD3 or SAC of SBX (Stable-Baselines3 in JAX) on walker-stand."""

from functools import partial

from harness import ACTOR_CRITICS, CAPACITY, LEARNING_STARTS, make_env, parse_request, prepare, run


def main() -> None:
    """The library's own classes and defaults, except for the sizes that all peers share."""
    request = parse_request(main.__doc__ or "", agents=ACTOR_CRITICS)
    prepare(request.threads)  # jax reads its flags when it starts
    import sbx
    import torch

    torch.set_num_threads(request.threads)  # its replay buffer is that of Stable-Baselines3
    hidden, batch = ACTOR_CRITICS[request.agent]
    model = getattr(sbx, request.agent.upper())(
        "MlpPolicy",
        make_env(),
        buffer_size=CAPACITY,
        learning_starts=LEARNING_STARTS,
        batch_size=batch,
        train_freq=1,
        gradient_steps=1,
        policy_kwargs={"net_arch": list(hidden)},
        seed=request.seed,
        verbose=0,
    )
    train = partial(model.learn, reset_num_timesteps=False, log_interval=None)
    run("sbx", train, request, ("sbx-rl", "stable-baselines3", "jax", "jaxlib", "flax", "optax", "torch"))


if __name__ == "__main__":
    main()
