"""Videos of trained members: an episode is played without pictures, then repeated and filmed by another process."""

from __future__ import annotations

import html
import importlib.util
import json
import math
import os
import subprocess
import sys
from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from bires.envs.render import Film
from bires.errors import UserError
from bires.machine.terminal import counted
from bires.runs.run import Run
from bires.settings.recipes import recipe_of
from bires.tools.playing import player

BACKENDS = ("egl", "osmesa", "glfw")
"""GL libraries in the order in which they are tried: the first two need no display."""
GL_ADVICE = (
    "Install a GL library that needs no display: `apt install libegl1 libgl1-mesa-dri` (MUJOCO_GL=egl) or "
    "`apt install libosmesa6` (MUJOCO_GL=osmesa). `bires doctor` says what works."
)
PATIENCE_S = 1800


@dataclass(frozen=True)
class Played:
    """One noise-free episode, and its video if there is one."""

    member: int
    episode: int
    total: float
    """The return."""
    steps: int
    video: Path
    frames: int
    fps: float
    backend: str

    def _repr_html_(self) -> str:
        """What a notebook shows: the video itself."""
        try:
            data = b64encode(self.video.read_bytes()).decode()
        except OSError:  # it was moved
            return html.escape(repr(self))
        if self.video.suffix == ".gif":
            return f'<img src="data:image/gif;base64,{data}">'
        return f'<video controls loop src="data:video/mp4;base64,{data}"></video>'


def play(
    run: Run, member: int, episode: int, video: Path | None, say: Callable[[str], object] = lambda text: None
) -> Played:
    """Films evaluation episode number ``episode`` of a member at the newest checkpoint; None: into the run folder."""
    video = video or run.path / f"member-{member}{ending()}"
    require_writable(video)
    backends = chosen_backends()
    with without_gl():
        film, total = act(run, member, episode, video)
    say(f"return {total:.1f} in {counted(len(film.actions), 'step')}; drawing them …")  # a minute, in software
    backend, answer = shoot(film, backends)
    if answer["return"] != total:
        raise UserError(
            f"{run.config.task} did not repeat its episode: return {total:g}, then {answer['return']:g} in the "
            "process that filmed it. An environment must depend on reset(seed=…) and its actions alone."
        )
    return Played(member, episode, total, len(film.actions), video, int(answer["frames"]), answer["fps"], backend)


def act(run: Run, member: int, episode: int, video: Path) -> tuple[Film, float]:
    """Plays the episode that an evaluation starts from the same state; its actions and its return."""
    with player(run, member) as one:
        if not one.environment.drawable:
            raise UserError(
                f"Task {run.config.task!r} cannot be drawn: its metadata['render_modes'] lacks 'rgb_array'. An "
                "environment of your own needs that mode and a render() that gives a picture."
            )
        made = recipe_of(run.config)
        if not made.portable:
            raise UserError(
                f"Task {run.config.task!r} can only be built by the process that registered it, and it is another one "
                "that films. Register it in a module, and name the task MODULE:ID."
            )
        played = one.play(episode)
    actions = [action.tolist() for action in played.actions]
    return Film(asdict(made), played.seed, actions, str(video)), math.fsum(played.rewards)


def shoot(film: Film, backends: Sequence[str]) -> tuple[str, dict[str, float]]:
    """Films with the first GL library that works; returns its name, too."""
    failures: dict[str, str] = {}
    for backend in backends:
        done = render([], backend, json.dumps(asdict(film)))
        if done.returncode == 0:
            return backend, json.loads(done.stdout.splitlines()[-1])
        if done.returncode == 2:
            raise UserError(done.stderr.strip())
        failures[backend] = last_line(done.stderr)
    if len(failures) > 1 and len(set(failures.values())) == 1:  # the same with every library: the cause is another one
        raise UserError(f"{film.recipe['id']} could not be drawn: {failures[backends[0]]}")
    reasons = [f"  {backend}: {reason}" for backend, reason in failures.items()]
    raise UserError("\n".join(["No picture could be drawn here:", *reasons, GL_ADVICE]))


def chosen_backends() -> tuple[str, ...]:
    """The user's MUJOCO_GL alone, if it names a library, or all."""
    given = os.environ.get("MUJOCO_GL", "").lower()
    return (given,) if given in BACKENDS else BACKENDS


@contextmanager
def without_gl() -> Iterator[None]:
    """A GL library that is named and missing fails at import; an episode is played without any."""
    before = os.environ.get("MUJOCO_GL", "disable")
    os.environ["MUJOCO_GL"] = "disable"
    try:
        yield
    finally:
        os.environ["MUJOCO_GL"] = before


def render(
    arguments: list[str], backend: str, job: str = "", patience: float = PATIENCE_S
) -> subprocess.CompletedProcess[str]:
    """Runs `bires.envs.render` with one GL library; one that hangs has failed."""
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path),
        "MUJOCO_GL": backend,
        "PYOPENGL_PLATFORM": backend if backend in ("egl", "osmesa") else "",
    }
    command = [sys.executable, "-m", "bires.envs.render", *arguments]
    try:
        return subprocess.run(command, input=job, capture_output=True, text=True, env=environment, timeout=patience)
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 1, "", f"nothing came within {patience:g} s")


def last_line(text: str) -> str:
    return (text.strip().splitlines() or ["no message"])[-1]


def has_ffmpeg() -> bool:
    return all(importlib.util.find_spec(name) for name in ("imageio", "imageio_ffmpeg"))


def ending() -> str:
    """Of a video's name, for the best format that can be written here."""
    return ".mp4" if has_ffmpeg() else ".gif"


def require_writable(video: Path) -> None:
    """Refuses a file that could not be written, before anything is played."""
    if video.suffix not in (".mp4", ".gif"):
        raise UserError(f"--video was given {video}; accepted: a name that ends in .mp4 or .gif.")
    if video.suffix == ".mp4" and not has_ffmpeg():
        raise UserError("An .mp4 needs imageio and its ffmpeg: `pip install 'bires[video]'`. A .gif needs neither.")
    try:
        video.parent.mkdir(parents=True, exist_ok=True)
        (probe := video.with_name(f".{video.name}.probe")).touch()
        probe.unlink()
    except OSError as error:
        raise UserError(f"Cannot write --video {video} ({error.strerror}). Give a place you may write to.") from error
