"""Replay of pixels against a naive one that keeps every transition whole."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from bires.population import frames, replay
from bires.types import Pixels, Space, Transition

SPACE = Space(4 * 2 * 3, 1, (0.0,), (1.0,), choices=2, pixels=Pixels(4, 2, 3))
write = jax.jit(replay.write, static_argnums=0)
sample = jax.jit(frames.sample, static_argnums=(0, 4))


class Stream:
    """One member's life: frames with unique contents, episodes of the given lengths, ended or cut off."""

    def __init__(self, seed, episodes, mortality=0.2):
        self.rng, self.episodes, self.mortality = np.random.default_rng(seed), list(episodes), mortality
        self.begin()

    def frame(self):
        return self.rng.integers(0, 256, 6).astype(np.uint8)

    def begin(self):
        self.length, self.ends = self.episodes[0]
        self.episodes = self.episodes[1:] + self.episodes[:1]
        self.stack, self.first = [self.frame()] * 4, True

    def step(self, number):
        """(observation, first, action, reward, discount, true successor); rewards number the steps."""
        observation, first = np.concatenate(self.stack), self.first
        self.stack, self.first = [*self.stack[1:], self.frame()], False
        successor = np.concatenate(self.stack)
        self.length -= 1
        lost_life = self.rng.random() < self.mortality
        discount = 0.0 if lost_life or (self.length == 0 and self.ends) else 1.0
        cut = self.length == 0 and discount == 1.0
        if self.length == 0:
            self.begin()
        return observation, first, float(number % 2), float(number), discount, successor, cut


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    capacity=st.sampled_from([9, 13, 32]),
    steps=st.integers(2, 90),
    lengths=st.lists(st.tuples(st.integers(2, 12), st.booleans()), min_size=1, max_size=4),
)
def test_stacks_are_those_of_a_naive_replay(seed, capacity, steps, lengths):
    """Over random episode lengths, ends, lost lives, time limits and wraps of the ring: every field of every sample."""
    streams = [Stream(seed, lengths), Stream(seed + 1, lengths[::-1])]
    storage, naive = frames.init(SPACE, 2, capacity), list[Any]()
    for clock in range(steps):
        made = [stream.step(clock) for stream in streams]
        naive.append(made)
        observation, first, action, reward, discount, successor, _ = (np.stack(x) for x in zip(*made, strict=True))
        row = Transition(*map(jnp.asarray, (observation, action[:, None], reward, discount, successor)))
        storage = write(SPACE, storage, row, jnp.asarray(first), clock)
    for member in range(2):
        mine = jax.tree.map(lambda ring, m=member: ring[m], storage)
        found = jax.tree.map(np.asarray, sample(SPACE, jax.random.key(seed), mine, steps - 1, 64))
        allowed = range(max(0, steps - 1 - (capacity - 4)), steps - 1)
        seen = set()
        for i, number in enumerate(found.reward.astype(int)):
            observation, _, action, reward, discount, successor, cut = naive[number][member]
            assert number in allowed
            seen.add(number)
            np.testing.assert_array_equal(found.observation[i], observation)
            assert (found.action[i, 0], found.reward[i]) == (action, reward)
            if cut:  # only where every draw was cut off, as in a ring full of cut steps
                assert found.discount[i] == 0.0
                continue
            assert found.discount[i] == discount
            if discount:
                np.testing.assert_array_equal(found.next_observation[i], successor)
        if len(allowed) <= 4:
            assert seen == {n for n in allowed if not naive[n][member][-1]} or any(naive[n][member][-1] for n in seen)


def test_every_step_that_is_not_cut_off_is_drawn_equally_often():
    """Episodes of five steps, cut off by a time limit: four of five steps can be learnt from."""
    stream, storage = Stream(3, [(5, False)], mortality=0.0), frames.init(SPACE, 1, 64)
    for clock in range(150):
        observation, first, action, reward, discount, successor, _ = stream.step(clock)
        row = Transition(*(jnp.asarray(x)[None] for x in (observation, [action], reward, discount, successor)))
        storage = write(SPACE, storage, row, jnp.array([first]), clock)
    mine = jax.tree.map(lambda ring: ring[0], storage)
    found = np.asarray(sample(SPACE, jax.random.key(0), mine, 149, 100_000).reward).astype(int)
    counts = np.bincount(found, minlength=150)[149 - 60 : 149]
    cut = (np.arange(149 - 60, 149) + 1) % 5 == 0
    assert np.all(counts[cut] < 100_000 * 0.2**4)
    np.testing.assert_allclose(counts[~cut] / 100_000, 1 / np.sum(~cut), rtol=0.12)


def test_a_million_frames_take_less_than_7_2_gigabytes():
    game = Space(4 * 84 * 84, 1, (0.0,), (3.0,), choices=4, pixels=Pixels(4, 84, 84))
    shapes = jax.eval_shape(lambda: frames.init(game, 1, 10**6))
    assert sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(shapes)) <= 7.2e9
