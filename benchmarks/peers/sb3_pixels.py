"""Time the updates of Stable-Baselines3's DQN (PyTorch) on observations of an Atari game's size."""

from typing import Any

from harness import PIXEL_BATCH, PIXEL_CAPACITY, parse_request, prepare, run


def main() -> None:
    """The library's own DQN class with the Nature network, on a replay of random pixels; no emulator is stepped."""
    request = parse_request(main.__doc__ or "")
    prepare(request.threads)
    import gymnasium
    import numpy as np
    import torch
    from stable_baselines3 import DQN
    from stable_baselines3.common.logger import Logger

    class Pixels(gymnasium.Env[np.ndarray, Any]):
        observation_space = gymnasium.spaces.Box(0, 255, (84, 84, 4), np.uint8)
        action_space = gymnasium.spaces.Discrete(4)

        def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
            super().reset(seed=seed)
            return self.np_random.integers(0, 256, (84, 84, 4), np.uint8), {}

        def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
            return self.np_random.integers(0, 256, (84, 84, 4), np.uint8), 0.0, False, False, {}

    torch.set_num_threads(request.threads)
    model = DQN(
        "CnnPolicy",
        Pixels(),
        buffer_size=PIXEL_CAPACITY,
        batch_size=PIXEL_BATCH,
        learning_starts=PIXEL_CAPACITY,
        seed=request.seed,
        device="cpu",
        verbose=0,
    )
    model.learn(PIXEL_CAPACITY)
    model.set_logger(Logger(None, []))
    run("sb3 pixels", lambda count: model.train(count, PIXEL_BATCH), request, ("stable-baselines3", "torch"))


if __name__ == "__main__":
    main()
