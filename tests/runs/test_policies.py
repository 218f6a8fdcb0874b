"""Policies of a run: what is one observation, what are several, and what is neither."""

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

import bires
from tests.envs.test_discrete_observations import Shown
from tests.helpers import QUICK


def board():
    env: Any = Shown(spaces.Box(-1.0, 1.0, (2, 3)), np.ones((2, 3), np.float32), np.zeros((2, 3), np.float32))
    env.action_space = spaces.Box(-1.0, 1.0, (1,))
    return env


def test_an_observation_that_is_no_vector_is_one_observation(tmp_path):
    policy = bires.train(f"{__name__}:board", out=tmp_path / "run", **QUICK).policy(0)
    seen, _ = board().reset()
    assert policy(seen).shape == policy(seen.ravel()).shape == (1,)
    assert policy(seen[None]).shape == policy(seen.reshape(1, 6)).shape == (1, 1)
    with pytest.raises(bires.UserError, match=r"an observation of .*, 6 numbers of shape \(2, 3\), or several"):
        policy(seen[0])


def test_pictures_with_their_channels_last_are_refused(tmp_path):
    """As MinAtar gives them; taken for channels first they are another picture."""
    pytest.importorskip("minatar")
    policy = bires.train("MinAtar/Breakout", out=tmp_path / "run", **QUICK).policy(0)
    picture = np.zeros((4, 10, 10), np.uint8)
    assert policy(picture).shape == policy(picture.ravel()).shape == ()
    assert policy(picture[None]).shape == policy(picture.reshape(1, -1)).shape == (1,)
    for turned in (picture.transpose(1, 2, 0), picture.transpose(1, 2, 0)[None]):
        with pytest.raises(bires.UserError, match=r"400 numbers of shape \(4, 10, 10\), or several"):
            policy(turned)
