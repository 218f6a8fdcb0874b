"""A look at a task: what is good, what could be better, what is broken, each from an environment made so."""

import json
import os

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import bires
from bires.cli import main
from tests import environments


def found(task: str, **more) -> dict[str, tuple[str, str, str]]:
    table = bires.check(task, **more)
    return {row["what"]: (row["state"], row["found"], row["fix"]) for row in table.rows()}


def probe(name: str) -> str:
    return f"tests.environments:bires-test/{name}-v0"


def test_a_task_of_dmcontrol_keeps_everything():
    seen = found("cartpole-swingup")
    assert {state for state, _, _ in seen.values()} == {"ok"}
    assert seen["task"][1] == "dm_control/cartpole-swingup-v0"
    assert seen["steps"][1].startswith("2,000 random ones")
    assert seen["observations"][1].startswith("5 numbers")
    assert seen["actions"][1].startswith("1 number, -1 to 1: ddpg, td3, sac, crossq")
    assert seen["episodes"][1] == "2 of 1000 steps: 0 ended, 2 were cut"
    assert "others with others" in seen["seeds"][1]
    assert "oracle" in seen["planning"][1]


def test_choices_are_for_dqn_and_a_reward_of_one_until_the_end_is_no_sparse_one():
    seen = found("CartPole-v1")
    assert seen["actions"][1].startswith("2 choices: dqn")
    assert seen["rewards"][0] == "ok"
    assert seen["planning"][0] == "absent"


def test_pictures_are_counted():
    pytest.importorskip("minatar")
    seen = found("MinAtar/Breakout")
    assert seen["observations"][1] == "1 picture of 4 × 10 × 10"
    assert seen["actions"][1].startswith("3 choices: dqn")


def test_an_environment_that_does_not_repeat_is_told():
    assert found(probe("Moody"))["seeds"][:2] == (
        "advice",
        "another episode with the same seed and actions: runs cannot be continued exactly",
    )
    assert found(probe("Forgetful"))["seeds"][0] == "advice"
    assert found(probe("Drawn"))["seeds"][0] == "ok"


def test_a_task_with_one_start_is_told():
    assert "starts in the same state" in found(probe("TwoSteps"))["seeds"][1]


@pytest.fixture(scope="module")
def endless():
    """What is found of a task without an end, which takes its time."""
    return found(probe("Endless"))


def test_rewards_without_a_difference_are_told(endless):
    sparse, constant = endless["rewards"], found(probe("Clock"))["rewards"]
    assert sparse == ("advice", "0 in every step", "a reward that chance finds, or many steps")
    assert constant == ("advice", "1 in every step", "a reward that depends on what agents do")


def test_episodes_without_an_end_are_told(endless):
    state, text, fix = endless["episodes"]
    assert (state, "max_episode_steps" in fix) == ("advice", True)
    assert text.startswith("none ended in ")
    assert text.endswith("training will cut them after 10,000")


@pytest.mark.parametrize(
    ("name", "error"), [("Raises", "RuntimeError: the motor came off"), ("NotFinite", "FloatingPointError: the env")]
)
def test_what_raises_is_broken_with_its_place(name, error, capsys):
    assert main(["check", probe(name)]) == 1
    shown = capsys.readouterr().out
    assert f"FAIL  steps                       {error}" in shown
    assert ".py, line " in shown
    assert shown.endswith("It cannot be trained: steps.\n")


def test_nothing_more_is_asked_of_what_cannot_start():
    seen = found(probe("Hopeless"))
    assert list(seen) == ["task", "steps"]
    assert "no licence key" in seen["steps"][1]


def test_a_state_that_does_not_hold_everything_is_no_oracle():
    assert found(probe("Settable"))["planning"][0] == "ok"
    state, _, fix = found(probe("HalfSettable"))["planning"]
    assert state == "absent"
    assert fix.startswith("model='learned'")


class Picky(environments.Probe):
    """Has a start that is not finite for some seeds, or wants the process of the user."""

    def __init__(self, fault=""):
        self.fault = fault
        if fault == "process" and (parent := os.environ.setdefault("BIRES_TEST_PARENT", str(os.getpid()))) != str(
            os.getpid()
        ):
            raise RuntimeError(f"needs the process {parent}")

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps, self.start = 0, float(self.np_random.uniform())
        if self.fault == "start" and self.start > 0.8:
            return self.observe(np.nan), {}
        return self.observe(os.getpid() if self.fault == "hash" else self.start), {}

    def step(self, action):
        self.steps += 1
        if self.fault == "prints":
            print("step!")
        made = self.observe(self.steps), float(action[0]), False, self.steps == 10
        if self.fault == "old":
            return made
        return (*made, None) if self.fault == "info" else (*made, {})


gymnasium.register("bires-test/Picky-v0", entry_point=f"{__name__}:Picky")
gymnasium.register("bires-test/Limited-v0", entry_point=f"{__name__}:Picky", max_episode_steps=50)
PICKY = "tests.tools.test_checking:bires-test/Picky-v0"


def test_a_later_start_that_is_not_finite_is_broken():
    seen = found(PICKY, env_kwargs={"fault": "start"})
    assert seen["steps"][0] == "broken"
    assert "not finite" in seen["steps"][1]
    assert list(seen) == ["task", "steps"], "too little was seen to say more"


def test_what_wants_this_process_trains_without_workers(monkeypatch):
    monkeypatch.setenv("BIRES_TEST_PARENT", str(os.getpid()))
    state, text, fix = found(PICKY, env_kwargs={"fault": "process"})["workers"]
    assert (state, fix) == ("advice", "workers=0")
    assert "needs the process" in text
    assert found(PICKY, env_kwargs={"fault": "hash"})["workers"][0] == "advice"
    assert found(PICKY)["workers"] == ("ok", "another process builds, starts and steps it", "")


def test_a_step_that_is_no_step_is_said_in_words():
    assert "step() returned" in found(PICKY, env_kwargs={"fault": "info"})["steps"][1]


def test_a_step_of_the_old_gym_is_said_in_words_though_a_wrapper_sees_it_first():
    said = found("tests.tools.test_checking:bires-test/Limited-v0", env_kwargs={"fault": "old"})["steps"]
    assert said[0] == "broken"
    assert "step() did not return a tuple (observation, reward, terminated, truncated, info)" in said[1]


def test_settings_of_a_family_are_taken_and_checked(capsys):
    assert found("MinAtar/Breakout", sticky=0.5, ramping=False)["task"][1].endswith(", sticky 0.5, ramping False")
    with pytest.raises(bires.UserError, match=r"^sticky was given 2; accepted: numbers from 0 to 1"):
        bires.check("MinAtar/Breakout", sticky=2)
    with pytest.raises(
        bires.UserError, match=r"^Unknown setting 'sticky'\. Task 'Pendulum-v1' has no settings of its own"
    ):
        bires.check("Pendulum-v1", sticky=0.5)
    assert main(["check", "MinAtar/Breakout", "--sticky", "0.5", "--no-ramping"]) == 0
    assert "`bires compare MinAtar/Breakout --sticky 0.5 --no-ramping`" in capsys.readouterr().out
    assert main(["check", "MinAtar/Breakout", "--sticky", "2"]) == 2


@pytest.mark.parametrize(
    ("name", "near"), [("bires-test/Piky-v0", "bires-test/Picky-v0"), ("Pickyy", "Picky"), ("nothing", "")]
)
def test_an_unknown_name_of_a_users_module_is_answered_with_what_it_has(name, near):
    with pytest.raises(bires.UserError, match=f"Unknown task 'tests.tools.test_checking:{name}'") as caught:
        bires.check(f"tests.tools.test_checking:{name}")
    assert f"'tests.tools.test_checking:{near}'" in str(caught.value) or not near
    assert "A module registers an id, or has a function" in str(caught.value)


def test_the_advice_repeats_the_flags_and_what_prints_does_not_break_json(capsys):
    kwargs = '{"fault": "prints"}'
    assert main(["check", PICKY, "--env-kwargs", kwargs, "--protocol", "paper"]) == 0
    shown = capsys.readouterr().out
    assert "step!" not in shown
    assert shown.endswith(f"`bires compare {PICKY} --protocol paper --env-kwargs '{kwargs}'`.\n")
    assert main(["check", PICKY, "--env-kwargs", kwargs, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("task", [environments.Clock(), environments.Clock, ["Hopper"], None])
def test_an_environment_itself_is_answered_in_words(task):
    with pytest.raises(bires.UserError, match=r"task was given .*accepted: one task, as text"):
        bires.check(task)


class Large(environments.Probe):
    """Observations and rewards in thousands; observations leave their space now and then, if it has bounds."""

    def __init__(self, bound=np.inf):
        self.observation_space = spaces.Box(-bound, bound, (1,), np.float32)

    def step(self, action):
        return self.observe(self.np_random.normal(0, 1000)), 3000 * float(action[0]), False, False, {}


gymnasium.register("bires-test/Large-v0", entry_point=f"{__name__}:Large", max_episode_steps=100)


def test_large_numbers_and_wrong_bounds_are_told():
    seen = found("tests.tools.test_checking:bires-test/Large-v0")
    assert seen["observations"][::2] == ("advice", "normalise_observations, or smaller units")
    assert seen["rewards"][0] == "advice"
    assert seen["rewards"][2].startswith("reward_scale=0.001")
    narrow = found("tests.tools.test_checking:bires-test/Large-v0", env_kwargs={"bound": 500.0})["observations"]
    outside = int(narrow[1].split("; ")[1].split()[0])
    assert narrow[0] == "advice"
    assert 0.5 < outside / 2020 < 0.7, "of a normal distribution 62 % lie outside half a deviation"


def test_the_command_speaks_json(capsys):
    assert main(["check", "Pendulum-v1", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["what"] for row in rows][:3] == ["task", "steps", "observations"]


def test_what_no_agent_can_act_in_is_bad_input(capsys):
    assert main(["check", "nonsense"]) == 2
    assert "Unknown task 'nonsense'" in capsys.readouterr().err
    assert main(["check", "Pendulum-v1", "--env-kwargs", '{"colour": 1}']) == 2
    assert "colour" in capsys.readouterr().err
    with pytest.raises(bires.UserError, match="protocol was given 'old'"):
        bires.check("Pendulum-v1", protocol="old")  # type: ignore[arg-type]
