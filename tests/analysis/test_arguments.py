"""What statistics accept: matrices, lists of rows; and clear errors for everything else."""

from typing import Any

import numpy as np
import pytest

from bires.analysis import intervals, statistics
from bires.errors import UserError

BASE = [[1.0, 2.0], [2.0, 3.0], [3.0, 5.0]]
OTHER = [[2.0, 3.0], [4.0, 4.0], [5.0, 9.0]]
ANY: Any = statistics
FRONT: Any = intervals


def test_lists_are_as_good_as_arrays():
    arrays = np.array(BASE), np.array(OTHER)
    for name in ("improvement", "average_improvement", "probability"):
        assert getattr(ANY, name)(BASE, OTHER, paired=True) == getattr(ANY, name)(*arrays, paired=True)
    for name in ("improvements", "mean_difference", "iqm_difference", "probability_of_improvement"):
        np.testing.assert_array_equal(getattr(ANY, name)(BASE, OTHER), getattr(ANY, name)(*arrays))
    assert ANY.iqm(BASE) == statistics.iqm(arrays[0])
    assert ANY.auc(BASE).tolist() == [3.0, 5.0, 8.0]
    assert ANY.mean_and_error(BASE)[0].tolist() == [2.0, pytest.approx(10 / 3)]
    assert ANY.profile(BASE, [0.0, 2.5]).tolist() == [1.0, 0.5]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            lambda: ANY.improvement([1.0, 2.0], [2.0, 3.0]),
            r"base was given an array of shape \(2,\); accepted: 2 or more",
        ),
        (
            lambda: ANY.mean_difference(BASE, [[1.0], [2.0]]),
            r"base and other .* shapes \(3, 2\) and \(2, 1\); accepted: the same",
        ),
        (lambda: ANY.improvement(BASE, [[1.0, 2.0]], paired=True), "paired was given for 3 and 1 runs of task 0"),
        (lambda: ANY.improvement(BASE, OTHER, paired=np.array([True])), r"paired was given an array of shape \(1,\)"),
        (lambda: ANY.iqm([[1.0, 2.0], [3.0]]), r"scores was given \[\[1.0, 2.0\], \[3.0\]\]; accepted: numbers"),
        (lambda: ANY.median("abc"), "scores was given 'abc'; accepted: numbers"),
        (lambda: ANY.auc(3.0), r"curves was given an array of shape \(\); accepted: 1 or more axes\."),
        (lambda: ANY.divergence_rate(3, 2), "diverged was given 3 of 2 members"),
        (lambda: FRONT.estimate(ANY.mean, [1.0, 2.0]), r"sample 1 was given an array of shape \(2,\)"),
    ],
)
def test_what_is_no_matrix_is_refused(call, words):
    with pytest.raises(UserError, match=words):
        call()
