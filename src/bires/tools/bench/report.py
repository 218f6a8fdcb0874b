"""`bires bench`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import jax
from rich.console import Console
from rich.table import Table

from bires.agents import registry
from bires.envs.recipe import probe, recipe
from bires.errors import UserError
from bires.machine import hardware
from bires.machine.terminal import aside, json_line
from bires.rules import RULES
from bires.runs.folder import cpu
from bires.settings.comparison import agent_for
from bires.tools.bench import measure
from bires.tools.bench import planning as costs
from bires.types import Space

SIZES = {"cpu": (1, 4, 10), "accelerator": (1, 8, 35, 175, 330)}
"""Populations that are measured by default."""
SPEEDS = ("one_agent", "whole_machine")
"""What is compared with peers."""
ROUNDS = 2
"""Rounds in which peers and this package are measured alternately."""
KINDS = ("ddpg", "td3", "sac", "dqn", "pixels")
"""What peers are measured for."""
PEERS = Path(__file__).parents[4] / "benchmarks" / "peers" / "run.py"


@dataclass(frozen=True)
class BenchRequest:
    """What is to be measured: the flags of `bires bench`."""

    task: str
    agent: str | None
    populations: tuple[int, ...]
    seconds: float
    peers: Path | None
    planning: str | None
    rules: bool = False


class BenchSubject(NamedTuple):
    """A task and an agent for it."""

    task: str
    space: Space
    agent: str


def bench(request: BenchRequest, as_json: bool) -> int:
    """Measures and prints."""
    with aside(as_json):
        found = measurements(request)
    if as_json:
        print(json_line(found))
    else:
        show(found, Console(highlight=False))
    return 0


def measurements(request: BenchRequest) -> dict[str, Any]:
    """What was asked for, compared with the peers where they are installed."""
    peers, seconds, populations = request.peers, request.seconds, request.populations
    if peers is not None and not PEERS.exists():
        raise UserError("--peers needs a checkout of the project: its benchmarks/peers folder is not installed.")
    if peers is not None and not (peers.is_file() and os.access(peers, os.X_OK)):
        raise UserError(
            f"--peers was given {peers}, which is not a program; `make bench` sets one up: .venv-peers/bin/python."
        )
    if seconds <= 0 or min(populations, default=1) < 1:
        raise UserError(
            f"--seconds {seconds:g} and --populations {list(populations)} were given; accepted: seconds above 0, and "
            "populations from 1."
        )
    hardware.prepare()
    populations = populations or SIZES["cpu" if jax.default_backend() == "cpu" else "accelerator"]
    agent = registry.agent(request.agent) if request.agent else agent_for(request.task)
    named = request.agent or agent.name  # other processes know a user's agent by its module alone
    subject = BenchSubject(request.task, probe(recipe(request.task, "modern")), named)
    if peers is not None and kind_of(subject) not in KINDS:
        raise UserError(f"--peers has no library with {agent.title}; accepted with --agent: {', '.join(KINDS)}.")
    found = measured(subject, populations, seconds)
    found["first_update_seconds"] = measure.first_update_seconds(request.task, named)
    if peers is not None:
        found |= in_turns(subject, populations, seconds, peers)
        found["ratios"] = ratios(found)
    if request.rules:
        found["rules"] = rule_costs(subject, min(populations), seconds)
    if request.planning is not None:
        found["planning"] = costs.measured(request.planning, seconds, max(populations))
    return found


def kind_of(subject: BenchSubject) -> str:
    """What the peers' benchmark calls it."""
    return "pixels" if subject.space.pixels else subject.agent


def measured(subject: BenchSubject, populations: tuple[int, ...], seconds: float) -> dict[str, Any]:
    """Updates, whole steps and environments for every population and the rules td and bi; the peak beside each."""
    rows, (task, space, agent) = [], subject
    for members in populations:
        for rule in ("td", "bi"):
            with closing(measure.build(task, agent, rule, members)) as population:
                before = measure.sgemm_peak(seconds / 4)
                updates = measure.best_rate(population.updates, members, seconds, population.period)
                whole = [population.steps, population.environments]
                steps, environments = measure.best_rates(whole, members, seconds, population.period)
                peak = max(before, measure.sgemm_peak(seconds / 4))
            flops = measure.update_flops(space, measure.plain(task, agent, rule, members))
            rows.append(
                {
                    "members": members,
                    "rule": rule,
                    "updates_per_second": updates,
                    "steps_per_second": steps,
                    "environment_steps_per_second": environments,
                    "share_of_environments": steps / environments,
                    "gflop_per_update": flops and flops / 1e9,
                    "peak_gflops": peak / 1e9,
                    "share_of_peak": flops and updates * flops / peak,
                }
            )
    return {"task": task, "agent": agent, "cpu": cpu(), "device": jax.devices()[0].device_kind, "populations": rows}


def rule_costs(subject: BenchSubject, members: int, seconds: float) -> dict[str, float]:
    """The time of an update by each rule as a multiple of that by `td`, measured in turns."""
    task, _, agent = subject
    found = {"td": 1.0}
    with closing(measure.build(task, agent, "td", members)) as plain:
        for rule in [name for name in RULES if name != "td"]:
            with closing(measure.build(task, agent, rule, members)) as other:
                rates = measure.best_rates((plain.updates, other.updates), members, seconds, plain.period)
            found[rule] = rates[0] / rates[1]
    return found


def in_turns(
    subject: BenchSubject, populations: tuple[int, ...], seconds: float, python: Path
) -> dict[str, list[dict[str, Any]]]:
    """Peers and this package alternately, so that a busy minute of the machine affects both; the best round of each.

    One agent is compared with one, and the largest population with the whole machine.
    """
    (task, space, agent), kind = subject, kind_of(subject)
    steps = "100" if space.pixels else "750"  # an update from pixels takes a hundred times as long
    command = [sys.executable, str(PEERS), kind, "--python", str(python), "--steps", steps, "--json"]

    def speed(rule: str, members: int) -> float:
        with closing(measure.build(task, agent, rule, members)) as population:
            work = population.updates if space.pixels else population.steps
            return measure.best_rate(work, members, seconds, population.period)

    sizes = dict(zip(SPEEDS, (min(populations), max(populations)), strict=True))
    theirs: list[list[dict[str, Any]]] = []
    ours: list[list[dict[str, Any]]] = []
    for _ in range(ROUNDS):
        theirs.append(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
        rules = dict.fromkeys(peer["rule"] for peer in theirs[0])
        ours.append([{"rule": rule} | {name: speed(rule, sizes[name]) for name in SPEEDS} for rule in rules])
    return {"peers": best(theirs), "beside_peers": best(ours)}


def best(rounds: Sequence[Sequence[dict[str, Any]]]) -> list[dict[str, Any]]:
    """The rows of several rounds, each with the best of its speeds."""
    return [rows[0] | {name: max(row[name] for row in rows) for name in SPEEDS} for rows in zip(*rounds, strict=True)]


def ratios(found: dict[str, Any]) -> dict[str, float]:
    """This package against each peer."""
    ours = {row["rule"]: row for row in found["beside_peers"]}
    return {label(peer, name): ours[peer["rule"]][name] / peer[name] for peer in found["peers"] for name in SPEEDS}


def label(peer: dict[str, Any], speed: str) -> str:
    return f"{peer['peer']} {peer['rule']}, {speed.replace('_', ' ')}"


def show(found: dict[str, Any], console: Console) -> None:
    """The numbers as a terminal shows them."""
    where = dict.fromkeys([found["cpu"], *([found["device"]] if found["device"] != "cpu" else [])])
    table = Table(
        title=f"{registry.agent(found['agent']).title} on {found['task']}, {' and '.join(where)}", title_justify="left"
    )
    for name in ("members", "rule", "updates/s", "of sgemm peak", "steps/s", "environments alone", "ratio"):
        table.add_column(name, justify="right")
    for row in found["populations"]:
        table.add_row(
            str(row["members"]),
            row["rule"],
            f"{row['updates_per_second']:,.0f}",
            f"{row['share_of_peak']:.0%} of {row['peak_gflops']:.0f} GFLOP/s" if row["share_of_peak"] else "",
            f"{row['steps_per_second']:,.0f}",
            f"{row['environment_steps_per_second']:,.0f}",
            f"{row['share_of_environments']:.0%}",
        )
    console.print(table)
    first = found["first_update_seconds"]
    console.print(f"first update of ten members: {first['cold']:.1f} s cold, {first['cached']:.1f} s with the cache")
    if "peers" in found:
        show_peers(found, console)
    if "rules" in found:
        costs = ", ".join(f"{rule} {times:.2f}" for rule, times in found["rules"].items())
        console.print(f"time of an update by each rule, in units of td's: {costs}")
    if "planning" in found:
        show_planning(found["planning"], console)


def show_peers(found: dict[str, Any], console: Console) -> None:
    """This package beside others."""
    unit = found["peers"][0]["unit"]
    table = Table(title=f"{unit} in turns with peers, best of {ROUNDS} rounds", title_justify="left")
    for name in ("", "rule", "one agent", "whole machine", "ours: one agent", "whole machine"):
        table.add_column(name, justify="right")
    for row in found["beside_peers"]:
        table.add_row("bires", row["rule"], *(f"{row[name]:,.0f}" for name in SPEEDS), "", "")
    for peer in found["peers"]:
        times = (found["ratios"][label(peer, name)] for name in SPEEDS)
        speeds = (f"{peer[name]:,.0f}" for name in SPEEDS)
        table.add_row(peer["peer"], peer["rule"], *speeds, *(f"{ratio:.2f} ×" for ratio in times))
    console.print(table)


def show_planning(found: dict[str, Any], console: Console) -> None:
    """What planning costs."""
    oracle = found["oracle"]
    console.print(
        f"oracle on {found['task']}, one core: {oracle['oracle_answers_per_second']:,.0f} answers/s, "
        f"{oracle['share']:.0%} of the plain environment's {oracle['environment_steps_per_second']:,.0f} steps/s"
    )
    for name, model in found["models"].items():
        console.print(
            f"learned model `{name}`: {model['updates_per_second']:,.1f} updates/s of "
            f"{model['gflop_per_update']:.2f} GFLOP, {model['share_of_peak']:.0%} of the sgemm peak"
        )
    table = Table(title=f"a training step of {found['members']} members on {found['task']}", title_justify="left")
    for name in ("algorithm", "model", "steps/s", "times DDPG"):
        table.add_column(name, justify="right")
    for row in found["steps"]:
        rate = f"{row['steps_per_second']:,.0f}"
        table.add_row(row["algorithm"], row["model"] or "", rate, f"{row['times_ddpg']:.2f}")
    console.print(table)
