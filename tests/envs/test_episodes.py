"""What ends an episode for a learner."""

import numpy as np
import pytest

from bires.envs.episodes import is_end


@pytest.mark.parametrize(
    ("terminated", "truncated", "life_lost", "modern", "paper"),
    [
        (False, False, False, False, False),
        (True, False, False, True, True),
        (False, True, False, False, True),
        (True, True, False, True, True),
        (False, False, True, True, True),
        (False, True, True, True, True),
    ],
)
def test_the_protocol_decides_what_an_end_is(terminated, truncated, life_lost, modern, paper):
    flags = [np.array([flag]) for flag in (terminated, truncated, life_lost)]
    assert is_end("modern", *flags).tolist() == [modern]
    assert is_end("paper", *flags).tolist() == [paper]


def test_what_comes_back_does_not_share_memory_with_what_was_given():
    terminated = np.array([True, False])
    ends = is_end("modern", terminated, np.zeros(2, bool))
    terminated[:] = False
    assert ends.tolist() == [True, False]
