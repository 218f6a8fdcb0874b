"""`bires bench` beside its peers."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import pytest
from rich.console import Console

from bires.settings.keywords import make_config
from bires.settings.options import Options
from bires.tools.bench import measure, planning, report
from bires.training.plan import make_plan
from bires.types import Space
from tests.helpers import typed


def row(rule: str, one: float, whole: float, **more: str) -> dict:
    return {"rule": rule, "one_agent": one, "whole_machine": whole, **more}


def test_of_several_rounds_the_best_speeds_are_compared():
    ours = report.best([[row("td", 30.0, 50.0), row("bi", 20.0, 30.0)], [row("td", 20.0, 60.0), row("bi", 10.0, 40.0)]])
    assert ours == [row("td", 30.0, 60.0), row("bi", 20.0, 40.0)]
    peer = {"peer": "slow", "unit": "steps/s"}
    theirs = report.best([[row("td", 10.0, 10.0, **peer)], [row("td", 6.0, 15.0, **peer)]])
    found: dict = {"beside_peers": ours, "peers": theirs}
    found["ratios"] = report.ratios(found)
    assert found["ratios"] == pytest.approx({"slow td, one agent": 3.0, "slow td, whole machine": 4.0})
    console = Console(width=120, record=True)
    report.show_peers(found, console)
    lines = console.export_text().splitlines()
    assert [word for word in lines[-2].split() if word != "│"] == ["slow", "td", "10", "15", "3.00", "×", "4.00", "×"]


def test_products_are_counted_once_and_only_if_used():
    x, w = jnp.ones((2, 3)), jnp.ones((3, 4))

    def function(x, w):
        unused = x.T @ x
        return jax.jit(lambda x, w: x @ w)(x, w).sum(), 0 * unused.size

    assert measure.product_flops(function, x, w) == 2 * 2 * 3 * 4


def test_the_delayed_part_of_an_update_counts_for_its_share():
    """TD3 with one layer of h units, batch b: what the actor's step takes is halved by a delay of 2."""
    space = Space(3, 1, (-1.0,), (1.0,))
    b, h, inputs = 8, 5, 4
    critic, actor = inputs * h + h, 3 * h + h
    online, target = 2 * (2 * critic + h), 2 * critic + actor  # forward, ∂w and ∂x but for the first layer; forward
    step = critic + (h + inputs * h) + actor + (actor + h)  # Q(s, μ(s)), its slope in a, and the actor's ∂w and ∂x
    for delay in (1, 2):
        config = make_config("Pendulum-v1", {"algorithm": "td3", "batch": b, "hidden": (h,), "policy_delay": delay})
        assert measure.update_flops(space, config) == 2 * b * (online + target + step / delay)


def test_every_row_of_the_costs_of_planning_can_be_planned(monkeypatch):
    def planned(config, seconds):
        make_plan(replace(config, replay=100, steps=1_000), Options())
        return 1.0

    monkeypatch.setattr(planning, "steps_per_second", planned)
    rows = planning.step_costs("walker-stand", 1.0, 1)
    assert [row["model"] for row in rows] == [None, *["oracle"] * 3, *["learned"] * 3]


def test_other_processes_are_told_the_module_of_a_users_agent(monkeypatch):
    asked: list[str] = []

    def first(task, agent):
        asked.append(agent)
        return {}

    monkeypatch.setattr(report, "measured", lambda subject, populations, seconds: {"agent": subject.agent})
    monkeypatch.setattr(measure, "first_update_seconds", first)
    for agent in ("tests.own_agent:twin", None):
        assert report.bench(report.BenchRequest("Pendulum-v1", agent, (1,), 1.0, None, None), as_json=True) == 0
    assert asked == ["tests.own_agent:twin", "ddpg"]
    assert measure.plain("Pendulum-v1", asked[0], "td", 1).algorithm == ("tests.own_agent:twin",)
    assert measure.plain("Pendulum-v1", asked[1], "td", 1).algorithm == ("ddpg",)


def test_an_agent_without_peers_is_refused():
    said = typed("bench", "--agent", "tdd")
    assert (said.returncode, "Unknown agent 'tdd'" in said.stderr) == (2, True)
