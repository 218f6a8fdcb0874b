"""`bires bench` beside its peers."""

import pytest
from rich.console import Console

from bires.tools.bench import report


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
