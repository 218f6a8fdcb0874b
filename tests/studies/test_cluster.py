"""Studies on a Ray cluster: a lost node costs nothing but time."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

import bires
from bires.errors import UserError
from bires.machine import hardware
from bires.runs import lock
from bires.runs.checkpoint import Store
from bires.runs.run import Run
from bires.settings.options import Options
from bires.studies import cluster, plan
from bires.studies.progress import last_step
from bires.studies.run import fill
from bires.training.display import Display
from tests.helpers import assert_same_moment, command, contents

pytestmark = pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")  # Ray forks to start its own processes
STUDY = {"seeds": 1, "steps": 2_000, "eval_every": 500, "log_every": 250}
HERE = f"""
import sys
from pathlib import Path
from bires.training.display import Display
from bires.settings.options import Options
from bires.studies import plan
from bires.studies.run import fill
from bires.studies.together import at_once

jobs = plan.jobs("mujoco", "smoke", Path(sys.argv[1]), {STUDY})
jobs = [job for job in jobs if job.config.task in ("Hopper", "Swimmer")]
fill(jobs, Options(), Display(quiet=True), at_once(1, None))
"""


def small_study(out: Path) -> list[plan.Job]:
    return [job for job in plan.jobs("mujoco", "smoke", out, STUDY) if job.config.task in ("Hopper", "Swimmer")]


@pytest.fixture
def nodes(monkeypatch):
    """A head that lends nothing and two nodes of one core each, all on this machine."""
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    for _ in range(2):
        made.add_node(num_cpus=1, include_dashboard=False)
    yield made
    made.shutdown()


def lose_a_node(made, jobs, lost: list[tuple[Path, str]]) -> None:
    """Waits until a population has a checkpoint that is worth something, then ends all processes of its node."""
    while not lost:
        time.sleep(0.02)
        for job in jobs:
            if not job.path.exists() or max(Store(job.path).steps(), default=0) == 0 or job.finished:
                continue
            owner = lock.owner(job.path)
            if not owner:
                continue
            raylet = psutil.Process(int(owner.split()[1])).parent()
            node = next(n for n in made.worker_nodes if raylet.pid in pids(n))
            family = [raylet, *raylet.children(recursive=True)]
            for process in family:  # at one moment, as when the power fails
                process.suspend()
            if not job.finished:
                lost.append((job.path, owner))
            made.remove_node(node, allow_graceful=False)
            for process in family[1:]:
                try:
                    process.kill()
                except psutil.NoSuchProcess:
                    pass
            break


def pids(node) -> list[int]:
    return [info.process.pid for group in node.all_processes.values() for info in group]


@pytest.mark.slow
def test_a_study_survives_the_loss_of_a_node_and_ends_as_if_undisturbed(nodes, tmp_path, capsys):
    jobs = small_study(tmp_path / "ray")
    lost: list[tuple[Path, str]] = []
    killer = threading.Thread(target=lose_a_node, args=(nodes, jobs, lost), daemon=True)
    killer.start()
    outcome = fill(jobs, Options(), Display(), cluster.over(nodes.address))
    killer.join(60)
    assert not outcome.failures
    assert len(outcome.runs) == 2
    assert all(run.finished for run in outcome.runs)
    (path, owner), said = lost[0], capsys.readouterr().out
    owners = [row for row in said.splitlines() if row.startswith(f"{path.name}: process")]
    assert owners[0] == f"{path.name}: {owner}"
    assert len(owners) == 2, "it was taken up again"
    assert f"{path.name}: done" in said

    environment = os.environ | {"BIRES_CORES": "1"}
    subprocess.run([sys.executable, "-c", HERE, str(tmp_path / "here")], env=environment, check=True)
    for job in jobs:
        calm = tmp_path / "here" / job.path.name
        assert Run(calm).config == job.config
        assert contents(calm) == contents(job.path)
        assert_same_moment(calm, job.path, job.config.replay)


@pytest.mark.slow
def test_ctrl_c_stops_all_tasks_in_order_and_the_same_command_fills_the_rest(tmp_path):
    out = tmp_path / "study"
    words = ["reproduce", "mujoco", "--scale", "smoke", "--task", "Hopper", "Swimmer", "--seeds", "1"]
    words += ["--ray", "local", "--out", str(out)]
    process = subprocess.Popen(
        [sys.executable, "-m", "bires", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 240
    while not (out / "Hopper" / "evaluations.csv").exists():
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    said, errors = process.communicate(timeout=240)
    assert process.returncode == 3, said + errors
    assert f"--out {out} --ray local` fills the rest" in errors
    assert not lock.owner(out / "Hopper")
    again = command(*words)
    assert again.returncode == 0, again.stderr
    assert "Swimmer: done" in again.stdout
    assert not list(out.glob(".ray-*"))
    assert "Traceback" not in again.stderr + errors


@pytest.mark.parametrize("address", ["nowhere", "127.0.0.1:1", "no.such.host.invalid:6379", "ray://127.0.0.1:1"])
def test_a_wrong_address_is_refused_at_once(address):
    pytest.importorskip("ray")
    with pytest.raises(bires.UserError, match=r"--ray was given .*Accepted: local"):
        cluster.connect(address)


def test_without_ray_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(bires.UserError, match=r"pip install 'bires\[ray\]'"):
        cluster.connect("local")


@pytest.mark.parametrize(
    ("members", "nodes", "asked", "expected"),
    [
        (10, [{"CPU": 16}], None, (8, 0)),  # two populations on a node
        (10, [{"CPU": 64}, {"CPU": 8}], None, (8, 0)),  # any node can take it
        (175, [{"CPU": 16, "GPU": 1}, {"CPU": 64}], None, (16, 1)),
        (10, [{"CPU": 16, "GPU": 1}], None, (8, 0.5)),
        (10, [{"CPU": 64, "GPU": 8}], None, (9, 1)),  # whole ones from one on
        (10, [{"CPU": 16}], 4, (4, 0)),
        (10, [{"CPU": 16}], 0, (1, 0)),
    ],
)
def test_a_nodes_cores_and_gpus_are_dealt_out_evenly(members, nodes, asked, expected):
    found = cluster.share(members, 10**9, [{"memory": 2e9, **node} for node in nodes], asked)
    assert (found.cpus, found.gpus) == expected
    assert found.memory == 10**9


def test_more_workers_than_any_node_has_are_refused_and_more_memory_is_cut():
    with pytest.raises(bires.UserError, match="--workers was given 32; accepted: up to 16"):
        cluster.share(10, 0, [{"CPU": 16}], 32)
    with pytest.raises(bires.UserError, match="No node"):
        cluster.share(10, 0, [], None)
    assert cluster.share(10, 10**12, [{"CPU": 4, "memory": 1e9}], None).memory == 10**9


def test_a_node_that_sees_another_folder_under_that_name_refuses(tmp_path):
    config = {"task": "Hopper", "steps": 10, "warmup": 5}
    answer = cluster.shard(config, str(tmp_path / "Hopper"), {}, {}, ".ray-mark", ["bires"])
    assert "storage that all nodes of the cluster share" in answer["failed"]
    assert not (tmp_path / "Hopper").exists()


def test_bires_cores_limits_the_cores_of_a_process(monkeypatch):
    there = hardware.cores()
    for given, expected in (("1", 1), ("100000", there), ("", there)):
        monkeypatch.setenv("BIRES_CORES", given)
        assert hardware.cores() == expected
    for given in ("many", "0", "-1", "1.5"):
        monkeypatch.setenv("BIRES_CORES", given)
        with pytest.raises(UserError, match=f"BIRES_CORES is set to '{given}'; accepted: a whole number from 1"):
            hardware.cores()


def test_the_last_step_is_read_from_a_table_that_is_being_written(tmp_path):
    path = tmp_path / "metrics.csv"
    assert last_step(path) == -1
    path.write_text("member,step,episodes\n")
    assert last_step(path) == -1
    path.write_text("member,step,episodes\n0,500,1\n1,500,1\n0,10")
    assert last_step(path) == 500
