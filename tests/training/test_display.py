"""Speed and time left, as they are shown."""

import pytest

from bires.settings import grid
from bires.settings.keywords import make_config
from bires.settings.options import Progress
from bires.training.display import Meter, line


def meter(clock, **settings):
    config = make_config("pendulum-swingup", {"algorithm": "ddpg", "seed": (0, 1)} | settings)
    return Meter(config, grid.members(config), lambda: clock[0])


def progress(step, evaluated=False):
    return Progress(step, 10_000, {0: 1.0, 1: 3.0}, {}, evaluated)


def test_the_speed_of_the_warm_up_does_not_count_for_updates():
    clock = [0.0]
    shown = meter(clock, steps=10_000, warmup=2000)
    shown.numbers(progress(0))
    clock[0] = 1.0
    warm = shown.numbers(progress(2000))
    assert (warm["steps_per_second"], warm["updates_per_second"], warm["seconds_left"]) == (4000, 0, None)
    assert "left" not in line(warm)
    clock[0] = 11.0  # from here on 100 steps a second of each of two members
    assert shown.numbers(progress(3000))["steps_per_second"] == pytest.approx(200)
    clock[0] = 21.0
    found = shown.numbers(progress(4000))
    assert found["updates_per_second"] == pytest.approx(200)
    assert found["seconds_left"] == 60
    assert found["returns"] == {"ddpg": 2.0}


def test_the_time_left_counts_evaluations_and_the_speed_does_not():
    clock = [0.0]
    shown = meter(clock, steps=10_000, warmup=1)
    shown.numbers(progress(0))
    for step in range(1000, 5000, 1000):
        clock[0] += 10.0
        shown.numbers(progress(step))
        clock[0] += 5.0
        found = shown.numbers(progress(step, evaluated=True))
    assert found["steps_per_second"] == pytest.approx(200)
    assert found["seconds_left"] == pytest.approx(6 * 15, abs=15)
