"""docs/settings.md and `bires list` say what the registries say."""

import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from bires.agents.registry import AGENTS
from bires.cli.listing import LISTS, folded, listing
from bires.cli.settings_page import page
from bires.envs.families import FAMILIES
from bires.planning import registry as planners
from bires.rules import ONLINE, RULES, SUMMARIES, TARGET, Delta, Rule, equation
from bires.settings.config import Config
from bires.settings.tables import shown, tables
from bires.settings.values import flag

DOCS = Path(__file__).parents[2] / "docs"


def test_the_page_is_what_the_registries_say(tmp_path):
    """In a process of its own: other tests add agents and families to the registries of this one."""
    made = tmp_path / "settings.md"
    subprocess.run([sys.executable, "-m", "bires.cli.settings_page", str(made)], check=True, timeout=120)
    expected = (DOCS / "settings.md").read_text(encoding="utf-8")
    assert made.read_text(encoding="utf-8") == expected, "run `make pages` and commit what it writes"


def test_every_setting_is_there_with_a_help():
    text = page()
    parts = [spec.settings for spec in AGENTS.values()] + [family.settings for family in FAMILIES.values()]
    own = [setting.name for settings in (*parts, planners.SETTINGS) for setting in settings]
    common = [item.name for item in fields(Config) if item.name not in ("own", "tuning")]
    for name in (*common, *own):
        assert f"| `{name}` |" in text
    assert all(row.help for table in tables() for row in table.rows)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1e-3, "1e-3"),
        (0.05, "0.05"),
        (2.5e-4, "0.00025"),
        (10_000, "10000"),
        (1_000_000, "1e6"),
        (250_000, "250000"),
        (0, "0"),
        (-1.0, "-1"),
        ((400, 300), "400 300"),
        (False, "False"),
        ("adam", "adam"),
    ],
)
def test_values_are_shown_as_they_are_typed(value, text):
    assert shown(value) == text


def test_the_list_of_settings_has_defaults_and_bounds():
    text = listing("settings")
    assert "default: 1e-3; numbers from 0 to 1; several make a grid" in text
    assert "default: adam (vector), rmsprop (pixels); adam, rmsprop" in text
    for setting in AGENTS["dqn"].settings:
        assert flag(setting.name) in text


def test_algorithms_are_listed_by_agent():
    lines = listing("algorithms").splitlines()
    heads = [line.split(":")[0].strip() for line in lines if line.startswith("  ") and not line.startswith("    ")]
    assert heads[:2] == ["DDPG", "DQN"]
    assert lines.index("  DQN: discrete actions, sees vector or pixels; compared with dqn") < next(
        i for i, line in enumerate(lines) if line.split()[0] == "bi-res-dqn"
    )


def test_everything_lists_every_list():
    assert all(f"\n{name}\n" in "\n" + listing("all") for name in LISTS)
    assert re.search(r"continuous actions \(DDPG, TD3, SAC, CrossQ.*\) or discrete ones \(DQN", listing("tasks"))


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ("td", "[δ ∇pred],  δ = r + γ succ⁻ − pred"),
        ("res", "[δ (∇pred − ηγ ∇succ)],  δ = r + γ succ − pred"),
        ("to", "[δ (∇pred − ηγ ∇succ)],  δ = r + γ succ⁻ − pred"),
        ("ot", "[δ (∇pred − ηγ ∇succ)],  δ = r + γ succ − pred⁻"),
        ("tt", "[δ (∇pred − ηγ ∇succ)],  δ = r + γ succ⁻ − pred⁻"),
        ("bi", "[δ_b ∇pred − δ_f ηγ ∇succ],  δ_b = r + γ succ⁻ − pred,  δ_f = r + γ succ − pred⁻"),
    ],
)
def test_equations_are_those_of_the_paper(rule, text):
    assert equation(RULES[rule]) == f"θ ← θ + α {text}"
    assert SUMMARIES[rule]


def test_a_rule_of_a_users_own_is_listed_with_its_equation(monkeypatch):
    monkeypatch.setitem(RULES, "bo", Rule(Delta(ONLINE, TARGET), Delta(ONLINE, ONLINE), True))
    assert "δ_b = r + γ succ⁻ − pred,  δ_f = r + γ succ − pred" in listing("rules").splitlines()[-1]


def test_lists_are_folded_between_words_on_a_terminal():
    text = folded(listing("all"), 80)
    assert max(map(len, text.splitlines())) <= 80
    assert text.split() == listing("all").split()
    assert "\n    cartpole-balance, " in folded(listing("tasks"), 80)
    assert "\n" + 20 * " " + "target networks\n" in folded(listing("algorithms"), 80)
    assert "\n" + 14 * " " + "by the larger error (Wang & Ueda 2022)\n" in folded(
        listing("rules"), 80
    )  # below its text
    assert folded(listing("all"), None) == listing("all")
