"""Learning rates that fall on a schedule: what members have, what is logged, and that runs with it are exact."""

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import bires
from bires.agents.base import Schedule
from bires.agents.registry import AGENTS
from bires.analysis.curves import collect
from bires.errors import UserError
from bires.settings import grid
from bires.settings.keywords import make_config
from bires.settings.validation import validate
from tests.helpers import TASK, arrays, assert_same_moment, contents, typed

SCHEDULE = {"lr_end": 0.0, "lr_until": 40}
"""The warm-up of quick runs is 20 steps."""


def test_a_schedule_makes_members_of_every_rule():
    names = {"algorithm": ["ddpg", "bi-res-ddpg"], "eta": 0.2, "lr_end": [0.0, 0.5], "lr_until": [20_000, 30_000]}
    config = make_config("Hopper", names)
    validate(config)
    found = grid.members(config)
    assert len(found) == 8
    assert found[0].schedule == found[4].schedule == {"lr_end": 0.0, "lr_until": 20_000}
    assert found[3].row()["lr_until"] == 30_000
    assert {member.label for member in found} == {"ddpg", "bi-res-ddpg(0.2)"}
    assert not set(grid.RATES) & grid.members(make_config("Hopper", {}))[0].row().keys()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"lr_end": 0.0}, "--lr-end was given alone; learning rates move to --lr-end .*Add --lr-until 100000"),
        ({"lr_until": 100}, "--lr-until was given alone.*Add --lr-end 0"),
        (
            {"lr_end": 2.0, "lr_until": 20_000},
            r"--lr-end was given 2; accepted: numbers from 0 to 1 \(a share of every",
        ),
        ({"lr_end": 1e-5, "lr_until": 20_000}, "--lr-end was given 1e-05; accepted: 0, and numbers from 0.01 to 1"),
        ({"lr_end": 0.0, "lr_until": 10_000}, "--lr-until was given 10000; accepted: steps after the warm-up"),
        ({"lr_end": [0.0, 0.0], "lr_until": 20_000}, "some twice"),
    ],
)
def test_half_a_schedule_and_rates_for_shares_are_refused(given, words):
    with pytest.raises(UserError, match=words):
        validate(make_config("Hopper", given))


def test_bad_input_ends_with_exit_code_2(tmp_path):
    said = typed("train", TASK, "--lr-end", "3e-5", "--lr-until", "2e4", "--out", str(tmp_path / "run"))
    assert said.returncode == 2
    assert "--lr-end was given 3e-05; accepted: 0, and numbers from 0.01 to 1 (a share of every learning" in said.stderr
    assert not (tmp_path / "run").exists()


def test_every_learning_rate_of_ours_is_one():
    for spec in AGENTS.values():
        assert set(spec.rates) == {one.name for one in spec.settings if one.help.startswith("Learning rate")}, spec.name


@pytest.mark.parametrize("end", [0.0, 0.25, 1.0])
def test_the_share_that_is_left_falls_in_a_line(end):
    schedule = Schedule(jnp.float32(end), jnp.float32(50))
    found = [float(schedule.left(jnp.int32(clock), 10)) for clock in (10, 20, 50, 99)]
    assert found == pytest.approx([1.0, 1 - 0.25 * (1 - end), end, end], abs=1e-7)


def test_half_the_rate_is_half_the_step(tmp_path, quick):
    """In the second update after the warm-up; the first has the whole rate."""
    settings = quick | {"algorithm": "ddpg", "lr_end": [0.5, 1.0], "lr_until": 21}
    weights = []
    for steps in (21, 22):
        run = bires.train(TASK, out=tmp_path / str(steps), **settings | {"steps": steps})
        weights.append(arrays(run.path)["state/learner.critic.layers.0.weight"])
    np.testing.assert_array_equal(weights[0][0], weights[0][1])
    half, whole = np.subtract(*weights[::-1], dtype=np.float64)
    assert np.abs(whole).max() > 5e-4
    np.testing.assert_allclose(half, whole / 2, atol=1e-7)


ONLINE = ("actor.", "critic.", "critics.params", "online.", "policy.", "log_alpha", "estimate.")
"""What learning rates move: parts of learners."""


@pytest.mark.parametrize(
    "algorithm",
    [
        "qrc-ddpg",
        "bi-res-sac",
        *(pytest.param(f"bi-res-{name}", marks=pytest.mark.slow) for name in ("td3", "crossq", "dqn")),
    ],
)
def test_nothing_is_learned_where_nothing_is_left_and_a_lengthened_run_is_exact(algorithm, tmp_path, quick):
    task = "CartPole-v1" if "dqn" in algorithm else TASK
    more: dict[str, Any] = {"critic_width": 16} if "crossq" in algorithm else {}
    settings = quick | SCHEDULE | {"algorithm": algorithm, "update_every": 1} | more
    run = bires.train(task, out=tmp_path / "straight", **settings)
    used = {row["step"]: row["lr_share"] for row in run.metrics.rows()}
    assert [used[step] for step in (30, 40, 50, 60)] == pytest.approx([0.775, 0.275, 0.0, 0.0], abs=1e-6)
    assert run.members["lr_end"].tolist() == [0.0]
    bires.train(task, out=tmp_path / "longer", **settings | {"steps": 30})
    found = []
    for steps in (40, 60):
        bires.resume(tmp_path / "longer", steps=steps, quiet=True)
        found.append({name.removeprefix("state/learner."): x for name, x in arrays(tmp_path / "longer").items()})
    assert contents(tmp_path / "straight") == contents(tmp_path / "longer")
    assert_same_moment(tmp_path / "straight", tmp_path / "longer", capacity=50)
    names = [name for name in found[0] if name.startswith(ONLINE)]
    assert names
    for name in names:
        np.testing.assert_array_equal(found[0][name], found[1][name], err_msg=name)
    moments = [name for name in found[0] if ".mean" in name and "moments" not in name]
    assert any(not np.array_equal(found[0][name], found[1][name]) for name in moments), "updates went on"


def test_without_a_schedule_nothing_is_logged_and_no_column_is_added(undisturbed):
    run = bires.load(undisturbed())
    assert "lr_share" not in run.metrics.columns
    assert "lr_end" not in run.members.columns


def test_members_with_and_without_one_are_told_apart(copied):
    run = copied(algorithm="ddpg", lr_end=(0.0, 1.0), lr_until=50)
    assert run.summary()["kind"].tolist() == ["ddpg lr_end=0", "ddpg lr_end=1"]


def test_runs_with_and_without_one_are_not_pooled(copied, undisturbed):
    """Each has a panel of its own."""
    runs = [copied(algorithm="ddpg", lr_end=0.0, lr_until=50), bires.load(undisturbed(algorithm="ddpg"))]
    assert [panel.title for panel in collect(runs)] == [f"{TASK}, lr_end=[0.0]", f"{TASK}, lr_end=none"]
