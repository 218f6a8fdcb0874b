"""Videos: the episode that is filmed is the one that was evaluated, and what cannot be filmed is said."""

import importlib.util
import subprocess
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from imageio_ffmpeg import get_ffmpeg_exe
from PIL import Image, ImageSequence

import bires
from bires.cli import main
from bires.envs.recipe import recipe
from bires.envs.render import Film
from bires.errors import UserError
from bires.tools import playing, video
from tests.helpers import QUICK

DRAWN = "tests.environments:bires-test/Drawn-v0"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    out = tmp_path_factory.mktemp("video") / "run"
    return bires.train(DRAWN, seeds=2, workers=0, out=out, **QUICK)


def film(task: str, path: Path, steps: int = 4) -> Film:
    return Film(asdict(recipe(task, "modern")), 0, [[0.5]] * steps, str(path))


def test_the_filmed_episode_is_the_evaluated_one(run, tmp_path, capsys):
    path = tmp_path / "new" / "one.gif"
    assert main(["play", str(run.path), "--member", "1", "--video", str(path)]) == 0
    last = [row for row in run.evaluations.rows() if row["member"] == 1][-1]
    assert last["step"] == 60
    said = capsys.readouterr()
    assert said.err.endswith(f"return {last['return_mean']:.1f} in 6 steps; drawing them …\n")
    assert f"return {last['return_mean']:.1f} in 6 steps (7 pictures" in said.out
    with Image.open(path) as gif:
        shades = [int(np.asarray(frame.convert("RGB"))[5, 5, 0]) for frame in ImageSequence.Iterator(gif)]
        assert gif.info["duration"] == 100
        assert gif.info["loop"] == 0
    assert shades == pytest.approx([0, 30, 60, 90, 120, 150, 180], abs=2)
    assert [found.name for found in path.parent.iterdir()] == ["one.gif"]


def test_returns_agree_to_the_last_digit_and_episodes_differ(run, tmp_path):
    last = [row["return_mean"] for row in run.evaluations.rows() if row["member"] == 0][-1]
    (_, first), (_, second) = (video.act(run, 0, episode, tmp_path / "a.gif") for episode in (0, 1))
    assert first == pytest.approx(last, rel=1e-8)
    assert second != first


def test_a_run_films_itself_and_a_notebook_shows_it(run, tmp_path):
    played = run.play(member=1, video=tmp_path / "one.gif")
    assert (played.member, played.video) == (1, tmp_path / "one.gif")
    assert played._repr_html_().startswith('<img src="data:image/gif;base64,R0lGOD')
    (tmp_path / "one.gif").unlink()
    assert "one.gif" in played._repr_html_()


def test_an_mp4_is_written(tmp_path):
    _, answer = video.shoot(film(DRAWN, tmp_path / "a.mp4", steps=6), ["egl"])
    assert answer == {"return": pytest.approx(answer["return"]), "frames": 7, "fps": 10}
    command = [get_ffmpeg_exe(), "-i", str(tmp_path / "a.mp4"), "-f", "rawvideo", "-pix_fmt", "rgb24", "-"]
    decoded = subprocess.run(command, capture_output=True, check=True, timeout=60)
    for said in (b"Video: h264", b"32x24", b"10 fps"):
        assert said in decoded.stderr
    frames = np.frombuffer(decoded.stdout, np.uint8).reshape(-1, 24, 32, 3)
    assert frames[:, 5, 5, 0].tolist() == pytest.approx([0, 30, 60, 90, 120, 150, 180], abs=8)


def test_mujoco_is_drawn_without_a_display(tmp_path):
    job = film("InvertedPendulum-v4", tmp_path / "a.gif")
    try:
        video.shoot(job, video.BACKENDS[:2])
    except UserError as error:
        if "No picture could be drawn" not in str(error):
            raise
        pytest.skip(f"no GL library here: {error}")
    with Image.open(tmp_path / "a.gif") as gif:
        assert gif.size == (480, 480)
        assert len(np.unique(np.asarray(gif.convert("RGB")))) > 20


def test_no_working_gl_library_says_what_to_install(tmp_path, monkeypatch):
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(UserError, match=r"(?s)No picture could be drawn here:\n  glfw: .*apt install libosmesa6"):
        video.shoot(film("InvertedPendulum-v4", tmp_path / "a.gif"), ["glfw"])
    assert not list(tmp_path.iterdir())


def test_an_environment_that_cannot_draw_is_refused(run, tmp_path, monkeypatch):
    plain = recipe("tests.environments:bires-test/ConstantReward-v0", "modern").build()
    monkeypatch.setattr(playing, "load_actor", lambda *_: (plain, None))
    with pytest.raises(UserError, match="cannot be drawn: its metadata"):
        video.play(run, 0, 0, tmp_path / "a.gif")


def test_a_failure_that_is_not_of_gl_does_not_advise_a_gl_library(tmp_path):
    job = film("tests.environments:bires-test/ConstantReward-v0", tmp_path / "a.gif")
    with pytest.raises(UserError, match=r"(?s)ConstantReward-v0' cannot be built.*TypeError: .*render_mode") as caught:
        video.shoot(job, ["disable"])
    assert "apt install" not in str(caught.value)


def test_an_environment_without_render_is_not_taken_for_a_missing_library():
    plain = recipe("tests.environments:bires-test/ConstantReward-v0", "modern").build()
    plain.reset(0)
    with pytest.raises(UserError, match=r"^The environment has no render\(\), although its metadata"):
        plain.frame()


def test_an_episode_that_does_not_repeat_is_reported(run, tmp_path, monkeypatch):
    moody = "tests.environments:bires-test/Moody-v0"
    monkeypatch.setattr(video, "act", lambda *_: (film(moody, tmp_path / "a.gif"), 1.0))
    with pytest.raises(UserError, match="did not repeat its episode"):
        video.play(run, 0, 0, tmp_path / "a.gif")


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (["--video", "a.avi"], "accepted: a name that ends in .mp4 or .gif"),
        (["--member", "7"], "Member 7 was given; the run has members 0 to 1"),
        (["--video", "/proc/nowhere/a.gif"], "Cannot write --video"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_bad_input_is_refused(run, words, answer, capsys):
    assert main(["play", str(run.path), *words]) == 2
    assert answer in capsys.readouterr().err


def test_mp4_without_its_library_says_what_to_install(run, monkeypatch, capsys):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert main(["play", str(run.path), "--video", "a.mp4"]) == 2
    assert "pip install 'bires[video]'" in capsys.readouterr().err


def test_the_users_choice_of_gl_is_respected(monkeypatch):
    monkeypatch.setenv("MUJOCO_GL", "osmesa")
    assert video.chosen_backends() == ("osmesa",)
    monkeypatch.setenv("MUJOCO_GL", "disable")
    assert video.chosen_backends() == ("egl", "osmesa", "glfw")


def test_a_game_is_drawn_as_its_player_sees_it(tmp_path):
    pytest.importorskip("ale_py", reason="ale-py is not installed (pip install 'bires[atari]')")
    made = recipe("ALE/Breakout-v5", "modern")
    _, answer = video.shoot(Film(asdict(made), 0, [[2.0]] * 3, str(tmp_path / "a.gif")), ["egl"])
    assert (answer["frames"], answer["fps"]) == (4, 15)
    with Image.open(tmp_path / "a.gif") as gif:
        assert gif.size == (160, 210)
        assert len(np.unique(np.asarray(gif.convert("RGB")).reshape(-1, 3), axis=0)) > 5
