"""Searches: what is drawn, who is stopped, that a killed search ends as an undisturbed one, and what it says."""

import json
import shlex
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

import bires
from bires.analysis.trials import best_command
from bires.cli import parse
from bires.errors import UserError
from bires.runs.folder import Folder
from bires.settings import config as configs
from bires.settings import grid
from bires.settings.config import Config
from bires.settings.keywords import make_config
from bires.settings.options import Options, Stopped
from bires.settings.searching import Search, alone, command_of, searched, trials_of
from bires.settings.tuning import Range, draw, ranges_of, rungs
from bires.settings.validation import validate
from bires.training import loop
from bires.training.launch import begin_or_continue
from tests.helpers import TASK, asked, configured, contents, typed
from tests.synthetic import make_run

BASE = make_config("walker-stand", {"algorithm": ["ddpg", "bi-res-ddpg"], "seed": (0, 1), "steps": 1e5})
RATES = ranges_of({"critic_lr": (1e-4, 1e-2, "log"), "eta": (0.0, 0.5)})


def search_of(quick, **settings):
    """A quick search of four trials with two seeds."""
    config = configured(quick | {"eval_every": 10, "seed": (0, 1)}, TASK, **settings)
    return searched(config, Search(ranges_of({"tau": (1e-3, 1e-1, "log")}), 4))


def test_draws_fill_their_ranges_and_depend_on_the_seed_alone():
    drawn = draw(RATES, set(), 16, 0)
    assert drawn == draw(RATES, set(), 16, 0) != draw(RATES, set(), 16, 1)
    quarters = np.histogram(np.log10(drawn["critic_lr"]), bins=4, range=(-4, -2))[0]
    assert quarters.tolist() == [4, 4, 4, 4]
    assert draw({"planning_steps": Range(1, 3)}, {"planning_steps"}, 8, 0)["planning_steps"].count(1) > 0
    assert draw(RATES, set(), 5, 0)["eta"] == drawn["eta"][:5], "fewer draws are the first of more"


@pytest.mark.parametrize("log", [False, True], ids=["linear", "log"])
@pytest.mark.parametrize(("low", "high"), [(0.999, 0.9999), (0.99999, 0.999999), (100_000, 100_100)])
def test_draws_fill_a_narrow_range_too(low, high, log):
    drawn = draw({"gamma": Range(low, high, log)}, set(), 64, 0)["gamma"]
    assert len(set(drawn)) == 64
    assert np.histogram(drawn, bins=4, range=(low, high))[0].tolist() == [16] * 4


def test_every_combination_of_the_lists_has_every_draw():
    config = searched(BASE, Search(RATES, trials=3))
    members = grid.members(config)
    assert [one.member for one in members] == list(range(12))
    trials = trials_of(members)
    assert len(trials) == 6
    assert {len(trial.members) for trial in trials} == {2}
    rates = {kind: {t.first.own["critic_lr"] for t in trials if t.first.rule == kind} for kind in ("td", "bi")}
    assert rates["td"] == rates["bi"] == set(config.tuning.draws["critic_lr"])  # type: ignore[union-attr]
    assert configs.from_json(json.loads(json.dumps(configs.to_json(config)))) == config


def test_a_rule_that_ignores_what_is_drawn_is_one_trial():
    trials = trials_of(grid.members(searched(BASE, Search(ranges_of({"eta": (0, 0.5)}), trials=4))))
    assert [trial.first.rule for trial in trials].count("td") == 1
    assert len(trials) == 5


def test_trials_are_stopped_at_evaluations_after_the_warm_up():
    assert rungs(100_000, 10_000, 5_000, 3) == (15_000, 25_000, 50_000)
    assert rungs(100_000, 30_000, 5_000, 3) == (50_000,)
    assert rungs(100, 10, 60, 3) == (60,)
    assert rungs(100, 10, 10, 0) == ()
    assert rungs(100, 10, 20, 10**9) == rungs(100, 10, 20, 7) == (20, 40, 60)


@pytest.mark.parametrize("number", range(6))
def test_the_printed_command_trains_that_trial(number):
    given = {"layer_norm": True, "hidden": (32, 16), "env_kwargs": {"a": "b c"}, "normalise_observations": True}
    config = searched(
        make_config("walker-stand", {"algorithm": ["td3", "qrc-td3"], "rule": ["td", "bi"], "steps": 1e5, **given}),
        Search(RATES, trials=3),
    )
    trial = trials_of(grid.members(config))[number]
    one = alone(config, trial)
    assert not set(one.seed) & set(config.seed)
    words = shlex.split(command_of(one))[1:]
    made: Config = parse(words).configuration()
    theirs = trials_of(grid.members(made))
    assert len(theirs) == 1
    assert {**theirs[0].first.row(), "member": 0, "seed": 0} == {**trial.first.row(), "member": 0, "seed": 0}
    assert made.env_kwargs == {"a": "b c"}
    assert (made.hidden, made.own["layer_norm"], made.normalise_observations) == ((32, 16), True, True)


def test_the_best_trial_has_other_seeds_wherever_those_of_the_search_are():
    last = 2**32 - 1
    config = searched(make_config("walker-stand", {"seed": (0, 1, last - 1), "steps": 1e5}), Search(RATES, trials=2))
    one = alone(config, trials_of(grid.members(config))[0])
    assert one.seed == (last, 2, 3, 4, 5)
    validate(one)


def test_the_printed_command_has_the_trials_planner():
    given = {"algorithm": "ddpg", "planner": ["dyna", "mve"], "steps": 1e5}
    config = searched(
        make_config("walker-stand", given), Search(ranges_of({"critic_lr": (1e-4, 1e-2, "log")}), trials=2)
    )
    for trial in trials_of(grid.members(config)):
        made: Config = parse(shlex.split(command_of(alone(config, trial)))[1:]).configuration()
        assert {**grid.members(made)[0].row(), "member": 0, "seed": 0} == {**trial.first.row(), "member": 0, "seed": 0}


@pytest.mark.parametrize(
    ("ranges", "given", "message"),
    [
        ({"batch": (32, 256)}, (), "cannot vary within one program"),
        ({"layer_norm": (0, 1)}, (), "cannot vary within one program"),
        ({"critic_rl": (0, 1)}, (), "critic_lr"),
        ({"tau": (0, 1, "log")}, (), "above 0"),
        ({"tau": (0.1, 0.01)}, (), "the lower first"),
        ({"tau": (0.1,)}, (), "LOW HIGH"),
        ({"tau": ("a", "b")}, (), "LOW HIGH"),
        ({"tau": (1e-3, 1e-2, "exp")}, (), "log or nothing"),
        ({"eta": (0, 2)}, (), "numbers from 0 to 1"),
        ({"tau": (0.1, 3)}, (), "accepted: numbers from 0 to 1"),
        ({"eta": (0, 0.5)}, ("eta",), "a list or a range"),
    ],
)
def test_ranges_that_cannot_be_are_refused_in_words(ranges, given, message):
    with pytest.raises(UserError, match=message):
        searched(BASE, Search(ranges_of(ranges)), given)


def test_one_combination_is_no_search():
    with pytest.raises(UserError, match="nothing to search"):
        searched(make_config("walker-stand", {"steps": 1e5}), Search({}))


def test_the_worse_half_stops_and_a_disturbed_search_ends_as_an_undisturbed_one(quick, tmp_path, monkeypatch):
    monkeypatch.setattr(loop, "STRIDE", 1)  # a look at `stop` before every step
    monkeypatch.setattr(loop, "ROUND_S", 0.0)
    config, options = search_of(quick), Options(workers=0, cohorts="threads")
    assert config.tuning is not None
    assert config.tuning.rungs == (30,)
    straight = begin_or_continue(config, tmp_path / "straight", options)
    with pytest.raises(Stopped):  # beyond the halving
        begin_or_continue(config, tmp_path / "stopped", options, stop=partial(asked, iter(range(99)), 35))
    begin_or_continue(config, tmp_path / "stopped", options)
    assert contents(tmp_path / "straight") == contents(tmp_path / "stopped")
    members, rows = straight.members, straight.evaluations
    stopped = members["member"][members["status"] == "stopped"]
    assert set(members["stopped_at"][stopped]) == {30}
    at_30 = rows.where(rows["step"] == 30)
    means = at_30["return_mean"].reshape(4, 2).mean(axis=1)  # two seeds side by side
    assert sorted({int(one) // 2 for one in stopped}) == sorted(np.argsort(means)[:2].tolist())
    assert len(stopped) == 4


def test_a_diverged_trial_is_never_the_best(tmp_path):
    """Members 0 and 1 are the first trial, which has the highest returns until one of them diverges."""
    config = searched(Config("walker-stand", seed=(0, 1), steps=400, warmup=10, eval_every=100), Search(RATES, 3))
    run = make_run(tmp_path / "run", config, lambda member, step, steps: 100.0 - member.member, diverged={1: 300})
    trials = bires.load(run.path).trials()
    assert trials["trial"].tolist() == [1, 2, 0]
    assert trials["status"].tolist() == ["finished", "finished", "diverged"]
    assert trials["return_mean"].tolist() == [97.5, 95.5, 99.5]
    assert (trials["return_low"] < trials["return_mean"]).all()
    assert "--seed 2 3 4 5 6" in best_command(run)


def test_a_diverged_trial_is_behind_those_that_were_stopped_and_shows_its_own_steps(tmp_path):
    config = searched(Config("walker-stand", seed=(0, 1), steps=400, warmup=10, eval_every=100), Search(RATES, 3))
    run = make_run(
        tmp_path / "run", config, lambda member, step, steps: 100.0, diverged={0: 150, 1: 150, 2: 250, 3: 250}
    )
    members = grid.members(config)
    Folder(run.path).write_members(config, members, {0: 150, 1: 150, 2: 250, 3: 250}, True, {4: 200, 5: 200})
    trials = bires.load(run.path).trials()
    assert trials["trial"].tolist() == [2, 1, 0]
    assert trials["steps"].tolist() == [200, 250, 150]
    assert trials["status"].tolist() == ["stopped", "diverged", "diverged"]


def test_the_command_searches_says_what_it_found_and_continues(tmp_path):
    words = [TASK, "--steps", "60", "--warmup", "20", "--eval-every", "30", "--eval-episodes", "1", "--seeds", "2"]
    words += ["--hidden", "16", "16", "--batch", "8", "--workers", "0", "--out", str(tmp_path / "run")]
    words += ["--range", "critic-lr", "1e-4", "1e-2", "log", "--range", "tau", "1e-3", "1e-1", "--trials", "3"]
    said = typed("tune", *words)
    assert said.returncode == 0, said.stderr
    assert "3 trials, longest trained first, then by return" in said.stdout
    assert "with other seeds" in said.stdout
    assert "the search stopped members" in said.stdout
    run = bires.load(tmp_path / "run")
    trials = run.trials()
    assert trials["steps"].tolist() == [60, 60, 30]
    written = (tmp_path / "run" / "trials.csv").read_text().splitlines()
    assert written[0] == "trial,tau,critic_lr,seeds,return_mean,return_low,return_high,steps,status"
    assert len(written) == 4
    assert "the search stopped members" in typed("resume", str(tmp_path / "run")).stdout
    again = typed("resume", str(tmp_path / "run"), "--json")
    done = json.loads(again.stdout.splitlines()[-1])
    assert done["command"] == best_command(run)
    assert done["command"] in said.stdout
    best = run.best()
    assert best["critic_lr"] == [trials["critic_lr"][0]]
    assert len(grid.members(make_config(best.pop("task"), best))) == 5
    with pytest.raises(UserError, match="is not a search"):
        bires.load(make_run(tmp_path / "other", Config("walker-stand", steps=400, warmup=10)).path).trials()


def test_python_refuses_in_the_words_of_python():
    with pytest.raises(UserError, match=r"^Both eta and ranges\['eta'\] were given"):
        bires.tune("walker-stand", eta=[0, 1], ranges={"eta": (0, 1)})
    with pytest.raises(UserError, match=r"^batch=\(32, 64\) was given|^batch was given 32 64; it cannot vary"):
        bires.tune("walker-stand", batch=[32, 64], ranges={"eta": (0, 1)})  # type: ignore[arg-type]
    tune: Any = bires.tune
    with pytest.raises(UserError, match=r"a range is ranges=\{'critic_lr': \(0\.0001, 0\.01, 'log'\)\}"):
        tune("walker-stand", critic_lr=(1e-4, 1e-2, "log"))
    with pytest.raises(UserError, match=r"^Both eta and ranges\['eta'\] were given"):
        tune("walker-stand", eta=[0, 1], range={"eta": (0, 1)})


@pytest.mark.parametrize("name", ["eta", "lr"])
def test_a_trial_keeps_where_its_eta_and_its_learning_rates_go(name):
    schedule = {f"{name}_end": [0.0, 0.5], f"{name}_until": 50_000, "steps": 1e5}
    given = {"algorithm": ["ddpg", "bi-res-ddpg"], "seed": (0, 1)} | schedule
    config = searched(make_config("walker-stand", given), Search(ranges_of({"critic_lr": (1e-4, 1e-2, "log")}), 2))
    for trial in trials_of(grid.members(config)):
        (same,) = trials_of(grid.members(alone(config, trial)))
        assert repr(replace(same.first, member=0, seed=0)) == repr(replace(trial.first, member=0, seed=0))
