"""Time a plain PyTorch transcription of DDPG (rule `td`) and Bi-Res-DDPG (rule `bi`) on walker-stand."""

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from harness import BATCH, CAPACITY, HIDDEN, LEARNING_STARTS, make_env, parse_request, prepare, run
from torch import Tensor, nn

if TYPE_CHECKING:
    import gymnasium

ACTOR_RATE, CRITIC_RATE = 1e-4, 1e-3
GAMMA, TAU, ETA = 0.99, 1e-3, 0.05
OU_THETA, OU_SIGMA, OU_DT = 0.15, 0.2, 0.01


def linear(inputs: int, outputs: int, scale: float = 1.0) -> nn.Linear:
    """A layer with orthogonal weights and zero biases."""
    layer = nn.Linear(inputs, outputs)
    nn.init.orthogonal_(layer.weight, gain=scale)
    nn.init.zeros_(layer.bias)
    return layer


class Actor(nn.Module):  # type: ignore[misc]
    """mu(s)."""

    def __init__(self, observation: int, action: int) -> None:
        super().__init__()
        self.first = linear(observation, HIDDEN[0])
        self.second = linear(HIDDEN[0], HIDDEN[1])
        self.last = linear(HIDDEN[1], action, scale=1e-3)

    def forward(self, s: Tensor) -> Tensor:
        """tanh keeps the action within ±1."""
        return torch.tanh(self.last(torch.relu(self.second(torch.relu(self.first(s))))))


class Critic(nn.Module):  # type: ignore[misc]
    """Q(s, a)."""

    def __init__(self, observation: int, action: int) -> None:
        super().__init__()
        self.first = linear(observation, HIDDEN[0])
        self.second = linear(HIDDEN[0] + action, HIDDEN[1])
        self.last = linear(HIDDEN[1], 1, scale=1e-3)

    def forward(self, s: Tensor, a: Tensor) -> Tensor:
        """The action enters at the second layer."""
        features = torch.relu(self.first(s))
        return self.last(torch.relu(self.second(torch.cat([features, a], dim=1)))).squeeze(1)


@dataclass(frozen=True)
class Networks:
    """mu and Q, once online and once as targets."""

    actor: Actor
    critic: Critic
    target_actor: Actor
    target_critic: Critic


@dataclass(frozen=True)
class Batch:
    """Transitions (s, a, r, s'); the discount is γ, or 0 at an end."""

    s: Tensor
    a: Tensor
    r: Tensor
    discount: Tensor
    s_next: Tensor


def td_loss(networks: Networks, batch: Batch) -> Tensor:
    """DDPG: ½ (r + γ m succ- − pred)²."""
    with torch.no_grad():
        target_succ = networks.target_critic(batch.s_next, networks.target_actor(batch.s_next))
    pred = networks.critic(batch.s, batch.a)
    return (0.5 * (batch.r + batch.discount * target_succ - pred).square()).mean()


def bi_loss(networks: Networks, batch: Batch) -> Tensor:
    """Bi-Res-DDPG: a loss whose gradient is δ_b (−∇pred) + δ_f η γ m ∇succ.

    δ_b = r + γ m succ- − pred and δ_f = r + γ m succ − pred-; each critic sees both ends in one stacked batch.
    """
    ends = torch.cat([batch.s, batch.s_next])
    with torch.no_grad():
        actions = torch.cat([batch.a, networks.actor(batch.s_next)])
        target_actions = torch.cat([batch.a, networks.target_actor(batch.s_next)])
        target_pred, target_succ = networks.target_critic(ends, target_actions).chunk(2)
    pred, succ = networks.critic(ends, actions).chunk(2)
    with torch.no_grad():
        backward = batch.r + batch.discount * target_succ - pred
        forward = batch.r + batch.discount * succ - target_pred
    return (ETA * batch.discount * forward * succ - backward * pred).mean()


LOSSES = {"td": td_loss, "bi": bi_loss}


def build(observation: int, action: int) -> Networks:
    """Fresh online networks, and targets equal to them."""
    actor, critic = Actor(observation, action), Critic(observation, action)
    return Networks(actor, critic, copy.deepcopy(actor), copy.deepcopy(critic))


def sample(replay: np.ndarray, filled: int, widths: tuple[int, ...], rng: np.random.Generator) -> Batch:
    """A uniform batch: rows are packed (s, a, r, discount, s'), so that one look-up fetches all of it."""
    rows = torch.from_numpy(replay[rng.integers(filled, size=BATCH)])
    s, a, r, discount, s_next = rows.split(widths, dim=1)
    return Batch(s, a, r.squeeze(1), discount.squeeze(1), s_next)


def training(env: "gymnasium.Env[Any, Any]", rule: str, seed: int) -> Iterator[None]:
    """One environment step, then (after the random start) one update of critic, actor and targets; for ever."""
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    loss = LOSSES[rule]
    s, _ = env.reset(seed=seed)
    observation, action = s.size, int(np.prod(env.action_space.shape or ()))
    networks = build(observation, action)
    actor_parameters, critic_parameters = list(networks.actor.parameters()), list(networks.critic.parameters())
    online = actor_parameters + critic_parameters
    targets = [*networks.target_actor.parameters(), *networks.target_critic.parameters()]
    actor_optimiser = torch.optim.Adam(actor_parameters, lr=ACTOR_RATE, fused=True)
    critic_optimiser = torch.optim.Adam(critic_parameters, lr=CRITIC_RATE, fused=True)

    widths = (observation, action, 1, 1, observation)
    replay = np.zeros((CAPACITY, sum(widths)), np.float32)
    noise = np.zeros(action, np.float32)
    step = 0
    while True:
        if step < LEARNING_STARTS:
            a = rng.uniform(-1.0, 1.0, action).astype(np.float32)
        else:
            with torch.no_grad():
                mu = networks.actor(torch.from_numpy(s)).numpy()
            noise += -OU_THETA * noise * OU_DT + OU_SIGMA * OU_DT**0.5 * rng.standard_normal(action, np.float32)
            a = np.clip(mu + noise, -1.0, 1.0)
        s_next, r, terminated, truncated, _ = env.step(a)
        ended = terminated or truncated  # the paper takes the time limit for an end
        replay[step % CAPACITY] = np.concatenate([s, a, [r, 0.0 if ended else GAMMA], s_next])
        s = s_next
        if ended:
            s, _ = env.reset()
            noise[:] = 0.0
        step += 1

        if step > LEARNING_STARTS:
            batch = sample(replay, min(step, CAPACITY), widths, rng)
            critic_optimiser.zero_grad()
            loss(networks, batch).backward()
            critic_optimiser.step()

            actor_optimiser.zero_grad()
            value = networks.critic(batch.s, networks.actor(batch.s)).mean()
            (-value).backward(inputs=actor_parameters)
            actor_optimiser.step()

            with torch.no_grad():
                torch._foreach_lerp_(targets, online, TAU)
        yield


def main() -> None:
    """A plain PyTorch DDPG and Bi-Res-DDPG with the paper's sizes and numbers."""
    request = parse_request(main.__doc__ or "", rules=("td", "bi"))
    prepare(request.threads)
    torch.set_num_threads(request.threads)
    stepper = training(make_env(), request.rule, request.seed)

    def train(steps: int) -> None:
        for _ in range(steps):
            next(stepper)

    run("torch", train, request, ("torch",))


if __name__ == "__main__":
    main()
