"""The members that a configuration makes."""

import pytest

from bires.errors import UserError
from bires.settings import grid
from bires.settings.keywords import make_config
from bires.settings.validation import validate

FOUR = ["ddpg", "dyna-ddpg", "res-dyna-ddpg", "mve-ddpg"]


def test_numbers_a_member_does_not_use_do_not_split_it():
    config = make_config(
        "Hopper",
        {
            "algorithm": FOUR,
            "planning_eta": [0.05, 0.2],
            "planning_steps": [1, 2],
            "horizon": [1, 3],
            "eta": [0.1, 0.2],
        },
    )
    numbers = ("planning_steps", "planning_eta", "horizon")
    found = [(m.algorithm, *(m.planning[name] for name in numbers)) for m in grid.members(config)]
    assert found == [
        ("ddpg", None, None, None),
        ("dyna-ddpg", 1, None, None),
        ("dyna-ddpg", 2, None, None),
        *[("res-dyna-ddpg", p, e, None) for p in (1, 2) for e in (0.05, 0.2)],
        ("mve-ddpg", None, None, 1),
        ("mve-ddpg", None, None, 3),
    ]
    assert grid.members(config)[3].label == "res-dyna-ddpg(0.05)"


@pytest.mark.parametrize("more", [{}, {"model": "learned"}, {"model": "oracle", "ensemble": 3}], ids=str)
def test_an_eta_that_shrinks_where_models_disagree_needs_several(more):
    config = make_config("Hopper", {"algorithm": "res-dyna-ddpg", "planning_trust": (0.0, 10.0), **more})
    with pytest.raises(UserError, match="--planning-trust was given 0 10; it needs several learned models"):
        validate(config)
    validate(
        make_config("Hopper", {"algorithm": "res-dyna-ddpg", "planning_trust": 10.0, "model": "learned", "ensemble": 3})
    )


def test_any_rule_may_plan_and_any_rule_may_be_planned_for():
    config = make_config("Hopper", {"algorithm": "bi-res-ddpg", "planner": ["bi-dyna", "res-dyna"]})
    assert [m.algorithm for m in grid.members(config)] == ["bi-dyna-bi-ddpg", "res-dyna-bi-ddpg"]


def test_a_population_may_plan_and_not_plan():
    members = grid.members(make_config("Hopper", {"algorithm": "ddpg", "planner": ["dyna", "none"], "model": "oracle"}))
    assert [member.planner for member in members] == ["dyna", None]
    assert [member.algorithm for member in members] == ["dyna-ddpg", "ddpg"]
    with pytest.raises(UserError, match="Unknown planner 'nothing'"):
        grid.members(make_config("Hopper", {"algorithm": "ddpg", "planner": "nothing"}))


def test_messages_number_the_members_of_a_run():
    assert (grid.numbered(1), grid.numbered(4)) == ("member 0 alone", "members 0 to 3")
