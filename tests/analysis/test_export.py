"""Exports, read back: every number once, under stable ids, however often one exports."""

import struct
import subprocess
import sys
from pathlib import Path

import pytest
from tensorboardX.proto.event_pb2 import Event

from bires.analysis.export import viewed_members
from bires.cli import main
from bires.runs.run import Run
from bires.settings.config import Config
from bires.settings.keywords import changed
from tests.synthetic import make_run

PAIR = Config("walker-stand", algorithm=("ddpg", "bi-res-ddpg"), seed=(3, 7), steps=400, warmup=10, eval_every=100)


def read_events(path: Path) -> list[tuple[int, str, float]]:
    """(step, tag, value) of all scalars: length, its checksum, an event, its checksum, and so on."""
    data, found, place = path.read_bytes(), [], 0
    while place < len(data):
        (length,) = struct.unpack_from("<Q", data, place)
        event = Event.FromString(data[place + 12 : place + 12 + length])
        found += [(event.step, v.tag, v.simple_value) for v in event.summary.value if v.HasField("simple_value")]
        place += 16 + length
    return found


def continued(run: Run) -> None:
    """One more evaluation of the first member, as after a resume."""
    with (run.path / "evaluations.csv").open("a") as file:
        file.write("0,500,20,9.5,1,8,11,1000,,0.25\n")


def events(out: Path) -> dict[str, Path]:
    return {path.parent.relative_to(out).as_posix(): path for path in sorted(out.rglob("*tfevents*"))}


def test_tensorboard_has_every_number_once(tmp_path):
    run, out = make_run(tmp_path / "run", PAIR), tmp_path / "tb"
    words = ["export", str(run.path), "--to", "tensorboard", "--out", str(out)]
    assert main(words) == 0
    first = events(out)
    kinds = ("bi-res-ddpg(0.05)", "ddpg")
    assert list(first) == [f"walker-stand/{kind}/seed-{seed}" for kind in kinds for seed in (3, 7)]
    row = [row for row in run.evaluations.rows() if row["member"] == 0][-1]
    scalars = read_events(first["walker-stand/ddpg/seed-3"])
    values = {(step, tag): value for step, tag, value in scalars}
    assert values[400, "evaluation/return_mean"] == pytest.approx(row["return_mean"], rel=1e-6)
    assert len(values) == len(scalars)
    assert {step for step, tag in values if tag == "evaluation/return_mean"} == {0, 100, 200, 300, 400}

    continued(run)
    assert main(words) == 0
    assert events(out) == first
    again = read_events(first["walker-stand/ddpg/seed-3"])
    assert sorted(set(again) - set(scalars))[0][0] == 500
    assert (500, "evaluation/bellman_error", 0.25) in again
    assert not [tag for step, tag, _ in again if step == 500 and tag == "evaluation/q_mean"]  # an empty cell
    assert len(again) == len(scalars) + 7


def test_names_tell_runs_apart_and_old_names_go(tmp_path):
    one, out = make_run(tmp_path / "runs" / "a", PAIR), tmp_path / "tb"
    assert main(["export", str(one.path), "--out", str(out)]) == 0
    alone = changed(PAIR, algorithm=("ddpg",), seed=(3,))
    slow, twin = changed(alone, tau=1e-4), changed(alone, batch=32)
    for name, config in (("b", slow), ("c", twin)):
        make_run(tmp_path / "runs" / name, config)
    assert main(["export", str(tmp_path / "runs"), "--out", str(out)]) == 0
    names = list(events(out))
    assert len(names) == 6
    assert "walker-stand/ddpg tau=0.0001/seed-3" in names
    assert len([name for name in names if name.startswith("walker-stand/ddpg tau=0.001/seed-3-")]) == 2
    assert not (out / "walker-stand" / "ddpg").exists()


def test_planners_and_old_runs_are_told_apart(tmp_path):
    planned = changed(PAIR, task="Hopper", algorithm=("ddpg", "dyna-ddpg"), planning_steps=(1, 4), seed=(0,))
    groups = [one.group for one in viewed_members([make_run(tmp_path / "a", planned)])]
    assert groups == ["ddpg", "dyna-ddpg planning_steps=1", "dyna-ddpg planning_steps=4"]
    old = Run(Path(__file__).parents[2] / "results" / "learning" / "walker-stand")
    assert len(viewed_members([old])) == 10


def test_ids_survive_a_move_and_a_longer_run(tmp_path):
    run = make_run(tmp_path / "run", PAIR)
    ids = [one.id for one in viewed_members([run])]
    assert len(set(ids)) == 4
    text = (run.path / "manifest.json").read_text().replace('"steps": 400', '"steps": 900')
    assert '"steps": 900' in text
    (run.path / "manifest.json").write_text(text)
    run.path.rename(tmp_path / "moved")
    assert [one.id for one in viewed_members([Run(tmp_path / "moved")])] == ids


def test_wandb_offline_without_an_account(tmp_path):
    config = Config("walker-stand", algorithm=("bi-res-ddpg",), seed=(3,), steps=400, warmup=10, eval_every=100)
    run = make_run(tmp_path / "run", config)
    words = ["export", str(run.path), "--to", "wandb", "--out", str(tmp_path), "--project", "mine"]
    code = f"from bires.cli import main; assert main({words}) == 0; assert main({words}) == 0"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("1 member, offline") == 2
    (one,) = viewed_members([run])
    (folder,) = (tmp_path / "wandb").glob("offline-run-*")
    assert folder.name.endswith(one.id)
    data = (folder / f"run-{one.id}.wandb").read_bytes()
    for text in ("mine", "bi-res-ddpg(0.05)", "seed-3", "walker-stand"):
        assert text.encode() in data, text
    assert data.count(b"evaluation/bellman_error") >= 5


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (["nowhere"], "is not a run folder"),
        ([], "Give one or more run folders"),
        (["RUN", "--out", "/proc/nowhere"], "Cannot write to --out"),
    ],
    ids=str,
)
def test_bad_input_is_refused(words, answer, tmp_path, capsys):
    run = make_run(tmp_path / "run", PAIR)
    assert main(["export", *(str(run.path) if word == "RUN" else word for word in words)]) == 2
    assert answer in capsys.readouterr().err


def test_a_missing_library_is_named(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "wandb", None)
    assert main(["export", str(make_run(tmp_path / "run", PAIR).path), "--to", "wandb"]) == 2
    assert "pip install 'bires[wandb]'" in capsys.readouterr().err
