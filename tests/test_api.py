"""The library's front door: what settings may be, what policies take, what a manifest says."""

import inspect
import os
import signal
import subprocess
import threading
from typing import Any, get_args, get_type_hints

import gymnasium
import numpy as np
import pytest

import bires
from bires.agents.registry import AGENTS
from bires.api.keywords import Numbers, RunSettings, Settings
from bires.api.results import one_member
from bires.api.spelling import in_python
from bires.api.training import make_options
from bires.envs.families import FAMILIES
from bires.planning.registry import SETTINGS
from bires.runs import folder as runs
from bires.settings import config as configs
from bires.settings import grid
from bires.settings.keywords import make_config
from bires.settings.options import Options
from bires.training.launch import begin_or_continue
from tests.helpers import configured
from tests.synthetic import PAIR, make_run


def test_a_commit_is_named_only_where_it_is_the_sources(tmp_path, monkeypatch):
    def git(*words):
        subprocess.run(["git", "-C", tmp_path, "-c", "user.name=x", "-c", "user.email=x@y.z", *words], check=True)

    source = tmp_path / "site-packages" / "runs.py"
    source.parent.mkdir()
    source.touch()
    git("init", "-q")
    git("commit", "-q", "--allow-empty", "-m", "somebody else's")
    monkeypatch.setattr(runs, "__file__", str(source))
    assert runs.commit() is None
    git("add", ".")
    git("commit", "-q", "-m", "ours")
    assert len(runs.commit() or "") == 40


def test_evaluations_can_be_grouped_by_kind_without_losing_the_baseline(copied):
    run = copied(algorithm=("ddpg", "bi-res-ddpg"), eta=0.05, eta_end=0, eta_until=50)
    table, again = run.evaluations, run.evaluate(episodes=1, workers=0)
    assert [again["kind"][member] for member in table["member"]] == table["kind"].tolist()
    assert set(table["kind"]) == {"ddpg", "bi-res-ddpg(0.05→0)"}
    assert set(run.metrics["kind"]) == set(table["kind"])
    assert "kind" not in (run.path / "evaluations.csv").read_text().splitlines()[0]


def test_kinds_are_told_apart_by_whatever_varies(copied):
    """As in figures and in the summary; grouping by kind would average over learning rates."""
    run = copied(algorithm="bi-res-ddpg", eta=0.05, critic_lr=(1e-3, 2e-3))
    kinds = [f"bi-res-ddpg(0.05) critic_lr={rate:g}" for rate in (1e-3, 2e-3)]
    assert list(dict.fromkeys(run.evaluations["kind"])) == run.summary()["kind"].tolist() == kinds
    assert set(run.evaluate(episodes=1, workers=0)["kind"]) == set(run.metrics["kind"]) == set(kinds)
    seed = int(run.members["seed"][0])
    one, same = run.policy(kind=kinds[1], seed=seed), run.policy(kind="bi-res-ddpg(0.05)", critic_lr=2e-3, seed=seed)
    assert one.about["member"] == same.about["member"]


def test_a_policy_takes_the_observations_of_its_task(tmp_path, quick):
    run = bires.train("cartpole-swingup", out=tmp_path / "run", **quick)
    policy = run.policy(member=0)
    env: Any = gymnasium.make("dm_control/cartpole-swingup-v0")
    observation, _ = env.reset(seed=0)
    flat: Any = gymnasium.spaces.flatten(env.observation_space, observation)
    assert isinstance(observation, dict)
    assert policy(observation).shape == (1,)
    np.testing.assert_array_equal(policy(observation), policy(flat))
    np.testing.assert_allclose(policy(np.stack([flat, flat]))[1], policy(flat), rtol=1e-5)
    with pytest.raises(bires.UserError, match=r"given 2 numbers.*5 numbers, or several"):
        policy([1.0, 2.0])
    for wrong in ({}, {"position": observation["position"]}, {**observation, "position": "left"}):
        with pytest.raises(bires.UserError, match=r"accepted: an observation of cartpole-swingup, in Dict\("):
            policy(wrong)


def test_a_short_run_is_evaluated_at_its_end(tmp_path, quick):
    assert make_config("Pendulum-v1", {"steps": 500}).eval_every == 500
    assert make_config("Pendulum-v1", {"steps": 50_000}).eval_every == 10_000
    said: list[str] = []
    config = configured(quick, "pendulum-swingup", eval_every=100)
    begin_or_continue(config, tmp_path / "run", Options(workers=0, say=said.append))
    assert any("no trained policy is evaluated" in text for text in said)


# Everything the command line does, with the arguments' own names in messages.

FRONT: Any = bires
"""For calls that a type checker refuses."""
NAMELESS: Any = lambda: None  # noqa: E731
"""As in a notebook's cell: no name leads to it."""


@pytest.fixture
def run(undisturbed):
    return bires.load(undisturbed(algorithm=("ddpg", "bi-res-ddpg"), seeds=2))


def test_a_run_sums_itself_up(tmp_path):
    run = bires.load(make_run(tmp_path / "run", PAIR))
    found = run.summary()
    assert found["kind"].tolist() == ["ddpg", "bi-res-ddpg(0.05)"]
    assert {"auc", "final_return", "improvement", "improvement_low", "improvement_high"} <= set(found)
    areas = found["auc"]
    assert np.isnan(found["improvement"][0])
    assert found["improvement"][1] == pytest.approx(areas[1] / areas[0] - 1)
    assert found["improvement_low"][1] < found["improvement"][1] < found["improvement_high"][1]
    figure = run.figure()
    assert figure._repr_png_().startswith(b"\x89PNG")  # a notebook shows it, without pyplot
    figure.savefig(tmp_path / "curves.png")
    assert [ax.get_title() for ax in figure.axes] == ["walker-stand"]


def test_evaluating_starts_where_the_run_did_not(undisturbed):
    """A member that was chosen by its last evaluation must not be confirmed by the same episodes."""
    run = bires.load(undisturbed())
    last = run.evaluations.where(run.evaluations["step"] == run.config.steps)["return_mean"]
    again = run.evaluate(episodes=run.config.eval_episodes, workers=0)["return_mean"]
    assert not np.any(last == again)


def test_evaluating_reporting_and_exporting_in_python(run, tmp_path):
    table = bires.evaluate(run, episodes=2, member=[1, 3], workers=0)
    assert table["member"].tolist() == [1, 3]
    assert table["episodes"].tolist() == [2, 2]
    assert table["kind"].tolist() == ["ddpg", "bi-res-ddpg(0.05)"]
    assert table["seed"].tolist() == [1, 1]
    assert len(run.evaluate(episodes=1, member=0, workers=0.0)) == 1
    for wrong in ("0", 1.5):
        with pytest.raises(bires.UserError, match=rf"workers was given {wrong!r}; accepted: whole numbers"):
            run.evaluate(workers=wrong)
    with pytest.raises(bires.UserError, match="member was given True; accepted: whole numbers"):
        run.evaluate(member=True)
    assert type(make_options(2.0, "by-size", 10.0, False, None, None).workers) is int  # type: ignore[arg-type]
    earlier: dict[str, Any] = {"members": [1, 3]}  # the argument's earlier name
    again = bires.evaluate(run, episodes=2, workers=0, **earlier)
    assert again["return_mean"].tolist() == table["return_mean"].tolist()
    made = bires.report([run, run.path], out=tmp_path / "report")  # twice the same: once
    assert repr(made) == f"Report({str(made.path)!r})"
    assert made.path.is_file()
    assert len(made.summary) == 2
    assert set(made.totals["kind"]) == {"ddpg", "bi-res-ddpg(0.05)"}
    pytest.importorskip("tensorboardX")
    out = bires.export(str(run.path), to="tensorboard", out=tmp_path / "tb")
    assert len(list(out.rglob("events*"))) == 4


def test_a_run_may_stand_where_its_folder_may(run):
    assert bires.load(run).path == run.path
    assert isinstance(run, bires.Run)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda run: FRONT.train("Pendulum-v1", steps="many"), "^steps was given 'many'; accepted: whole numbers"),
        (
            lambda run: bires.train("Pendulum-v1", steps=100, warmup=200),
            r"^warmup=200 leaves nothing to learn in steps=100",
        ),
        (lambda run: FRONT.train("Pendulum-v1", hidden=4), r"such as hidden=\(400, 300\)"),
        (lambda run: FRONT.train("Pendulum-v1", eval_every=0), "^eval_every was given 0"),
        (lambda run: FRONT.train("CartPole-v1", algorithm="dqn", tau=1.0), "^tau is not a setting of DQN"),
        (lambda run: FRONT.train("Pendulum-v1", seeds=2, seed=3), "^Both seeds and seed were given"),
        (lambda run: FRONT.train("Pendulum-v1", workers="2"), "^workers was given '2'"),
        (lambda run: FRONT.train("Pendulum-v1", cohorts="many"), "^cohorts was given 'many'; accepted: by-size"),
        (lambda run: FRONT.train("Pendulum-v1", out=3), "^out was given 3; accepted: the path of a folder"),
        (lambda run: FRONT.train(None), "^task was given None"),
        (lambda run: FRONT.compare("Pendulum-v1", agent="ddpg", algorithm="td3"), "^Both agent and algorithm"),
        (
            lambda run: FRONT.compare("Pendulum-v1", algorithm="sac"),
            "All members are sac: .* agent='sac', which is sac",
        ),
        (lambda run: FRONT.train(make_run), r"builds your environment\. Here: 'tests\.synthetic:make_run'\."),
        (
            lambda run: FRONT.train(gymnasium.make("Pendulum-v1")),
            r"Here: 'Pendulum-v1', whose arguments are env_kwargs\.",
        ),
        (
            lambda run: FRONT.train("Pendulum-v1", "sac"),
            "^train: 'sac' was given without a name; only task may be; acc",
        ),
        (lambda run: run.figure("curves.png"), "^figure: 'curves.png' was given without a name; it takes no arguments"),
        (lambda run: FRONT.load(), r"^load: missing a required argument: 'path'; accepted: path, trust"),
        (lambda run: FRONT.train(lambda: None), r"builds your environment\. For several"),
        (lambda run: FRONT.train(NAMELESS), r"builds your environment\. For several"),
        (lambda run: FRONT.train("Pendulum-v1", callbacks=print), "'callbacks'. Did you mean 'callback'"),
        (lambda run: FRONT.tune("Pendulum-v1", ranges={"lr": (0, 1)}), "^lr is not a setting here; use critic_lr"),
        (lambda run: FRONT.load_policy(run.path), r"is a run folder; its policies are those of bires\.load"),
        (lambda run: FRONT.resume(run, steps="3000"), "^steps was given '3000'; accepted: whole numbers"),
        (lambda run: FRONT.resume(run, steps=30), "^steps was given 30; .* Accepted: that many or more"),
        (lambda run: FRONT.resume(None), "^path was given None"),
        (lambda run: FRONT.load(None), "^path was given None; accepted: the path of a folder, or a run"),
        (lambda run: FRONT.load(""), "^path was given ''"),
        (lambda run: FRONT.load("nowhere"), "^nowhere is not a run folder"),
        (lambda run: run.policy("x"), "^member was given 'x'; accepted: whole numbers"),
        (lambda run: run.policy(4), "Member 4 was given; the run has members 0 to 3"),
        (lambda run: FRONT.evaluate(run, member=9), "^member was given 9; .* has members 0 to 3"),
        (lambda run: FRONT.evaluate(run, member=[]), "^member was given no number"),
        (lambda run: FRONT.evaluate(run, episodes=0), "^episodes was given 0; accepted: whole numbers from 1"),
        (lambda run: FRONT.report([]), "^runs was given nothing"),
        (lambda run: FRONT.report(None), "^runs was given None"),
        (lambda run: FRONT.report(run, study="auk"), "^Unknown study 'auk'. Did you mean 'auc'"),
        (lambda run: FRONT.report(run, study=["auc"]), r"^study was given \['auc'\]; accepted: text"),
        (lambda run: FRONT.reproduce(None), "^study was given None; accepted: text"),
        (lambda run: FRONT.reproduce("auc", task=None), "^task was given None; accepted: names of the study's tasks"),
        (lambda run: FRONT.train("Pendulum-v1", log=["wandb"]), r"^log was given \['wandb'\]; accepted: tensorboard"),
        (lambda run: run.policy(algorithm=["ddpg"]), r"^algorithm was given \['ddpg'\]; accepted: text"),
        (lambda run: FRONT.report(run, study="mujoco"), "^study was given mujoco, .* or no study.$"),
        (lambda run: run.policy(kinds="ddpg"), "Did you mean 'kind'.* Columns are those of run.members, and kind"),
        (lambda run: FRONT.report(run, study="linear"), "type `bires reproduce linear`"),
        (lambda run: FRONT.export(run, to="excel"), "^to was given 'excel'; accepted: tensorboard, wandb"),
        (lambda run: FRONT.play(run, episode=-1), "^episode was given -1"),
        (lambda run: FRONT.train("Pendulum-v1", verbose=1), "^verbose is not a setting here: .*quiet=True"),
        (lambda run: FRONT.train(["A", "B"]), r"one task, as text. For several: bires\.train_each"),
        (lambda run: FRONT.compare("Pendulum-v1", agent="bi-res-sac"), "; agent='sac' trains sac and bi-res-sac"),
        (lambda run: FRONT.compare("Pendulum-v1", agent="bi-res-sax"), "^Unknown agent 'bi-res-sax'"),
        (lambda run: FRONT.tune("Pendulum-v1"), r'such as ranges=\{"critic_lr": \(1e-4, 1e-2, "log"\)\}'),
    ],
)
def test_errors_name_arguments_as_they_are_typed(call, words, run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(bires.UserError, match=words) as caught:
        call(run)
    assert "--" not in str(caught.value)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("flags", "python"),
    [
        ("--eval-every was given 3", "eval_every was given 3"),
        ("use --rule td.", "use rule='td'."),
        ("--rule names the module 'x', which", "rule names the module 'x', which"),
        ("several --algorithm were given", "several algorithm were given"),
        ("Use --algorithm dqn, or another task.", "Use algorithm='dqn', or another task."),
        ("such as --hidden 400 300.", "such as hidden=(400, 300)."),
        ("Cannot write to --out a/b (No space). Give", "Cannot write to out='a/b' (No space). Give"),
        ("Give another --out, or use --keep-going to train on", "Give another out, or use keep_going=True to train on"),
        ("such as --range critic_lr 1e-4 1e-2 log.", 'such as ranges={"critic_lr": (1e-4, 1e-2, "log")}.'),
        ("--range critic_lr was given twice", "ranges['critic_lr'] was given twice"),
        ("--range was given nothing", "ranges was given nothing"),
        ("; --quiet prints nothing", "; quiet=True prints nothing"),
        ("type `bires resume x --steps 3`", "type `bires resume x --steps 3`"),
    ],
)
def test_messages_are_translated(flags, python):
    assert in_python(flags) == python


def test_completion_finds_every_setting_of_a_run():
    for function in (bires.train, bires.compare, bires.tune, bires.train_each):
        names = inspect.signature(function).parameters
        assert {*configs.types(), "seeds"} - {"task"} <= set(names)
        assert not {"args", "kwargs"} & set(names)
    assert {name for name in dir(bires) if not name.startswith("__")} == set(bires.__all__)
    assert "__version__" in dir(bires)


def test_the_typed_keywords_are_the_settings_there_are():
    run = {*configs.types(), "seeds"} - {"task"}
    agents = [spec for spec in AGENTS.values() if spec.make.__module__.startswith("bires.")]  # tests add their own
    listed = (SETTINGS, *(one.settings for one in agents), *(FAMILIES[one].settings for one in ("Atari", "MinAtar")))
    own = {one.name: one for settings in listed for one in settings}
    assert set(RunSettings.__annotations__) == run
    kinds = get_type_hints(Settings)
    assert set(kinds) == run | set(own)
    for name, one in own.items():
        assert set(get_args(kinds[name])) == set(one.choices) or not one.choices
        assert (kinds[name] == Numbers) == one.varies


def test_a_stopped_run_says_how_to_go_on(tmp_path, quick):
    over = threading.Event()

    def ask():
        while not over.wait(0.3):  # a signal that comes before the run listens is ignored
            os.kill(os.getpid(), signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    asking = threading.Thread(target=ask)
    asking.start()
    try:
        with pytest.raises(bires.Stopped, match=r"stopped at step \d+; continue with bires.resume\(") as caught:
            bires.train("pendulum-swingup", out=tmp_path / "run", **quick | {"steps": 10**6, "eval_every": 10**6})
    finally:
        over.set()
        asking.join()
        signal.signal(signal.SIGUSR1, before)
    assert caught.value.step >= 0
    assert not bires.load(tmp_path / "run").finished


def test_an_argument_that_there_is_not_is_refused_with_those_that_are(copied):
    run = copied()
    with pytest.raises(
        bires.UserError, match=r"play: got an unexpected keyword argument 'file'; accepted: run, member"
    ):
        bires.play(run, file="a.gif")  # type: ignore[call-arg]
    with pytest.raises(bires.UserError, match=r"Which ones: seed="):
        bires.train("Pendulum-v1", seeds=range(3))  # type: ignore[arg-type]
    with pytest.raises(bires.UserError, match=r"MODULE:FUNCTION of one that builds your environment"):
        bires.train(object())  # type: ignore[arg-type]


def test_none_is_the_default_everywhere():
    """As the signatures show it; what is refused here is something else."""
    with pytest.raises(bires.UserError, match="nothing to search"):
        bires.tune("Pendulum-v1", gamma=None, seed=None, tau=None)  # type: ignore[arg-type]
    with pytest.raises(bires.UserError, match="named twice"):
        bires.train_each(["Pendulum-v1"] * 2, gamma=None, tau=None)  # type: ignore[arg-type]
    with pytest.raises(bires.UserError, match="cohorts was given 'x'"):
        bires.train("Pendulum-v1", tau=None, cohorts="x")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "given", "words"),
    [
        ("train", {"algorithm": []}, "algorithm was given no value"),
        ("compare", {"agent": 3}, "agent was given 3; accepted: one name"),
        ("tune", {"ranges": [1]}, "ranges was given 1; accepted: SETTING LOW HIGH"),
        ("tune", {"ranges": {"tau": None}}, r"ranges\['tau'\] was given None"),
        ("tune", {"ranges": {1: (1, 2)}}, "ranges was given 1; accepted: the name"),
        ("train_each", {"at_once": "x"}, "at_once was given 'x'"),
        ("train_each", {"minutes": "x"}, "minutes was given 'x'"),
    ],
)
def test_values_of_the_wrong_kind_are_refused_in_words(name, given, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(bires.UserError, match=words):
        getattr(bires, name)(["Pendulum-v1"] if name == "train_each" else "Pendulum-v1", **given)


def test_a_member_is_found_by_the_numbers_it_has_not_by_ones_near_them(tmp_path):
    settings: dict[str, Any] = {"seed": (123456, 123457), "critic_lr": (1e-9, 1 / 3)}
    run = make_run(tmp_path / "run", make_config("walker-stand", settings | {"algorithm": "ddpg", "steps": 2e4}))
    for number, row in enumerate(grid.members(run.config)):
        assert one_member(run.members, {"seed": row.seed, "critic_lr": row.own["critic_lr"]}) == number
    for strange in ({"seed": 123455, "critic_lr": 1e-9}, {"seed": 123456, "critic_lr": 0.0}):
        with pytest.raises(bires.UserError, match="was given; the run has these members"):
            one_member(run.members, strange)
