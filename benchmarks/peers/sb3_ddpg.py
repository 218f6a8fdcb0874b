"""Time DDPG of Stable-Baselines3 (PyTorch) on walker-stand."""

from functools import partial

from harness import BATCH, CAPACITY, HIDDEN, LEARNING_STARTS, make_env, parse_request, prepare, run


def main() -> None:
    """The library's own DDPG class and defaults, except for the sizes that all peers share."""
    request = parse_request(main.__doc__ or "")
    prepare(request.threads)
    import torch
    from stable_baselines3 import DDPG

    torch.set_num_threads(request.threads)
    model = DDPG(
        "MlpPolicy",
        make_env(),
        buffer_size=CAPACITY,
        learning_starts=LEARNING_STARTS,
        batch_size=BATCH,
        train_freq=1,
        gradient_steps=1,
        policy_kwargs={"net_arch": list(HIDDEN)},
        seed=request.seed,
        device="cpu",
        verbose=0,
    )
    train = partial(model.learn, reset_num_timesteps=False, log_interval=None)
    run("sb3", train, request, ("stable-baselines3", "torch"))


if __name__ == "__main__":
    main()
