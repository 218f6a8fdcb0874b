"""A user's own agent, in one file that the package does not know (tests/own_agent.py), does all that ours do."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import bires
from bires.agents import dqn
from bires.agents.base import Algorithm
from bires.cli import main
from bires.settings.comparison import compared
from bires.settings.doubts import doubts
from bires.settings.keywords import make_config
from bires.settings.options import Options, Stopped
from bires.settings.validation import validate
from bires.training.launch import begin_or_continue as train
from tests.helpers import TASK, contents

AGENT = "tests.own_agent:"
SOURCE = Path(bires.__file__).parent


def test_nothing_in_the_package_knows_it():
    text = "".join(path.read_text() for path in SOURCE.rglob("*.py"))
    assert not [word for word in ("own_agent", "TwinLearner", "twin_gap") if word in text]


@pytest.fixture(scope="module")
def settings():
    return {
        "algorithm": [f"{AGENT}twin", f"{AGENT}bi-res-twin"],
        "rule": ["td", "bi", "res"],
        "eta": [0.05, 0.4],
        "seeds": 2,
        "noise": [0.1, 0.3],
        "smoothing": 0.1,
        "steps": 90,
        "warmup": 30,
        "eval_every": 30,
        "eval_episodes": 1,
        "log_every": 15,
        "batch": 8,
        "hidden": (16, 16),
    }


@pytest.fixture(scope="module")
def run(settings, tmp_path_factory):
    """Trained at once, as a population that mixes rules."""
    return bires.train(TASK, out=tmp_path_factory.mktemp("own") / "run", quiet=True, **settings)


def test_it_trains_and_mixes_rules(run):
    assert sorted(set(run.members["algorithm"])) == ["bi-res-twin", "res-twin", "twin"]
    assert set(run.members["noise"]) == {0.1, 0.3}
    assert "epsilon_start" not in run.members
    assert set(run.members["status"]) == {"finished"}
    last = run.metrics.where(run.metrics["step"] == 90)
    assert np.isfinite(last["twin_gap"]).all()
    assert len(set(last["q_mean"])) > 6, "members with other rules or seeds learn other values"
    assert run.config.own["smoothing"] == 0.1


def test_it_resumes_bit_for_bit(run, settings, tmp_path):
    looks = iter([False] * 3 + [True] * 100)
    config = make_config(TASK, settings)
    with pytest.raises(Stopped):
        train(config, tmp_path / "run", Options(), lambda: next(looks))
    again = bires.resume(tmp_path / "run", quiet=True)
    assert contents(again.path) == contents(run.path)


def test_it_is_reported_exported_and_evaluated(run, tmp_path, capsys):
    assert main(["report", str(run.path), "--out", str(tmp_path / "report")]) == 0
    page = (tmp_path / "report" / "report.html").read_text()
    assert "bi-res-twin(0.05)" in page
    assert main(["export", str(run.path), "--out", str(tmp_path / "tb")]) == 0
    assert list((tmp_path / "tb").rglob("events*"))
    assert main(["evaluate", str(run.path), "--episodes", "1", "--member", "0"]) == 0
    assert "twin" in capsys.readouterr().out
    action = run.policy(0)(np.zeros(3, np.float32))
    assert action.shape == (1,)


def test_its_settings_are_its_own(capsys):
    words = ["train", "pendulum-swingup", "--algorithm", f"{AGENT}twin"]
    assert main([*words, "--epsilon-start", "0.5"]) == 2
    assert "--epsilon-start is not a setting of TWIN; it belongs to DQN. TWIN has: --tau" in capsys.readouterr().err
    assert main([*words, "--smoothing", "-1"]) == 2
    assert "--smoothing was given -1; accepted: numbers from 0." in capsys.readouterr().err
    with pytest.raises(SystemExit) as ended:
        main([*words, "--help"])
    assert ended.value.code == 0
    assert "--smoothing FLOAT" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("tests.own_agent:no-such", r"has no algorithm 'no-such'; its agents have: twin, bi-res-twin"),
        ("tests.own_agent:ddpg", r"has no algorithm 'ddpg'; its agents have: twin"),
        ("tests.no_such_module:twin", r"cannot be imported"),
        ("tests.environments:twin", r"has no AgentSpec"),
    ],
)
def test_an_agent_that_is_not_there_is_refused(name, words):
    with pytest.raises(bires.UserError, match=words):
        bires.train("pendulum-swingup", algorithm=name)


def test_it_is_compared_by_its_rules():
    assert compared("Pendulum-v1", f"{AGENT}twin") == (f"{AGENT}twin", f"{AGENT}bi-res-twin")
    with pytest.raises(bires.UserError, match="has no agent 'ddpg'; it has: twin"):
        compared("Pendulum-v1", f"{AGENT}ddpg")


FLAGGED = """
from dataclasses import replace
from bires.agents.base import Algorithm
from bires.agents.ddpg import SPEC, make
from bires.types import Setting

def made(design):
    return make(design)

MINE = replace(
    SPEC, name="flagged", make=made, baseline="flagged",
    settings=(*SPEC.settings, Setting("careful", {default}, "For a test.", varies=True)),
    algorithms={{"flagged": Algorithm("flagged", "td", None, "For a test.")}},
)
"""


def test_a_flag_may_vary_in_a_population(elsewhere, quick):
    (elsewhere / "flagged.py").write_text(FLAGGED.format(default=False))
    run = bires.train(TASK, algorithm="flagged:flagged", careful=[False, True], out=elsewhere / "run", **quick)
    assert run.members["careful"].tolist() == [0, 1]
    assert run.summary()["kind"].tolist() == ["flagged careful=0", "flagged careful=1"]
    assert run.policy(careful=1).about["member"] == "1"


def test_rates_that_do_not_vary_may_have_the_names_of_ours(elsewhere):
    (elsewhere / "fixed.py").write_text(
        "from dataclasses import replace\nfrom bires.agents.base import Algorithm\nfrom bires.agents import ddpg\n"
        "from bires.agents.ddpg import SPEC\n\n\ndef make(design):\n    return ddpg.make(design)\n\n\n"
        "slow = (replace(one, varies=one.varies and one.name not in ('tau', 'critic_lr')) for one in SPEC.settings)\n"
        "MINE = replace(SPEC, name='fixed', make=make, baseline='fixed', settings=tuple(slow),\n"
        "    algorithms={'fixed': Algorithm('fixed', 'td', None, 'For a test.')})\n"
    )
    config = make_config(TASK, {"algorithm": "fixed:fixed", "tau": 0, "critic_lr": 0})
    assert [text.split()[0] for text in doubts(config)] == ["--critic-lr", "--tau"]
    with pytest.raises(bires.UserError, match=r"--lr-end was given, but FIXED has no learning rates that can move"):
        validate(make_config(TASK, {"algorithm": "fixed:fixed", "lr_end": 0, "lr_until": 20_000}))


def test_a_baseline_or_an_agent_that_is_not_its_own_is_refused_before_anything_is_trained():
    """As `replace(dqn.SPEC, name=…)` has it, if one of these is forgotten: the run's report would fail."""
    mine = {"mine": Algorithm("mine", "td", None, "DQN under a name of its own")}
    with pytest.raises(bires.UserError, match=r"the baseline 'dqn', which is not among .* Accepted: mine\."):
        replace(dqn.SPEC, name="mine", algorithms=mine)
    with pytest.raises(bires.UserError, match=r"names the agent 'dqn'. Give Algorithm\('mine', …\)"):
        replace(dqn.SPEC, name="mine")


def test_a_text_that_varies_is_refused(elsewhere, capsys):
    """Members' numbers are arrays in a program."""
    (elsewhere / "worded.py").write_text(FLAGGED.replace("flagged", "worded").format(default="'much'"))
    assert main(["train", TASK, "--algorithm", "worded:worded"]) == 2
    assert "The setting 'careful' is text and has varies=True" in capsys.readouterr().err
