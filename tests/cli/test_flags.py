"""Flags: help shows what will be, and names of other libraries are answered with ours."""

import ast
import io
import re
from collections import Counter
from dataclasses import fields, is_dataclass
from itertools import pairwise
from pathlib import Path

import pytest

import bires
from bires.cli import TaskFirst, main, parse
from bires.cli.flags import Selection
from bires.cli.groups import GROUPS, with_groups
from bires.cli.output import Output
from bires.cli.training import Compare, Train, Tune
from bires.errors import UserError
from bires.machine.memory import free_memory
from bires.population.sizes import require_room
from bires.settings.config import Config
from bires.settings.doubts import doubts
from bires.settings.keywords import make_config
from bires.types import Space
from tests.helpers import typed


def default(text, flag):
    """What the help says of a flag."""
    plain = re.sub(r"[│\s]+", " ", text)
    found = re.search(rf"{flag} (?!, ).*?\(default: ([^)]*)\)", plain)
    assert found is not None, flag
    return found[1]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["walker-stand"], {"--steps": "1000000", "--warmup": "10000", "--hidden": "400 300"}),
        (["CartPole-v1"], {"--steps": "100000", "--batch": "128", "--hidden": "256 256"}),
        (["walker-stand", "--algorithm", "td3"], {"--warmup": "100", "--batch": "256", "--hidden": "256 256"}),
        (["Breakout"], {"--batch": "32", "--update-every": "4", "--hidden": "512"}),
    ],
)
def test_help_shows_the_defaults_of_the_agent_and_the_task(words, expected):
    said = typed("train", *words, "--help")
    assert said.returncode == 0
    assert {flag: default(said.stdout, flag) for flag in expected} == expected
    assert "by agent" not in said.stdout


def test_what_is_trained_where_no_algorithm_is_named_can_act_there():
    assert make_config("Pendulum-v1", {}).algorithm == ("bi-res-ddpg",)
    assert make_config("CartPole-v1", {}).algorithm == ("bi-res-dqn",)
    assert make_config("Breakout", {}).algorithm == ("bi-res-dqn",)
    assert parse(["train", "CartPole-v1", "--rule", "td"]).config.algorithm == ("bi-res-dqn",)
    assert parse(["tune", "CartPole-v1", "--eta", "0", "1"]).config.algorithm == ("bi-res-dqn",)


@pytest.mark.parametrize("command", [Train, Compare, Tune])
def test_every_field_of_a_command_is_a_flag_in_one_group(command):
    """Beside the task and what is filled in, such as a search's trials."""
    inner = {"task", "own", "tuning", "config", "output", "names"}
    wanted = Counter(item.name for record in (Config, Output, command) for item in fields(record)) - Counter(inner)
    grouped = Counter(name for group in GROUPS.values() for name in group.names)
    groups = [item.type for item in fields(with_groups(command, Selection([]))) if is_dataclass(item.type)]
    flags = Counter(item.name for group in groups for item in fields(group))
    own = Counter(setting.name for settings in Selection([]).groups().values() for setting in settings)
    assert flags == wanted + own
    assert max(grouped.values()) == 1


def test_help_has_the_groups_that_a_user_looks_for():
    said = typed("train", "CartPole-v1", "--algorithm", "dqn", "--help").stdout
    found = re.findall(r"(\w+) options\b", said)
    assert found == ["population", "run", "agent", "planning", "environment", "machine"]
    assert "None" not in said
    assert "search options" in typed("tune", "--help").stdout


@pytest.mark.parametrize("words", [["train"], ["compare"], ["tune"], ["train", "CartPole-v1"]])
def test_help_shows_the_order_that_is_accepted(words):
    assert typed(*words, "--help").stdout.startswith(f"usage: bires {words[0]} TASK [options]\n")


def test_help_on_a_terminal_shows_that_order_too():
    out = io.StringIO()
    TaskFirst(out).write("\x1b[1musage:\x1b[0m\x1b[m \x1b[0m\x1b[mbires\x1b[0m train\x1b[0m [-h] \x1b[1mTASK\x1b[0m")
    assert out.getvalue() == "\x1b[1musage:\x1b[0m\x1b[m bires train TASK [options]"


def test_of_a_flag_that_is_typed_twice_the_last_counts():
    assert typed("train", "walker-stand", "--batch", "32", "--batch", "64", "--help").returncode == 0


def test_what_is_shown_is_not_taken_as_given(tmp_path):
    """A short run is evaluated at its end, unless --eval-every was typed."""
    words = ["--steps", "40", "--warmup", "20", "--hidden", "16", "16", "--eval-episodes", "1", "--workers", "0"]
    assert typed("train", "Pendulum-v1", *words, "--quiet", "--out", str(tmp_path / "run")).returncode == 0
    run = bires.load(tmp_path / "run")
    assert (run.config.eval_every, run.config.batch, run.config.hidden) == (40, 64, (16, 16))


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (["walker-stand", "--learning-rate", "3e-4"], "use --critic-lr and --actor-lr."),
        (["CartPole-v1", "--algorithm", "dqn", "--learning-rate=3e-4"], "use --critic-lr."),
        (["walker-stand", "--total-timesteps", "1e6"], "use --steps."),
        (["walker-stand", "--n-envs", "8"], "use --seeds (more members, each"),
        (["--env-id", "CartPole-v1"], "the task comes first, without a name, as in `bires train CartPole-v1`"),
        (["walker-stand", "--buffer-size", "1e6"], "use --replay."),
        (["walker-stand", "--batch", "32", "64"], "--batch was given 32 64; it cannot vary within one program"),
        (["walker-stand", "--algorithm", "td3", "--critics", "1", "2"], "--critics was given 1 2; it cannot vary"),
    ],
)
def test_names_of_other_libraries_are_answered_with_ours(words, answer, tmp_path):
    said = typed("train", *words, cwd=tmp_path)
    assert said.returncode == 2
    assert answer in said.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (["compare", "--agent", "td3", "Pendulum-v1"], "The task comes first: `bires compare TASK --agent td3 …`"),
        (
            ["train", "--algorithm", "ddpg", "Pendulum-v1"],
            "The task comes first: `bires train TASK --algorithm ddpg …`",
        ),
        (["compare", "Pendulum-v1", "--algorithm", "sac"], "Use --agent sac, which is sac and bi-res-sac;"),
        (["trian", "Pendulum-v1"], "Unknown command 'trian'. Did you mean 'train'?"),
        (["train", "Pendulum-v1", "--seed", "five"], "--seed was given 'five'; accepted: whole numbers."),
        (["train", "Pendulum-v1", "--hidden", "32,32"], "Separate several values by spaces."),
        (["train", "Pendulum-v1", "--steps", "1.5"], "--steps was given '1.5'; accepted: whole numbers."),
        (["train", "Pendulum-v1", "--tau", "x"], "--tau was given 'x'; accepted: numbers"),
        (["train", "Pendulum-v1", "--algorithm", "SAC"], "Unknown algorithm 'SAC'. Did you mean 'sac'"),
        (["train", "Pendulum-v1", "--algorithm", "sac", "--ent-coef", "1"], "use --alpha."),
        (["train", "Pendulum-v1", "--device", "cpu"], "JAX_PLATFORMS=cpu"),
        (["train", "Pendulum-v1", "--policy-kwargs", "{}"], "networks have layers of --hidden units"),
        (["train", "Pendulum-v1", "--gae-lambda", "0.95"], "it belongs to on-policy agents such as PPO"),
        (["train", "Pendulum-v1", "--algorithm", "PPO"], "on-policy agents are not here."),
        (["train", "Pendulum-v1", "--stpes", "4"], "`bires train` has no --stpes. Did you mean --steps?"),
        (["resume", "runs/x", "--batch", "3"], "`bires resume` has no --batch: a run keeps the settings"),
        (["play", "runs/x", "--quiet"], "`bires play` has no --quiet, which is for `bires train`, "),
        (["train", "Pendulum-v1", "--agent", "td3"], "no --agent; use --algorithm, as in --algorithm td3 bi-res-td3."),
        (["train", "Pendulum-v1", "--algorithm", "sac,td3"], "as separate values, without a comma."),
        (["train", "Pendulum-v1", "--activation-fn", "tanh"], "use --activation."),
        (["train", "Pendulum-v1", "--lr-schedule", "linear"], "use --lr-end and --lr-until."),
        (["--json", "doctor"], "--json was given before the command; type the command first"),
        (["list", "rules", "tasks"], "`bires list` has no use for 'tasks'."),
        (["train", "Pendulum-v1", "--steps"], "--steps was given no value; give one."),
        (["train", "Pendulum-v1", "--workers", "many"], "bires: --workers was given 'many'; accepted: whole numbers."),
        (["train", "Pendulum-v1", "--protocol", "pape"], "--protocol was given 'pape'; accepted: modern, paper."),
        (["train", "Pendulum-v1", "--log", "tb"], "--log was given 'tb'; accepted: tensorboard, wandb."),
        (["train", "Pendulum-v1", "--algorithm", "td3", "--forward_successor", "x"], "accepted: min, own."),
        (["reproduce", "auc", "--scale=huge"], "'huge'; accepted: smoke, laptop, small, paper."),
        (["evaluate", "runs/x", "--member", "0,1"], "whole numbers. Separate several values by spaces."),
        (["play", "--member", "one", "runs/x"], "--member was given 'one'; accepted: whole numbers."),
        (["bench", "--seconds", "x"], "--seconds was given 'x'; accepted: numbers."),
        (
            ["list", "task"],
            "`bires list` was given 'task'; accepted: all, algorithms, rules, planners, settings, tasks",
        ),
        (["train", "Hopper-v2"], "'Hopper-v2' is too old for this Gymnasium. Use 'Hopper-v5'."),
        (["train", "Pendulum-v1", "--env-kwargs", '{"gg": 5}'], "--env-kwargs has 'gg', which it does not accept."),
    ],
    ids=str,
)
def test_mistakes_are_answered_with_what_to_type(words, answer, tmp_path):
    said = typed(*words, cwd=tmp_path)
    assert said.returncode == 2
    assert answer in said.stderr
    assert said.stdout == ""
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (["Pendulum-v1", "--algorithm"], "--algorithm was given no value; give one or more."),
        (["Pendulum-v1", "--rule", "--steps", "1e5"], "--rule was given no value; give one or more."),
        (["Pendulum-v1", "--disturb", "-1"], "--disturb was given -1; accepted: numbers from 0 (actions lie"),
        (["Hopper", "--planner", "dyna", "--planning-steps", "1e6"], "accepted: whole numbers from 0 to 1000."),
        (["CartPole-v1", "--target-every", "1e12"], "accepted: whole numbers from 1 to 16777216."),
        (["CartPole-v1", "--hidden", "99999999999"], "such as --hidden 256 256."),
        (["CartPole-v1", "--hidden", "9999", "--batch", "1e9"], "such as --batch 256."),
    ],
    ids=str,
)
def test_no_default_is_taken_in_silence_and_advice_is_of_use(words, answer, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["train", *words]) == 2
    assert answer in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_small_batch_is_not_to_blame_for_wide_layers():
    config = make_config(
        "CartPole-v1",
        {"hidden": (free_memory() // 100,)},  # one row fits, a batch does not
    )
    space = Space(1, 1, (0.0,), (1.0,), choices=2)
    with pytest.raises(UserError, match=r"--batch 128 needs .* such as --hidden 256 256\."):
        require_room(config, space)


def test_a_comparison_shows_its_own_defaults():
    said = re.sub(r"[│\s]+", " ", typed("compare", "Pendulum-v1", "--agent", "sac", "--help").stdout)
    assert "(default: the agent and its Bi-Res version)" in said
    assert "(default: 0 1 2 3 4)" in said
    assert "--target-entropy" in said


def test_a_task_is_the_same_whatever_its_case():
    assert make_config("Walker-Walk", {}).task == "walker-walk"
    assert make_config("halfcheetah", {}).task == "HalfCheetah"
    assert make_config("HalfCheetah-v5", {}).task == "HalfCheetah-v5"


def test_several_eta_that_no_rule_reads_are_worth_a_warning():
    assert any(
        "--eta was given several" in one
        for one in doubts(make_config("Hopper", {"eta": (0.1, 0.2), "algorithm": "ddpg"}))
    )
    assert not list(doubts(make_config("Hopper", {"eta": (0.1, 0.2)})))


def test_so_are_keywords():
    with pytest.raises(UserError, match="total_timesteps is not a setting here; use steps"):
        bires.train("walker-stand", total_timesteps=5)


def test_help_is_not_broken_in_the_middle_of_a_sentence():
    """Tyro keeps the line breaks of a text below a field, so these texts have one line."""
    folder = Path(bires.__file__).parent
    for path in (*(folder / "cli").glob("*.py"), folder / "settings" / "config.py"):
        records = [node for node in ast.parse(path.read_text()).body if isinstance(node, ast.ClassDef)]
        for item, below in (pair for record in records for pair in pairwise(record.body)):
            if (
                isinstance(item, ast.AnnAssign)
                and isinstance(below, ast.Expr)
                and isinstance(below.value, ast.Constant)
            ):
                assert "\n" not in str(below.value.value), f"{path.name}: {ast.unparse(item.target)}"
