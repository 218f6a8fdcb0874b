"""Speed, time left and returns, as they are shown."""

import io

import pytest
from rich.console import Console

from bires.settings import grid
from bires.settings.keywords import make_config
from bires.settings.options import Progress
from bires.settings.searching import Search, searched
from bires.settings.tuning import ranges_of
from bires.training.display import Display, Meter, lines


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
    assert "left" not in lines(warm, 100)[0]
    clock[0] = 11.0  # from here on 100 steps a second of each of two members
    assert shown.numbers(progress(3000))["steps_per_second"] == pytest.approx(200)
    clock[0] = 21.0
    found = shown.numbers(progress(4000))
    assert found["updates_per_second"] == pytest.approx(200)
    assert found["seconds_left"] == 60
    assert found["returns"] == {"ddpg": 2.0}


def test_every_update_of_a_step_counts():
    clock = [0.0]
    shown = meter(clock, steps=10_000, warmup=1, update_times=3)
    for step in (0, 1000, 2000, 3000):
        found = shown.numbers(progress(step))
        clock[0] += 10.0
    assert found["updates_per_second"] == pytest.approx(3 * found["steps_per_second"])


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


def numbers(**changed):
    """What a meter says in the middle of a long run of twelve kinds."""
    usual = {"step": 1_500_000, "steps": 2_000_000, "training": 36, "steps_per_second": 7200.0}
    usual |= {"updates_per_second": 3600.0, "seconds_left": 5025, "diverged": 2, "stopped": 10, "failed": 0}
    return usual | {"returns": {f"kind-{i}-with-a-name({i / 10})": 100.0 * i for i in range(12)}} | changed


@pytest.mark.parametrize("width", [60, 100])
@pytest.mark.parametrize("kinds", [0, 1, 3, 12])
def test_no_line_is_wider_than_the_terminal(width, kinds):
    few = dict(list(numbers()["returns"].items())[:kinds])
    found = lines(numbers(returns=few), width)
    assert all(len(line) <= width for line in found)
    assert found[0].startswith("step 1,500,000 / 2,000,000")
    assert sum(line.count("name(") for line in found) >= min(kinds, 2)


def test_steps_of_a_member_and_of_all_are_not_mixed():
    [line] = lines(numbers(returns={"ddpg": 1.0}, diverged=0, stopped=0), 100)
    assert line == "step 1,500,000 / 2,000,000  200 steps/s, 100 updates/s × 36 members  1:23:45 left  ddpg 1.0"
    [alone] = lines(numbers(returns={}, training=1, steps_per_second=200.0, diverged=0, stopped=0), 100)
    assert "members" not in alone


def test_where_not_all_fit_the_first_and_the_best_are_shown():
    *_, returns = lines(numbers(), 100)
    assert returns.startswith("  kind-0-with-a-name(0.0) 0.0  kind-11-with-a-name(1.1) 1100.0")
    assert returns.endswith("and 10 more")


def test_names_that_differ_in_settings_alone_are_shown_whole():
    """They were cut: `…s-ddpg(0.05) critic_lr=0.0006605`."""
    found = {"bi-res-ddpg(0.05) critic_lr=0.0006605": -1681.8, "bi-res-ddpg(0.05) critic_lr=0.003215": -1671.0}
    assert lines(numbers(returns=found), 80)[-1] == "  critic_lr=0.0006605 -1681.8  critic_lr=0.003215 -1671.0"
    for name, short in (("ddpg tau=0.1", "tau=0.1 1.0"), ("td3", "td3 1.0")):
        assert lines(numbers(returns={name: 1.0, "ddpg tau=0.2": 2.0}), 80)[-1].count(short) == 1
    assert lines(numbers(returns={"ddpg tau=0.1": 1.0}), 80)[-1].endswith("ddpg tau=0.1 1.0")


@pytest.mark.parametrize("width", [80, 100])
def test_names_that_are_cut_still_differ_in_their_algorithm(width):
    names = [
        f"{kind} tau=0.009677 critic_lr={rate}" for rate in (0.00066, 0.0032) for kind in ("ddpg", "bi-res-ddpg(0.05)")
    ]
    line = lines(numbers(returns=dict.fromkeys(names, -1375.9)), width)[-1]
    assert " ddpg …" in line
    assert " bi-res-ddpg(0.05) …" in line
    assert line.endswith("and 2 more")


def test_a_search_shows_its_best_trials():
    config = make_config("pendulum-swingup", {"algorithm": "ddpg", "steps": 10_000, "warmup": 10, "seed": (0, 1)})
    config = searched(config, Search(ranges_of({"tau": (0.1, 0.9)}), trials=2))
    found = Meter(config, grid.members(config)).numbers(Progress(0, 10_000, {0: 1.0, 1: 3.0, 2: 5.0, 3: 5.0}, {}, True))
    assert list(found["returns"].values()) == [5.0, 2.0]
    assert all(name.startswith("ddpg tau=0.") for name in found["returns"])


def test_a_sweep_shows_every_kind_by_what_distinguishes_it():
    settings = {"algorithm": ["ddpg", "bi-res-ddpg"], "eta": 0.05, "tau": (0.001, 0.005)}
    found = meter([0.0], **settings).mean_returns({member: float(member) for member in range(8)})
    assert found == {
        "ddpg tau=0.001": 0.5,
        "ddpg tau=0.005": 2.5,
        "bi-res-ddpg(0.05) tau=0.001": 4.5,
        "bi-res-ddpg(0.05) tau=0.005": 6.5,
    }


def test_what_some_kinds_do_not_have_tells_none_apart():
    settings = {"algorithm": ["ddpg", "res-dyna-ddpg", "mve-ddpg"], "model": "oracle"}
    found = meter([0.0], **settings).mean_returns(dict.fromkeys(range(6), 0.0))
    assert list(found) == ["ddpg", "res-dyna-ddpg(0.2)", "mve-ddpg"]


def test_the_speed_forgets_the_interval_in_which_updates_were_compiled():
    clock = [0.0]
    shown = meter(clock, steps=10_000, warmup=1)
    shown.numbers(progress(0))
    clock[0] = 50.0  # compiled, then 100 steps a second
    shown.numbers(progress(100))
    clock[0] = 51.0
    assert shown.numbers(progress(200))["steps_per_second"] == pytest.approx(200)


def test_a_quiet_display_prints_nothing(capsys, tmp_path):
    config = make_config("pendulum-swingup", {"algorithm": "ddpg"})
    with Display(quiet=True) as display:
        display.begin(config, grid.members(config), tmp_path)
        display.report(progress(0, evaluated=True))
        display.tick(1)
        display.say("something")
    assert capsys.readouterr() == ("", "")


def test_a_bar_moves_between_logs(tmp_path):
    config = make_config("pendulum-swingup", {"algorithm": "ddpg", "steps": 1000, "warmup": 10})
    with Display() as display:
        display.console = Console(file=(screen := io.StringIO()), force_terminal=True, width=60)
        display.begin(config, grid.members(config), tmp_path)
        display.tick(250)
        display.tick(750)
    assert "75%" in screen.getvalue()
    assert "━" in screen.getvalue()
