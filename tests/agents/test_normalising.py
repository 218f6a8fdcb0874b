"""Normalised observations: the moments are right, kept, and used by policies."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bires
from bires.agents.normalising import apply, counted, nothing_seen
from bires.errors import UserError
from bires.runs.policies import newest_checkpoint
from bires.settings.keywords import make_config
from bires.settings.validation import validate
from tests.helpers import arrays, assert_same_moment, configured, straight_and_stopped

TASK = "tests.envs.test_arguments:bires-test/Far-v0"


def mean_of(state):
    """The first member's mean, from a checkpoint."""
    return sum(state[f"state/learner.moments.{part}"][0] for part in ("origin", "offset"))


def test_moments_are_those_of_numpy():
    rows = np.random.default_rng(0).normal([500.0, -3.0], [20.0, 0.1], (200, 2)).astype(np.float32)
    moments = nothing_seen(2)
    assert apply(moments, jnp.asarray(rows[0])).tolist() == rows[0].tolist(), "nothing is known yet"
    for row in rows:
        moments = counted(moments, jnp.asarray(row))
    np.testing.assert_allclose(moments.mean, rows.mean(0), rtol=1e-5)
    np.testing.assert_allclose(moments.variance, rows.var(0), rtol=1e-3)
    np.testing.assert_allclose(apply(moments, jnp.asarray(rows)), (rows - rows.mean(0)) / rows.std(0), atol=1e-2)
    assert apply(moments, jnp.array([1e6, 1e6])).tolist() == [10.0, 10.0]


@pytest.mark.parametrize("mean", [0.0, 100.0, -1e4])
def test_moments_do_not_drift_far_from_zero(mean):
    rows = np.random.default_rng(1).normal(mean, 1.0, (100_000, 1)).astype(np.float32)
    moments, _ = jax.lax.scan(lambda so_far, row: (counted(so_far, row), None), nothing_seen(1), jnp.asarray(rows))
    exact = rows.astype(float)
    assert float(moments.mean[0]) == pytest.approx(exact.mean(), abs=1e-3)
    assert float(moments.variance[0]) == pytest.approx(exact.var(), rel=1e-3)


@pytest.mark.parametrize("algorithm", ["td3", pytest.param("dqn", marks=pytest.mark.slow)])
def test_a_stopped_run_keeps_its_moments_bit_for_bit(quick, tmp_path, algorithm):
    arguments = {"discrete": algorithm == "dqn"}
    config = configured(quick, TASK, algorithm=algorithm, normalise_observations=True, env_kwargs=arguments)
    straight, stopped = straight_and_stopped(config, tmp_path, 2)
    assert_same_moment(straight, stopped, 50)
    state = newest_checkpoint(straight).arrays
    assert state["state/learner.moments.observations"].tolist() == [60.0]
    observed = next(a for name, a in sorted(arrays(straight).items()) if name.endswith("rows"))[0, :, :2]
    np.testing.assert_allclose(observed.mean(0), mean_of(state), rtol=0.05)


def test_a_policy_is_normalised(quick, tmp_path):
    run = bires.train(TASK, out=tmp_path / "run", **quick | {"normalise_observations": True, "workers": 0})
    kept = newest_checkpoint(run.path).arrays
    mean = mean_of(kept)
    near, far = run.policy(0)(np.stack([mean, mean + 1e9]))
    assert abs(near - far) > 0
    assert run.policy(0)(mean + 1e6) == pytest.approx(far), "beyond ten standard deviations all is the same"


def test_planners_and_pixels_are_refused():
    with pytest.raises(UserError, match="planners"):
        validate(make_config("walker-stand", {"algorithm": "dyna-ddpg", "normalise_observations": True}))
    with pytest.raises(UserError, match="pixels"):
        validate(make_config("Breakout", {"algorithm": "dqn", "normalise_observations": True}))
