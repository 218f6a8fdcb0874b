"""η that moves on a schedule or adapts: what members have, what is logged, and that runs with it are exact."""

import pytest

import bires
from bires.errors import UserError
from bires.settings import grid
from bires.settings.keywords import make_config
from bires.settings.validation import validate
from tests.helpers import TASK, assert_same_state, contents

SCHEDULE = {"eta": 0.4, "eta_end": 0.0, "eta_until": 40}


def test_a_schedule_belongs_to_members_that_read_eta():
    names = {"algorithm": ["ddpg", "bi-res-ddpg"], "eta": [0.2, 0.4], "eta_end": [0.0, 1.0], "eta_until": 20_000}
    config = make_config("Hopper", names)
    validate(config)
    found = grid.members(config)
    assert [member.label for member in found] == [
        "ddpg",
        *(f"bi-res-ddpg({eta}→{end})" for eta in (0.2, 0.4) for end in (0, 1)),
    ]
    assert found[0].schedule == {"eta_end": None, "eta_until": None}
    assert found[1].row()["eta_until"] == 20_000


def test_members_whose_eta_stays_have_no_schedule():
    assert [member.schedule for member in grid.members(make_config("Hopper", {"algorithm": "bi-res-ddpg"}))] == [{}]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"eta_end": 0.0}, "--eta-end was given alone.*Add --eta-until 100000"),
        ({"eta_until": 100}, "--eta-until was given alone.*Add --eta-end 0"),
        ({"eta_end": 2.0, "eta_until": 20_000}, "--eta-end was given 2; accepted: numbers from 0 to 1"),
        ({"eta_end": 0.0, "eta_until": 10_000}, "--eta-until was given 10000; accepted: steps after the warm-up"),
        ({"eta_end": [0.0, 0.0], "eta_until": 20_000}, "some twice"),
    ],
)
def test_half_a_schedule_is_refused(given, words):
    with pytest.raises(UserError, match=words):
        validate(make_config("Hopper", given))


def test_the_eta_in_force_is_logged_and_a_lengthened_run_is_exact(tmp_path, quick):
    """From 0.4 at step 20, the end of the warm-up, to 0 at step 40; a row has the mean over ten updates."""
    settings = quick | SCHEDULE | {"algorithm": ["ddpg", "bi-res-ddpg", "baird-ddpg"]}
    run = bires.train(TASK, out=tmp_path / "straight", **settings)
    used = {(row["member"], row["step"]): row["eta_used"] for row in run.metrics.rows()}
    assert [used[1, step] for step in (30, 40, 50, 60)] == pytest.approx([0.31, 0.11, 0.0, 0.0], abs=1e-6)
    assert used[0, 60] == 0.0
    assert used[2, 30] >= 0.31 - 1e-6, "to Baird's weight η is added"
    assert run.members["eta_end"].tolist()[1:] == [0.0, 0.0]
    bires.train(TASK, out=tmp_path / "longer", **settings | {"steps": 30})
    bires.resume(tmp_path / "longer", steps=60, quiet=True)
    assert contents(tmp_path / "straight") == contents(tmp_path / "longer")
    assert_same_state(tmp_path / "straight", tmp_path / "longer")


def test_without_a_moving_eta_nothing_is_logged(undisturbed):
    assert "eta_used" not in bires.load(undisturbed()).metrics.columns
