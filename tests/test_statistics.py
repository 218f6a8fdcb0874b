"""Statistics against hand-worked cases."""

import numpy as np
import pytest

from bires.statistics import auc, improvement, improvement_interval, mean_and_error

BASE = np.array([[1.0, 2.0, 3.0], [1.0, 2.0, 5.0]])  # AUC 6 and 8: mean 7
OTHER = np.array([[2.0, 3.0, 4.0], [2.0, 3.0, 7.0]])  # AUC 9 and 12: mean 10.5


def test_hand_worked():
    assert auc(BASE).tolist() == [6.0, 8.0]
    assert improvement(BASE, OTHER) == pytest.approx(0.5)
    mean, error = mean_and_error(BASE)
    assert mean.tolist() == [1.0, 2.0, 4.0]
    assert error.tolist() == pytest.approx([0.0, 0.0, 1.0])  # std (ddof 1) √2 over √2


def test_interval_holds_the_value_and_its_ends_are_possible_ratios():
    found = improvement_interval(BASE, OTHER)
    assert found.low < found.value < found.high
    assert found.low >= 9 / 8 - 1 - 1e-12
    assert found.high <= 12 / 6 - 1 + 1e-12
    assert found == improvement_interval(BASE, OTHER)


def test_a_negative_base_counts_by_its_size():
    assert improvement(-BASE, -BASE / 2) == pytest.approx(0.5)


def test_one_run_has_no_interval():
    found = improvement_interval(BASE[:1], OTHER[:1])
    assert np.isnan(found.low)
    assert np.isnan(found.high)
