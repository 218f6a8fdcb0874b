"""Learned models: the loss, what they can fit, and how their error is measured."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from bires.agents import optimisers
from bires.errors import UserError
from bires.planning import fitting
from bires.planning import models as network
from bires.planning.models import SCALES, ModelScale
from bires.population import replay, updates
from bires.population.program import hypers, make_program
from bires.population.state import CohortState
from bires.settings import grid
from bires.settings.keywords import make_config
from bires.settings.options import Options
from bires.training.plan import make_plan
from bires.types import Space, Transition

SPACE = Space(3, 2, (-1.0, -1.0), (1.0, 1.0))
TINY = ModelScale((32,), (16,), batch=64, updates=1, normalised=True)


def linear_system(rng, count):
    """s' = s + 0.1 (A s + B a), r = c · [s, a]."""
    A, B, c = rng.normal(size=(3, 3)), rng.normal(size=(3, 2)), rng.normal(size=5)
    s, a = rng.uniform(-1, 1, (count, 3)), rng.uniform(-1, 1, (count, 2))
    rows = (s, a, np.concatenate([s, a], 1) @ c, np.ones(count), s + 0.1 * (s @ A.T + a @ B.T))
    return Transition(*(jnp.asarray(x, jnp.float32) for x in rows))


def test_a_model_fits_a_linear_system_to_a_thousandth():
    """One step ahead, on fresh data: root mean square error of state and reward below 1e-3 of their spread."""
    rng = np.random.default_rng(0)
    data = linear_system(rng, 6000)
    fresh = jax.tree.map(lambda x: x[5000:], data)
    scale = ModelScale((64,), (64,), batch=64, updates=1, normalised=True, clip=100.0)

    @jax.jit
    def run(ensemble, key, rate):
        def once(ensemble, key):
            index = jax.random.randint(key, (1, scale.batch), 0, 5000)
            rows = jax.tree.map(lambda x: x[index], data)
            return network.update(ensemble, replace(scale, learning_rate=rate), rows, jnp.array(True))

        return jax.lax.scan(once, ensemble, jax.random.split(key, 1500))[0]

    ensemble = network.init(rng, SPACE, scale, 1)
    for i in range(8):
        ensemble = run(ensemble, jax.random.key(i), 1e-2 * 0.4**i)
    reward, following = network.predict(ensemble, True, fresh.observation, fresh.action)
    for found, true, spread in (
        (following, fresh.next_observation, float(jnp.std(fresh.next_observation))),
        (reward, fresh.reward, float(jnp.std(fresh.reward))),
    ):
        assert float(jnp.sqrt(jnp.mean((found - true) ** 2))) < 1e-3 * spread


def test_a_gaussian_model_recovers_a_known_noise_and_draws_it():
    """s' = s + 0.1 a + σ(s) ε with σ = 0.1 exp(s₀), r = s₀ + 0.1 ε: spreads within 15 %, of the draws, too."""
    rng, count = np.random.default_rng(0), 10_000
    s, a = rng.uniform(-1, 1, (count, 3)), rng.uniform(-1, 1, (count, 2))
    spread = 0.1 * np.exp(s[:, :1])
    following = s + 0.1 * a[:, :1] + spread * rng.normal(size=(count, 3))
    rows = (s, a, s[:, 0] + 0.1 * rng.normal(size=count), np.ones(count), following)
    data = Transition(*(jnp.asarray(x, jnp.float32) for x in rows))
    scale = ModelScale((32,), (16,), batch=256, updates=1, normalised=True, gaussian=True)

    @jax.jit
    def run(ensemble, rate):
        def once(step, ensemble):
            index = jax.random.randint(jax.random.key(step), (2, scale.batch), 0, count)
            batch = jax.tree.map(lambda x: x[index], data)
            return network.update(ensemble, replace(scale, learning_rate=rate), batch, jnp.array(True))[0]

        return jax.lax.fori_loop(0, 800, once, ensemble)

    ensemble = run(run(network.init(rng, SPACE, scale, 2), 3e-3), 3e-4)
    for place in (-0.5, 0.5):
        here = jnp.tile(jnp.array([place, 0.0, 0.0]), (4000, 1)), jnp.zeros((4000, 2))
        reward, drawn = network.sample(ensemble, True, jax.random.key(1), *here)
        np.testing.assert_allclose(drawn.std(0), 0.1 * np.exp(place), rtol=0.15)
        np.testing.assert_allclose(reward.std(), 0.1, rtol=0.15)
        mean = network.predict(ensemble, True, *here)
        np.testing.assert_allclose(drawn.mean(0), mean[1][0], atol=0.02)
        np.testing.assert_allclose(mean[1][0], here[0][0], atol=0.03)


def test_a_deterministic_model_has_one_head():
    one, two = (network.init(np.random.default_rng(0), SPACE, replace(TINY, gaussian=g), 1) for g in (False, True))
    assert [model.networks.change[-1].bias.shape for model in (one, two)] == [(1, 3), (1, 6)]
    assert [model.networks.reward[-1].bias.shape for model in (one, two)] == [(1, 1), (1, 2)]


def test_the_papers_model_has_the_papers_numbers():
    scale = SCALES["paper"]
    assert scale == ModelScale((512,) * 8, (128,) * 4, 1024, 4, normalised=False, learning_rate=1e-3, clip=0.5)
    found = network.init(np.random.default_rng(0), SPACE, ModelScale((16,) * 8, (8,) * 4, 4, 1, False), 2)
    assert [layer.weight.shape for layer in found.networks.change] == [(2, 5, 16), *[(2, 16, 16)] * 7, (2, 16, 3)]
    assert [layer.weight.shape for layer in found.networks.reward] == [(2, 5, 8), *[(2, 8, 8)] * 3, (2, 8, 1)]
    square = found.networks.change[1].weight[0]
    np.testing.assert_allclose(square.T @ square, np.eye(16), atol=1e-5)
    assert not np.array_equal(found.networks.change[0].weight[0], found.networks.change[0].weight[1])


@pytest.mark.parametrize("normalised", [False, True])
def test_an_update_is_the_papers_loss_clipped_and_taken_by_adam(normalised):
    rng = np.random.default_rng(1)
    scale = ModelScale((8,), (4,), batch=16, updates=1, normalised=normalised)
    ensemble = network.init(rng, SPACE, scale, 1)
    batch = linear_system(rng, 16)
    update = jax.jit(network.update, static_argnums=1)
    found, losses = update(ensemble, scale, jax.tree.map(lambda x: x[None], batch), jnp.array(True))
    rows = np.concatenate([batch.observation, batch.next_observation - batch.observation, batch.reward[:, None]], 1)
    mean, spread = (rows.mean(0), rows.std(0)) if normalised else (np.zeros(7), np.ones(7))

    def loss(networks):
        x = jnp.concatenate([(batch.observation - mean[:3]) / spread[:3], batch.action], 1)
        h, g = jax.nn.relu(x @ networks.change[0].weight), jax.nn.relu(x @ networks.reward[0].weight)
        change, reward = h @ networks.change[1].weight, (g @ networks.reward[1].weight)[:, 0]
        goal, r = (rows[:, 3:6] - mean[3:6]) / spread[3:6], (rows[:, 6] - mean[6]) / spread[6]
        return jnp.mean(0.5 * jnp.sum((change - goal) ** 2, 1) + 0.5 * (reward - r) ** 2)

    one = jax.tree.map(lambda x: x[0], ensemble.networks)
    value, gradient = jax.jit(jax.value_and_grad(loss))(one)
    assert float(losses[0]) == pytest.approx(float(value), rel=1e-5)
    chain = optax.chain(optax.clip_by_global_norm(0.5), optax.adam(1e-3))
    change, _ = jax.jit(chain.update)(gradient, chain.init(one))
    expected = optax.apply_updates(one, change)
    for name in ("change", "reward"):
        for a, b in zip(getattr(found.networks, name), getattr(expected, name), strict=True):
            np.testing.assert_allclose(a.weight[0], b.weight, atol=1e-6)


def test_clipping_is_by_the_norm_of_the_whole():
    gradient = {"a": jnp.array([3.0]), "b": jnp.array([4.0])}
    length = optimisers.norm(gradient)
    assert optimisers.clip_norm(gradient, length, 0.5)["b"] == pytest.approx(0.4)
    assert optimisers.clip_norm(gradient, length, 50.0)["b"] == 4.0


def test_moments_are_those_of_all_that_was_seen():
    rng = np.random.default_rng(2)
    data = linear_system(rng, 300)
    moments = network.RowMoments(jnp.zeros(()), jnp.zeros(7), jnp.zeros(7))
    for part in (slice(0, 10), slice(10, 150), slice(150, 300)):
        moments = network.observe(moments, jax.tree.map(lambda x, part=part: x[part], data))
    rows = np.concatenate([data.observation, data.next_observation - data.observation, data.reward[:, None]], 1)
    np.testing.assert_allclose(moments.mean, rows.mean(0), atol=1e-5)
    np.testing.assert_allclose(np.sqrt(moments.squares / moments.rows), rows.std(0), rtol=1e-4)


def storage_of(rows, capacity):
    """A ring in which step number t wrote row t."""
    storage = np.zeros((capacity, rows.shape[1]), np.float32)
    for t, row in enumerate(rows):
        storage[t % capacity] = row
    return jnp.asarray(storage)


def episode(rng, ensemble, lengths):
    """Rows of episodes under random actions, and each row's true successors."""
    rows = []
    for length in lengths:
        s = rng.normal(size=3)
        for _ in range(length):
            following, a = s + rng.normal(size=3), rng.uniform(-1, 1, 2)
            rows.append(np.concatenate([s, a, rng.normal(size=1), [1.0], following]))
            s = following
    return np.array(rows, np.float32)


@pytest.mark.parametrize("capacity", [100, 9])
def test_errors_by_horizon_are_those_of_a_plain_loop(capacity):
    rng = np.random.default_rng(3)
    learning = fitting.Learning(SPACE, TINY, 2, horizon=3, start=4)
    state = fitting.init(rng, learning)
    rows = episode(rng, state.ensemble, (6, 2, 7))
    predict = jax.jit(fitting.predict(learning, state))
    sums, counts, reward_sum, steps = np.zeros(3), np.zeros(3), 0.0, range(4, 15)
    breaks = (6, 8)
    tally = state.tally

    @jax.jit
    def score(state, storage, clock):
        return fitting.score(learning, state, fitting.Memory(partial(replay.at, SPACE, storage), len(storage), clock))

    for clock in steps:
        storage = storage_of(rows[: clock + 1], capacity)
        tally = score(state._replace(tally=tally), storage, jnp.int32(clock))
        for h in (1, 2, 3):
            begin = clock - h + 1
            if any(begin < b <= clock for b in breaks):
                continue
            s = rows[begin : begin + 1, :3]
            for t in range(begin, clock + 1):
                r, s = predict(jnp.asarray(s), jnp.asarray(rows[t : t + 1, 3:5]))
            sums[h - 1] += np.mean((np.asarray(s)[0] - rows[clock, 7:]) ** 2)
            counts[h - 1] += 1
            if h == 1:
                reward_sum += float((r[0] - rows[clock, 5]) ** 2)
    np.testing.assert_allclose(tally.errors, sums, rtol=1e-4)
    np.testing.assert_array_equal(tally.windows, counts)
    named = dict(zip(fitting.columns(learning), fitting.summary(learning, tally), strict=True))
    assert named["model_error_2"] == pytest.approx(np.sqrt(sums[1] / counts[1]), rel=1e-4)
    assert (named["model_disagreement"] or 0.0) > 0
    assert float(tally.reward_error) == pytest.approx(reward_sum, rel=1e-3)


@pytest.mark.parametrize(("capacity", "clock"), [(100, 40), (30, 40)])
def test_the_newest_transitions_are_not_trained_on(capacity, clock):
    """What is scored must be fresh: the positions drawn never hold the newest three steps, and hold all others."""
    memory = fitting.Memory(partial(replay.at, SPACE, jnp.zeros((capacity, 1))), capacity, jnp.int32(clock))
    drawn = set(np.asarray(fitting.older(jax.random.key(0), (5000,), 3, memory)).tolist())
    oldest = max(0, clock + 1 - capacity)
    assert drawn == {t % capacity for t in range(oldest, clock - 2)}


def test_a_replay_without_a_row_to_train_on_is_refused():
    """Models leave out the newest transitions. With fewer in all they trained on the very newest, again and again."""
    settings = {"algorithm": "dyna-ddpg", "model": "learned", "model_scale": "small", "hidden": (8, 8), "steps": 100}
    config = make_config("Pendulum-v1", settings | {"warmup": 20, "batch": 4, "replay": fitting.HELD_OUT})
    with pytest.raises(UserError, match=r"--replay was given 10; accepted with learned models: .* from 11"):
        make_plan(config, Options(workers=0))
    assert make_plan(replace(config, replay=fitting.HELD_OUT + 1), Options(workers=0)).program.learning is not None


def test_how_models_learn_does_not_depend_on_the_horizons_of_others():
    def learning(*horizons):
        config = make_config("Pendulum-v1", {"algorithm": "mve-ddpg", "model": "learned", "horizon": horizons})
        made = make_program(config, grid.members(config), SPACE, 100).learning
        assert made is not None
        return made.held_out, made.start

    assert learning(3) == learning(3, 10) == learning(1)
    assert learning(12)[0] == 12, "what is scored must not have been trained on"


def test_an_update_that_is_not_finite_is_noticed_and_not_taken():
    rng = np.random.default_rng(4)
    learning = fitting.Learning(SPACE, TINY, 1, horizon=1, start=2)
    state = fitting.init(rng, learning)
    rows = replay.pack(jax.tree.map(np.asarray, linear_system(rng, 20)))
    bad = jnp.asarray(rows).at[:15, 5].set(jnp.inf)

    @jax.jit
    def fit(rows):
        memory = fitting.Memory(partial(replay.at, SPACE, rows), 20, jnp.int32(19))
        return fitting.fit(learning, state, jax.random.key(0), memory, jnp.array(True))

    found, ok = fit(bad)
    assert not ok
    np.testing.assert_array_equal(found.ensemble.networks.change[0].weight, state.ensemble.networks.change[0].weight)
    _, fine = fit(jnp.asarray(rows))
    assert fine


def test_a_model_that_is_not_finite_freezes_only_a_member_that_plans(monkeypatch):
    config = make_config("Pendulum-v1", {"algorithm": ["ddpg", "mve-ddpg", "dyna-ddpg"], "model": "learned"})
    members = grid.members(config)
    program = make_program(config, members, SPACE, 100)
    count = len(members)
    monkeypatch.setattr(fitting, "fit", lambda learning, model, key, memory, alive: (model, alive & False))
    state = CohortState(
        learner=None,
        storage=jnp.zeros((count, 100, 1)),
        observation=jnp.zeros(count),
        first=jnp.zeros(count),
        action=jnp.zeros(count),
        noise=None,
        key=jnp.zeros((count, 2), jnp.uint32),
        alive=jnp.ones(count, bool).at[-1].set(False),
        diverged_at=jnp.full(count, -1),
        sums=jnp.zeros(count),
        model=jnp.zeros(count),
    )
    found = updates.fit(program, state, hypers(program, members), jnp.int32(50))
    assert found.alive.tolist() == [True, False, False]
    assert found.diverged_at.tolist() == [-1, 51, -1]
