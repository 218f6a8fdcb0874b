"""`--json`: the standard output is JSON and nothing else, of every command that has a result."""

import json
from contextlib import closing
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from bires.cli.commands import flags_in, records_of
from bires.envs.recipe import recipe
from bires.machine.terminal import json_line
from bires.tools.bench import report
from tests.helpers import QUICK, command, typed

SETTINGS = {name: value for name, value in QUICK.items() if name != "quiet"}


class Chatty(gymnasium.Env):
    """Prints, and can be drawn."""

    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012
    observation_space = spaces.Box(-1, 1, (2,), np.float32)
    action_space = spaces.Box(-1, 1, (1,), np.float32)

    def __init__(self, render_mode=None):
        self.render_mode = render_mode

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        print("a new episode")
        return self.np_random.uniform(-1, 1, 2).astype(np.float32), {}

    def step(self, action):
        return self.np_random.uniform(-1, 1, 2).astype(np.float32), -float(action[0] ** 2), False, False, {}

    def render(self):
        return np.zeros((16, 16, 3), np.uint8)


gymnasium.register("bires-test/Chatty-v0", entry_point=f"{__name__}:Chatty", max_episode_steps=10)
CHATTY = f"{__name__}:bires-test/Chatty-v0"


def answer(said):
    """What a command printed: one line of JSON."""
    assert said.returncode == 0, said.stderr
    assert said.stdout.count("\n") == 1
    assert "\n " not in said.stdout
    return json.loads(said.stdout, parse_constant=pytest.fail)


@pytest.fixture
def run(copied):
    return str(copied(task=CHATTY, algorithm=["ddpg", "bi-res-ddpg"], seed=(0, 1)).path)


def test_every_command_has_it():
    assert all("--json" in flags_in(record) for record in records_of([]).values())


def test_a_report(run, tmp_path):
    found = answer(typed("report", run, "--trust", "--json", "--out", str(tmp_path / "out")))
    assert Path(found["report"]).is_file()
    assert found["runs"] == [run]
    assert found["notes"] == []
    assert [row["kind"] for row in found["summary"]] == ["ddpg", "bi-res-ddpg(0.05)"]
    assert found["summary"][1]["difference"].keys() == {"value", "low", "high"}
    assert [total["kind"] for total in found["totals"]] == ["ddpg", "bi-res-ddpg(0.05)"]


def test_the_notes_of_a_report_are_in_it(copied, tmp_path):
    path = copied(task=CHATTY).path
    manifest = json.loads((path / "manifest.json").read_text())
    manifest["config"]["steps"], manifest["end"] = 200, None
    (path / "manifest.json").write_text(json.dumps(manifest))
    words = ["report", str(path), "--trust", "--out", str(tmp_path / "out")]
    (note,) = answer(typed(*words, "--json"))["notes"]
    assert note == "Not finished: run (step 60 of 200)."
    assert typed(*words).stdout.startswith(f"{note}\n")


def test_a_video(run, tmp_path):
    found = answer(typed("play", run, "--trust", "--json", "--video", str(tmp_path / "a.gif")))
    assert found["video"] == str(tmp_path / "a.gif")
    assert (found["member"], found["episode"], found["steps"], found["frames"]) == (0, 0, 10, 11)


def test_an_export(run, tmp_path):
    found = answer(typed("export", run, "--trust", "--to", "hub", "--out", str(tmp_path / "hub"), "--json"))
    assert found["path"] == str(tmp_path / "hub")
    assert "hf upload" in found["advice"]


@pytest.mark.parametrize("what", ["all", "algorithms", "rules", "planners", "settings", "tasks", "studies"])
def test_lists(what):
    found = answer(typed("list", what, "--json"))
    assert what == "all" or list(found) == [what]
    assert all(one["name"] for entries in found.values() for one in entries)


def test_checks_are_one_line_like_the_others():
    assert [row["what"] for row in answer(typed("check", "Pendulum-v1", "--json"))][:2] == ["task", "steps"]


@pytest.mark.parametrize("study", ["auc", "linear"])
def test_what_a_study_would_take(study, tmp_path):
    task = ["--task", "pendulum-swingup"] if study == "auc" else []
    words = ["--scale", "smoke", *task, "--dry-run", "--json", "--out", str(tmp_path)]
    (row,) = answer(typed("reproduce", study, *words))
    assert row["seconds"] > 0


def test_an_evaluation_in_which_the_environment_prints(run):
    rows = answer(typed("evaluate", run, "--trust", "--episodes", "1", "--workers", "0", "--json"))
    assert [row["member"] for row in rows] == [0, 1, 2, 3]


def test_a_benchmark_in_which_the_environment_prints(monkeypatch):
    def measured(subject, populations, seconds):
        with closing(recipe(CHATTY, "modern").build()) as environment:
            environment.reset(0)
        return {"task": subject.task}

    monkeypatch.setattr(report, "measured", measured)
    monkeypatch.setattr("bires.tools.bench.measure.first_update_seconds", lambda task, agent: float("nan"))
    assert answer(typed("bench", "--task", CHATTY, "--json")) == {"task": CHATTY, "first_update_seconds": None}


@pytest.mark.parametrize(
    "where", [["--workers", "0"], ["--workers", "1"], ["--workers", "0", "--cohorts", "processes"]]
)
def test_a_run_in_which_the_environment_prints(where, tmp_path):
    words = [
        text
        for name, value in SETTINGS.items()
        for text in (f"--{name.replace('_', '-')}", *map(str, value if isinstance(value, tuple) else (value,)))
    ]
    done = command("train", CHATTY, *words, "--seeds", "6", *where, "--out", str(tmp_path / "run"), "--json")
    assert done.returncode == 0, done.stderr
    assert [json.loads(line)["event"] for line in done.stdout.splitlines()][-1] == "done"
    assert "a new episode" in done.stderr


def test_what_json_has_no_number_for_is_null():
    assert json_line([float("nan"), float("inf"), {"a": (Path("b"), None)}]) == '[null, null, {"a": ["b", null]}]'
