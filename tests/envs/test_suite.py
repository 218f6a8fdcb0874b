"""The shorter way through DMControl gives what DMControl gives."""

import math
from itertools import product

import numpy as np
import pytest
from dm_control import suite as dmcontrol
from dm_control.rl.control import PhysicsError
from dm_control.utils import rewards

from bires.envs import suite

suite.shorten_rewards()
SHORT, USUAL = rewards.tolerance, rewards.tolerance.__wrapped__
SIGMOIDS = ("gaussian", "hyperbolic", "long_tail", "reciprocal", "cosine", "linear", "quadratic", "tanh_squared")


@pytest.mark.parametrize("sigmoid", SIGMOIDS)
def test_tolerance_of_a_number_has_the_same_bits(sigmoid):
    drawn = np.random.default_rng(0).normal(0.0, 2.0, 300)
    numbers = [*drawn, *drawn.tolist(), 0.0, 1.0, math.inf, -math.inf, math.nan, np.float64(-0.0)]
    bounds = [(0.0, 0.0), (-0.5, 1.0), (1.0, math.inf), (-math.inf, -0.3)]
    with np.errstate(all="ignore"):
        for x, bound, margin, value in product(numbers, bounds, (0.0, 0.5, 2), (0.1, 0.9)):
            one = SHORT(x, bounds=bound, margin=margin, sigmoid=sigmoid, value_at_margin=value)
            other = USUAL(x, bounds=bound, margin=margin, sigmoid=sigmoid, value_at_margin=value)
            assert type(one) is type(other) is float
            assert np.float64(one).tobytes() == np.float64(other).tobytes(), (x, bound, margin, value)


@pytest.mark.parametrize("sigmoid", SIGMOIDS)
def test_tolerance_of_arrays_around_zero_has_the_same_bits(sigmoid):
    drawn = np.random.default_rng(0).normal(0.0, 2.0, 300)
    x = np.array([*drawn, 0.0, -0.0, 1.0, 1e-320, math.inf, -math.inf, math.nan])
    with np.errstate(all="ignore"):
        for margin, value, kind in product((0.0, 0.5, 2), (0.1, 0.9), (float, np.float32)):
            given = {"margin": margin, "sigmoid": sigmoid, "value_at_margin": value}
            one, other = SHORT(x.astype(kind), **given), USUAL(x.astype(kind), **given)
            assert one.dtype == other.dtype
            assert one[:-1].tobytes() == other[:-1].tobytes(), given
            assert np.array_equal(one, other, equal_nan=True)


def test_tolerance_of_arrays_is_dmcontrols():
    x = np.linspace(-2.0, 2.0, 9)
    assert np.array_equal(SHORT(x, (0.0, 1.0), 0.5), USUAL(x, (0.0, 1.0), 0.5))
    assert SHORT(x[:1].reshape(()), (0.0, 1.0), 0.5).shape == ()


@pytest.mark.parametrize("arguments", [{"bounds": (1.0, 0.0)}, {"margin": -1.0}, {"margin": 1.0, "sigmoid": "none"}])
def test_tolerance_refuses_what_dmcontrol_refuses(arguments):
    with pytest.raises(ValueError, match=r"bound|margin|sigmoid"):
        SHORT(3.0, **arguments)


def test_tolerance_is_replaced_once():
    suite.shorten_rewards()
    assert rewards.tolerance is SHORT


@pytest.mark.parametrize(("domain", "task"), [("cheetah", "run"), ("acrobot", "swingup")])  # Euler and Runge-Kutta
def test_a_simulation_advances_in_the_same_way(domain, task):
    usual, ours = (dmcontrol.load(domain, task, {"random": 3}) for _ in range(2))
    suite.shorten_step(ours.physics)
    rng = np.random.default_rng(0)
    for _ in range(2):
        usual.reset()
        ours.reset()
        for nstep in (1, 2, 5):
            control = rng.uniform(-1, 1, usual.action_spec().shape)
            for physics in (usual.physics, ours.physics):
                physics.set_control(control)
                physics.step(nstep)
            for array in ("qpos", "qvel", "qacc", "xpos", "sensordata", "time"):
                one, other = (np.asarray(getattr(env.physics.data, array)) for env in (usual, ours))
                assert one.tobytes() == other.tobytes(), (array, nstep)


@pytest.mark.filterwarnings("ignore:The 'warn' function is deprecated")
def test_a_simulation_that_is_lost_raises_dmcontrols_error():
    usual, ours = (dmcontrol.load("cheetah", "run", {"random": 3}) for _ in range(2))
    suite.shorten_step(ours.physics)
    said = []
    for env in (usual, ours):
        env.reset()
        env.physics.data.qvel[:] = np.nan
        with env.physics.suppress_physics_errors():
            env.physics.step()
        env.reset()  # clears the count of warnings
        env.physics.data.qvel[:] = np.nan
        with pytest.raises(PhysicsError) as raised:
            env.physics.step()
        said.append((str(raised.value), env.physics.data.warning.number.tolist()))
        env.reset()
        env.physics.step()
    assert said[0] == said[1]
    assert sum(said[0][1]) == 1
