"""Time DQN of Stable-Baselines3 (PyTorch) on CartPole."""

from functools import partial

from harness import CAPACITY, DQN_BATCH, DQN_EVERY, DQN_HIDDEN, LEARNING_STARTS, parse_request, prepare, run


def main() -> None:
    """The library's own DQN class and defaults, except for the sizes that all peers share."""
    request = parse_request(main.__doc__ or "")
    prepare(request.threads)
    import torch
    from stable_baselines3 import DQN

    torch.set_num_threads(request.threads)
    model = DQN(
        "MlpPolicy",
        "CartPole-v1",
        buffer_size=CAPACITY,
        learning_starts=LEARNING_STARTS,
        batch_size=DQN_BATCH,
        train_freq=DQN_EVERY,
        gradient_steps=1,
        policy_kwargs={"net_arch": list(DQN_HIDDEN)},
        seed=request.seed,
        device="cpu",
        verbose=0,
    )
    train = partial(model.learn, reset_num_timesteps=False, log_interval=None)
    run("sb3", train, request, ("stable-baselines3", "torch"))


if __name__ == "__main__":
    main()
