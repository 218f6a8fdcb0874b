"""MinAtar's games, on the real package."""

import sys

import numpy as np
import pytest

import bires
from bires.envs import minatar
from bires.envs.recipe import probe, recipe
from bires.settings.keywords import make_config
from tests.helpers import configured, straight_and_stopped, typed

pytest.importorskip("minatar")


@pytest.mark.parametrize("game", minatar.CHANNELS)
def test_a_game_shows_bytes_and_repeats_for_a_seed(game):
    made = recipe(f"MinAtar/{game}", "modern")
    space = probe(made)
    assert space.pixels is not None
    assert (space.pixels.channels, space.pixels.stack) == (minatar.CHANNELS[game], 1)
    played = []
    for _ in range(2):
        environment, rng, seen = made.build(), np.random.default_rng(0), []
        seen.append(environment.reset(7))
        for _ in range(200):
            outcome = environment.step(np.array([rng.integers(space.choices or 0)], np.float32))
            seen.append(np.append(outcome.observation, outcome.reward))
            if outcome.terminated:
                seen.append(environment.reset(int(rng.integers(100))))
        played.append(np.concatenate([np.ravel(x) for x in seen]))
    np.testing.assert_array_equal(played[0], played[1])
    assert set(np.unique(played[0])) <= {-1.0, 0.0, 1.0, 255.0}
    picture = environment.frame()
    assert picture.shape == (160, 160, 3)


def test_an_episode_is_cut_off_in_the_end(monkeypatch):
    monkeypatch.setattr(minatar, "LIMIT", 3)
    game = minatar.MinAtar("Freeway", 0.0, True)  # has no end of its own before 2500 steps
    game.reset(seed=0)
    assert [game.step(0)[2:4] for _ in range(3)] == [(False, False), (False, False), (False, True)]


def test_names_of_games_are_read_as_people_write_them():
    names = ("MinAtar/SpaceInvaders", "minatar/space_invaders", "MinAtar/SpaceInvaders-v1")
    assert {minatar.game_of(name) for name in names} == {"SpaceInvaders"}
    assert minatar.game_of("SpaceInvaders") is None


def test_the_family_has_defaults_of_its_own_and_typed_ones_stand():
    config = make_config("MinAtar/Breakout", {"algorithm": "dqn"})
    assert (config.hidden, config.replay, config.own["epsilon_end"]) == ((128,), 100_000, (0.1,))
    atari = make_config("ALE/Breakout-v5", {"algorithm": "dqn"})
    assert (atari.hidden, atari.own["epsilon_end"]) == ((512,), (0.01,))
    typed_value = make_config("MinAtar/Breakout", {"algorithm": "dqn", "epsilon_end": 0.01})
    assert typed_value.own["epsilon_end"] == (0.01,)


def test_a_run_stopped_in_the_middle_ends_as_if_undisturbed(tmp_path, quick, stepwise):
    algorithms = ["dqn", "bi-res-dqn", "qrc-dqn"]
    config = configured(quick, "MinAtar/Breakout", algorithm=algorithms, hidden=(16,), target_every=5)
    straight_and_stopped(config, tmp_path, 35)


def test_a_game_without_its_package_says_what_to_type(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "minatar", None)
    with pytest.raises(bires.UserError, match=r"pip install 'bires\[minatar\]'"):
        bires.train("MinAtar/Breakout", algorithm="dqn", steps=6000, out=tmp_path / "run", quiet=True)


def test_flags_of_two_families_are_refused_for_other_tasks():
    said = typed("train", "CartPole-v1", "--algorithm", "dqn", "--sticky", "0.2")
    assert (said.returncode, "Atari and MinAtar" in said.stderr) == (2, True)
