"""Train on an environment of your own: register it in a module, and name the task MODULE:ID."""

import gymnasium
import numpy as np
from gymnasium import spaces

STEPS = 2_000


class Trolley(gymnasium.Env):
    """A trolley on a rail, pushed by the action, that should come to rest in the middle."""

    observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)
    action_space = spaces.Box(-2.0, 2.0, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state = self.np_random.uniform(-1.0, 1.0, 2)  # all chance comes from here: the seed decides the episode
        return self.state.astype(np.float32), {}

    def step(self, action):
        place, speed = self.state
        speed += 0.05 * float(action[0])
        self.state = np.array([place + 0.05 * speed, speed])
        ended = bool(abs(place) > 2.0)  # a true end; the time limit below is none
        return self.state.astype(np.float32), 1.0 - abs(place) - 0.1 * abs(speed), ended, False, {}


if "Trolley-v0" not in gymnasium.registry:  # this file is read twice: as the script, and as the module of MODULE:ID
    gymnasium.register("Trolley-v0", entry_point="own_environment:Trolley", max_episode_steps=50)

if __name__ == "__main__":
    import bires

    quick = {"warmup": STEPS // 4, "eval_every": STEPS // 2, "eval_episodes": 3, "hidden": (32, 32)}
    run = bires.train("own_environment:Trolley-v0", steps=STEPS, seeds=2, out="runs/own-environment", **quick)
    print(run.evaluations["return_mean"])
