"""One CPU device per core and one compilation cache for the whole session, as in a user's process."""

import pytest

from bires.machine import hardware

hardware.prepare()
hardware.FLOPS_FOR_SEVERAL_COHORTS = 0.0
"""Populations of tests are small; they are split all the same, as real ones are."""


@pytest.fixture
def quick():
    """Settings of a run that takes seconds."""
    return {
        "steps": 60,
        "warmup": 20,
        "eval_every": 30,
        "eval_episodes": 1,
        "batch": 8,
        "replay": 50,
        "hidden": (16, 16),
        "log_every": 10,
        "quiet": True,
    }
