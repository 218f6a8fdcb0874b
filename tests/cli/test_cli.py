"""The command line as a user types it: what it prints, writes and answers to bad input."""

import json

import pytest

import bires
from bires import cli
from bires.runs.tables import read_csv
from bires.settings.keywords import changed
from tests.helpers import command, doomed, typed
from tests.synthetic import PAIR, make_run

QUICK = ["--steps", "60", "--warmup", "2e1", "--eval-every", "30", "--eval-episodes", "1", "--batch", "8"]
QUICK += ["--replay", "50", "--hidden", "16", "16", "--log-every", "10"]


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (["train", "walker-stnd"], "Did you mean 'walker-stand'"),
        (["train", "walker-stand", "--algorithm", "bi-res-dpg"], "Did you mean 'bi-res-ddpg'"),
        (["train", "walker-stand", "--rule", "bo"], "Unknown rule 'bo'"),
        (["train", "walker-stand", "--eta", "1.5"], "--eta was given 1.5; accepted: numbers from 0 to 1"),
        (["train", "walker-stand", "--eta", "-0.1"], "--eta was given -0.1"),
        (["train", "walker-stand", "--steps", "0"], "--steps was given 0; accepted: whole numbers from 1"),
        (["train", "walker-stand", "--steps", "inf"], "--steps"),
        (["train", "walker-stand", "--gamma", "nan"], "--gamma was given nan; accepted: finite numbers"),
        (["train", "walker-stand", "--steps", "100"], "--warmup 10000 leaves nothing to learn"),
        (["train", "walker-stand", "--hidden", "64"], "--hidden was given [64]"),
        (["train", "walker-stand", "--seed", "1", "1"], "some twice; equal seeds are equal members"),
        (["train", "walker-stand", "--tau", "0.1", "0.1"], "--tau was given [0.1, 0.1], some twice"),
        (["train", "walker-stand", "--eta", "0.05", "0.05"], "some twice; equal numbers are equal members"),
        (["train", "walker-stand", "--algorithm", "ddpg", "ddpg"], "some twice; equal names are equal members"),
        (["train", "walker-stand", "--rule", "td", "bi", "td"], "--rule was given ['td', 'bi', 'td'], some twice"),
        (["train", "walker-stand", "--steps", "1", "--warmup", "1"], "leaves nothing to learn in --steps 1. Give more"),
        (["train", "walker-stand", "--steps", "1e300"], "accepted: whole numbers below 2**31"),
        (["train", "walker-stand", "--hidden", "0", "0"], "2 or more layer sizes from 1"),
        (["bench", "--peers", "no-such-python"], "--peers was given no-such-python, which is not a program"),
        (["bench", "--populations", "0"], "--populations [0] were given; accepted: seconds above 0"),
        (["reproduce", "linear", "--task", "walker-stand"], "--task was given; the study linear takes --scale"),
        (["play", "no-such-run", "--episode", "-1"], "--episode was given -1; accepted: whole numbers from 0"),
        (["train", "walker-stand", "--seed", "0", "--seeds", "3"], "Both --seeds and --seed were given"),
        (["train", "Breakout", "--algorithm", "dqn", "--replay", "5"], "accepted, for pixels: from 6"),
        (["train", "walker-stand", "--workers", "-1"], "--workers was given -1"),
        (
            ["train", "CartPole-v1", "--algorithm", "bi-res-ddpg"],
            "2 discrete actions; bi-res-ddpg needs continuous ones. Use --algorithm dqn",
        ),
        (
            ["train", "walker-stand", "--algorithm", "dqn"],
            "continuous actions; dqn needs discrete ones. Use --algorithm ddpg",
        ),
        (["train", "walker-stand", "--algorithm", "ddpg", "dqn"], "Give algorithms of one agent"),
        (
            ["train", "CartPole-v1", "--algorithm", "dqn", "--tau", "0.1"],
            "--tau is not a setting of DQN; it belongs to DDPG, TD3, SAC, CrossQ. DQN has: --critic-lr",
        ),
        (["train", "CartPole-v1", "--algorithm", "dqn", "--epsilon-end", "2"], "--epsilon-end was given 2"),
        (["train", "CartPole-v1", "--algorithm", "dqn", "--target-every", "0.5"], "accepted: whole numbers"),
        (["train", "walker-stand", "--double-q"], "--double-q is not a setting of DDPG; it belongs to DQN"),
        (["train", "tests.environments:bires-test/Hopeless-v0", *QUICK], "no licence key"),
        (["train", "tests.environments:bires-test/Unbuildable-v0", *QUICK], "no such robot"),
        (["train", "walker-stand", "--stepz", "5"], "--steps"),
        (["resume", "no-such-run"], "is not a run folder"),
        (["evaluate", "no-such-run"], "is not a run folder"),
        (["reproduce", "figure-9"], "linear"),
        (["nonsense"], "nonsense"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_input_is_answered_with_code_2(words, answer, tmp_path):
    done = typed(*words, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert answer in done.stderr + done.stdout
    assert "defect" not in done.stderr


def test_a_folder_that_cannot_be_written_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    done = typed("train", "pendulum-swingup", *QUICK, "--out", str(tmp_path / "file" / "run"))
    assert done.returncode == 2
    assert "Cannot write to --out" in done.stderr


def test_an_environment_that_raises_in_every_member_is_reported_with_its_traceback(tmp_path):
    done = typed(
        "train",
        "tests.environments:bires-test/Raises-v0",
        *QUICK,
        "--seed",
        str(doomed_seed()),
        "--out",
        str(tmp_path / "run"),
    )
    assert done.returncode == 2
    assert "member 0 raised at step" in done.stderr
    assert "the motor came off" in done.stderr


def doomed_seed():
    return next(seed for seed in range(50) if doomed(seed, 0) and not doomed(seed, 1))


def test_compare_writes_its_files_and_its_run_can_be_evaluated(tmp_path):
    out = tmp_path / "run"
    done = command("compare", "pendulum-swingup", *QUICK, "--seeds", "2", "--out", str(out))
    assert done.returncode == 0, done.stderr
    assert "95 % intervals, seeds paired. Scores are in units of 1000" in " ".join(done.stdout.split())
    assert "curves.png" in done.stdout
    assert (out / "curves.png").read_bytes().startswith(b"\x89PNG")
    assert "Warning" not in done.stdout + done.stderr
    again = typed("compare", "pendulum-swingup", *QUICK, "--seeds", "2", "--out", str(out))
    assert "is finished" in again.stdout
    rows = json.loads(typed("evaluate", str(out), "--episodes", "2", "--member", "1", "--json").stdout)
    assert [row["member"] for row in rows] == [1]
    assert rows[0]["episodes"] == 2
    wrong = typed("evaluate", str(out), "--member", "9")
    assert wrong.returncode == 2
    assert "has members 0 to 3" in wrong.stderr


def test_compare_takes_what_it_is_given(tmp_path):
    words = ["--seed", "0", "--algorithm", "bi-res-ddpg", "res-ddpg", "--quiet", "--out", str(tmp_path)]
    assert typed("compare", "pendulum-swingup", *QUICK, *words).returncode == 0
    members = read_csv(tmp_path / "members.csv")
    assert (members["algorithm"].tolist(), members["seed"].tolist()) == (["bi-res-ddpg", "res-ddpg"], [0, 0])


def test_a_refused_command_leaves_nothing_behind(tmp_path):
    for words in (["walker-stnd"], ["CartPole-v1", "--algorithm", "ddpg"]):
        assert command("train", *words, cwd=tmp_path).returncode == 2
    assert list(tmp_path.iterdir()) == []


def test_the_version_is_printed():
    assert command("--version").stdout.startswith("bires 0.")


def test_without_a_command_the_help_is_printed():
    bare = command()
    assert bare.returncode == 2
    assert bare.stdout == command("--help").stdout
    assert "Traceback" not in bare.stderr


def test_members_that_diverged_are_left_out_of_an_evaluation(tmp_path):
    words = ["--algorithm", "ddpg", "--actor-lr", "1e30", "1e-4", "--seeds", "6", "--quiet", "--out", str(tmp_path)]
    assert typed("train", "Pendulum-v1", *QUICK, *words).returncode == 0
    members = (tmp_path / "members.csv").read_text()
    assert members.count("diverged,") == 6
    assert not (tmp_path / "errors").exists(), "the members diverged, their environments did not raise"
    found = typed("evaluate", str(tmp_path), "--episodes", "1")
    assert found.returncode == 0
    assert [line.split()[0] for line in found.stdout.splitlines()] == ["member", *["6", "7", "8", "9", "10", "11"]]
    assert "member 0 is skipped" in found.stderr
    with pytest.warns(UserWarning, match=r"member \d has no row; its environment raised: "):
        assert bires.evaluate(tmp_path, episodes=1)["member"].tolist() == [6, 7, 8, 9, 10, 11]
    rows = json.loads(typed("evaluate", str(tmp_path), "--episodes", "1", "--json").stdout, parse_constant=str)
    assert all(isinstance(row["q_mean"], float) for row in rows)


def test_json_is_json_also_when_quiet(tmp_path):
    done = typed("train", "pendulum-swingup", *QUICK, "--json", "--out", str(tmp_path / "a"))
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert events[0]["event"] == "start"
    assert events[-1]["event"] == "done"
    assert {"steps_per_second", "updates_per_second", "seconds_left", "returns"} <= events[-2].keys()
    progress = [event for event in events if event["event"] == "progress"]
    means = {event["evaluated_at"]: event["returns"] for event in progress if event["evaluated_at"] == event["step"]}
    assert len(means) > 1
    assert all(event["returns"] == means[event["evaluated_at"]] for event in progress)
    quiet = typed("train", "pendulum-swingup", *QUICK, "--quiet", "--json", "--out", str(tmp_path / "b"))
    assert [json.loads(line)["event"] for line in quiet.stdout.splitlines()][-1] == "done"
    assert quiet.stderr == ""
    again = typed("resume", str(tmp_path / "b"), "--quiet")
    assert (again.stdout, again.stderr) == ("", "")


def test_a_picture_that_cannot_be_written_is_no_error(copied):
    """As on a full disk: the run is finished, its table is shown, and the picture can be drawn later."""
    path = copied().path
    (path / "curves.png").mkdir()
    done = typed("resume", str(path))
    assert done.returncode == 0, done.stderr
    assert "cannot be written (Is a directory)" in done.stderr
    assert "bires resume" in done.stderr
    assert "learning curves" not in done.stdout
    (path / "curves.png").rmdir()
    assert "learning curves" in typed("resume", str(path)).stdout
    assert (path / "curves.png").is_file()


def test_list_shows_algorithms_rules_tasks_and_studies():
    done = typed("list")
    assert done.returncode == 0
    for name in ("bi-res-ddpg", "td", "humanoid-run", "HalfCheetah", "linear"):
        assert name in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("task", ["pendulum-swingup", "CartPole-v1"])
def test_bench_measures(task):
    flags = ["--task", task, "--populations", "1", "2", "--seconds", "0.2", "--json"]
    result = command("bench", *flags)
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)
    assert [(row["members"], row["rule"]) for row in found["populations"]] == [
        (members, rule) for members in (1, 2) for rule in ("td", "bi")
    ]
    for row in found["populations"]:
        assert row["updates_per_second"] > 0
        assert 0 < row["share_of_environments"] < 2
        assert row["share_of_peak"] > 0


def test_the_members_of_a_grid_are_told_apart_in_an_evaluation(copied):
    run = copied(tau=(1e-3, 5e-3))
    (first, second) = json.loads(typed("evaluate", str(run.path), "--episodes", "1", "--json").stdout)
    assert (first["kind"], first["tau"]) == ("bi-res-ddpg(0.05) tau=0.001", 1e-3)
    assert (second["kind"], second["tau"]) == ("bi-res-ddpg(0.05) tau=0.005", 5e-3)
    assert "tau" in typed("evaluate", str(run.path), "--episodes", "1").stdout
    assert "critic_lr" not in first, "all members have the same"


@pytest.mark.parametrize(("command", "advice"), [("train", True), ("reproduce", True), ("evaluate", False)])
def test_only_what_trains_goes_on_after_an_interruption(command, advice, monkeypatch, capsys):
    def interrupted(words):
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "attempt", interrupted)
    assert cli.main([command, "x"]) == 130
    assert ("bires resume RUN" in (said := capsys.readouterr().err)) == advice
    assert said.startswith("bires: interrupted")


def test_the_table_of_a_report_has_the_steps_of_its_longest_run(tmp_path):
    for name, seed, steps in (("a", 0, 400), ("b", 1, 800)):
        make_run(tmp_path / "runs" / name, changed(PAIR, seed=(seed,), steps=steps), upto=400)
    shown = typed("report", str(tmp_path / "runs"), "--out", str(tmp_path / "out")).stdout
    assert "walker-stand, 800 steps, evaluated last at step 400" in shown
