"""Whether PyTorch's optimisers learn to foresee the next reward of Breakout in their first updates, as DQN with γ = 0.

.venv/bin/python benchmarks/peers/foresight.py record play.npz          # random play; needs bires[atari]
.venv-peers/bin/python benchmarks/peers/foresight.py rmsprop play.npz   # or adam; prints the loss every 500 updates
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np

STEPS, UPDATES, BATCH, EVERY = 12_000, 4_000, 32, 500


def record(path: Path) -> None:
    """Random play: what was seen, done and paid."""
    from bires.envs.atari import Atari

    game, rng = Atari("BreakoutNoFrameskip-v4", None, False), np.random.default_rng(0)
    seen, did, paid = [], [], []
    observation, _ = game.reset(seed=0)
    for step in range(STEPS):
        action = int(rng.integers(4))
        seen.append(observation)
        did.append(action)
        observation, reward, over, cut, _ = game.step(action)
        paid.append(np.sign(reward))
        if over or cut:
            observation, _ = game.reset(seed=step)
    np.savez(path, seen=np.array(seen), did=np.array(did), paid=np.array(paid, np.float32))


def learn(optimiser: str, path: Path) -> None:
    """The Nature network with the authors' initial weights, loss and clipping, and PyTorch's optimisers."""
    import torch
    from torch import nn

    torch.set_num_threads(1)
    torch.manual_seed(0)

    def layer(made: Any) -> Any:
        nn.init.orthogonal_(made.weight)
        nn.init.zeros_(made.bias)
        return made

    network = nn.Sequential(
        *(layer(nn.Conv2d(4, 32, 8, 4)), nn.ReLU(), layer(nn.Conv2d(32, 64, 4, 2)), nn.ReLU()),
        *(layer(nn.Conv2d(64, 64, 3, 1)), nn.ReLU(), nn.Flatten(), layer(nn.Linear(3136, 512)), nn.ReLU()),
        layer(nn.Linear(512, 4)),
    )
    weights = network.parameters()
    rule: Any = (
        torch.optim.RMSprop(weights, lr=2.5e-4, alpha=0.95, eps=0.01, centered=True)
        if optimiser == "rmsprop"
        else torch.optim.Adam(weights, lr=1e-4)
    )
    play, rng, losses = np.load(path), np.random.default_rng(0), []
    seen, did, paid = play["seen"], play["did"], play["paid"]
    for update in range(1, UPDATES + 1):
        rows = rng.integers(0, len(seen), BATCH)
        values = network(torch.from_numpy(seen[rows]).float() / 255)[torch.arange(BATCH), torch.from_numpy(did[rows])]
        loss = (torch.from_numpy(paid[rows]) - values).pow(2).mul(0.5).mean()
        rule.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(network.parameters(), 5)
        rule.step()
        losses.append(loss.item())
        if update % EVERY == 0:
            print(f"pytorch,{optimiser},{update},{np.mean(losses[-EVERY:]):.9g}", flush=True)


def main() -> None:
    """Record, or learn from what was recorded."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("record", "rmsprop", "adam"))
    parser.add_argument("path", type=Path)
    asked = parser.parse_args()
    if asked.what == "record":
        record(asked.path)
    else:
        learn(asked.what, asked.path)


if __name__ == "__main__":
    main()
