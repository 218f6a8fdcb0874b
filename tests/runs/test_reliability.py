"""What goes wrong around a run: hung workers, full disks, checkpoints made by somebody else, members that diverge."""

import hashlib
import json
import os
import pickle
import resource
import shutil
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import bires
from bires.envs import helpers
from bires.envs.slots import Slots, Start
from bires.errors import UserError
from bires.runs.checkpoint import Checkpoint, Store
from bires.runs.lock import LostLock
from bires.settings.options import Options, Stopped
from bires.training.cohort import Cohort
from bires.training.launch import CannotGoOn, begin_or_continue
from bires.training.launch import newest as newest_whole
from bires.training.loop import TrainingLoop
from bires.training.plan import make_plan
from tests.helpers import QUICK, TASK, arrays, assert_same_moment, assert_same_state, cohorts_of, configured, contents


@pytest.fixture(scope="module")
def stopped_once(tmp_path_factory):
    """A run that stopped in order at step 30."""
    out = tmp_path_factory.mktemp("stopped") / "run"
    store = Store(out)
    with pytest.raises(Stopped):
        begin_or_continue(configured(QUICK), out, Options(workers=0), stop=lambda: store.steps() == [30, 0])
    return out


@pytest.fixture
def stopped(stopped_once, tmp_path, quick):
    """A copy of it, its configuration and its store."""
    shutil.copytree(stopped_once, tmp_path / "run")
    return configured(quick), Store(tmp_path / "run")


def newest(store: Store) -> Path:
    return store.folder(store.steps()[0])


def rewrite_meta(folder: Path, change: Any) -> None:
    """Changes a checkpoint's meta data as somebody would who knows the format: with a fitting checksum."""
    meta = json.loads((folder / "meta.json").read_text().partition("\n")[2])
    change(meta)
    text = json.dumps(meta)
    (folder / "meta.json").write_text(hashlib.sha256(text.encode()).hexdigest() + "\n" + text)


def replace_arrays(folder: Path, data: bytes) -> None:
    (folder / "arrays.safetensors").write_bytes(data)
    rewrite_meta(folder, lambda meta: meta.update(arrays_sha256=hashlib.sha256(data).hexdigest()))


class Payload:
    def __reduce__(self):
        return os.mkdir, ("this-folder-must-not-exist",)


def huge_header() -> bytes:
    header = json.dumps({"state/key": {"dtype": "F32", "shape": [2**40], "data_offsets": [0, 2**42]}}).encode()
    return len(header).to_bytes(8, "little") + header


def with_array(name: str, array: np.ndarray) -> Any:
    def change(folder: Path) -> None:
        found = load_file(folder / "arrays.safetensors") | {name: array}
        save_file(found, folder / "other")
        replace_arrays(folder, (folder / "other").read_bytes())

    return change


def in_meta(change: Any) -> Any:
    return lambda folder: rewrite_meta(folder, change)


MALICE = {
    "a pickle for the arrays": lambda folder: replace_arrays(folder, pickle.dumps(Payload())),
    "a header that claims terabytes": lambda folder: replace_arrays(folder, huge_header()),
    "a path in place of a name": in_meta(lambda m: m["replay"][0].update(file="../../../../etc/passwd")),
    "a replay of 10^12 steps": in_meta(lambda m: m["replay"][0].update(stop=10**12)),
    "a size that would fill the disk": in_meta(lambda m: m["data"]["sizes"].update(metrics=10**15)),
    "a size that is no number": in_meta(lambda m: m["data"]["sizes"].update(metrics="0; rm -rf")),
    "another number of members": in_meta(lambda m: m["data"].update(episodes=[0] * 7)),
    "an episode that is no number": in_meta(lambda m: m["data"].update(episodes=["0"])),
    "an episode beyond all others": in_meta(lambda m: m["data"].update(episodes=[10**30])),
    "an evaluation that is no yes or no": in_meta(lambda m: m["data"].update(evaluation_due="yes")),
    "an episode without end": with_array("episode/0", np.zeros((10**5, 1), np.float32)),
    "another type": with_array("state/key", np.zeros((1, 2), np.float64)),
    "another shape": with_array("state/learner.actor.layers.0.weight", np.zeros((1, 3, 999), np.float32)),
    "too few members": with_array("state/alive", np.zeros((0,), bool)),
    "meta that is a list": lambda folder: (folder / "meta.json").write_text(hashlib.sha256(b"[]").hexdigest() + "\n[]"),
    "meta without end": lambda folder: (folder / "meta.json").write_text("x\n" + "[" * 100_000),
}


@pytest.mark.parametrize("kind", MALICE)
def test_a_malicious_checkpoint_is_refused_and_the_one_before_is_used(stopped, kind, tmp_path, monkeypatch):
    """Checksums fit, so only the content gives it away. Nothing of it runs; the older checkpoint is taken instead."""
    monkeypatch.chdir(tmp_path)
    config, store = stopped
    MALICE[kind](newest(store))
    said: list[str] = []
    plan = make_plan(config, Options(workers=0))
    checkpoint = newest_whole(plan, bires.runs.folder.Folder(store.path.parent), said.append)
    assert checkpoint is not None
    assert checkpoint.step == 0
    assert "checkpoint at step 30 is left out" in said[0]
    assert store.steps() == [0], "a damaged checkpoint must not count as one of the two that are kept"
    assert not (tmp_path / "this-folder-must-not-exist").exists()


@pytest.mark.parametrize("name", ["step-*30/meta.json", "step-*30/arrays.safetensors", "replay-*30.safetensors"])
def test_a_checkpoint_that_cannot_be_read_now_is_left_where_it_is(stopped, name):
    """A disk that is away for a moment must not cost a run its newest checkpoint."""
    config, store = stopped
    (path,) = store.path.glob(name)
    whole = path.read_bytes()
    path.unlink()
    path.symlink_to(path)  # an error of the system that says nothing of the file's content
    plan, folder = make_plan(config, Options(workers=0)), bires.runs.folder.Folder(store.path.parent)
    with pytest.raises(UserError, match=r"cannot be read.*may be whole, so nothing was changed"):
        newest_whole(plan, folder)
    path.unlink()
    path.write_bytes(whole)
    found = newest_whole(plan, folder)
    assert found is not None
    assert found.step == 30


@pytest.mark.parametrize("damage", ["truncate", "flip", "garbage meta", "missing replay"])
def test_a_damaged_checkpoint_is_left_out_and_the_one_before_is_used(stopped, undisturbed, damage, tmp_path):
    config, store = stopped
    weights = newest(store) / "arrays.safetensors"
    if damage == "truncate":
        os.truncate(weights, weights.stat().st_size // 2)
    elif damage == "flip":
        data = bytearray(weights.read_bytes())
        data[-5] ^= 1
        weights.write_bytes(data)
    elif damage == "garbage meta":
        (newest(store) / "meta.json").write_text("{}")
    else:
        sorted(store.path.glob("replay-*"))[-1].unlink()
    (store.path / "replay-7.safetensors.part").write_text("what a killed process was writing")
    said: list[str] = []
    begin_or_continue(config, tmp_path / "run", Options(workers=0, say=said.append))
    assert any("is left out" in text for text in said)
    assert not list(tmp_path.rglob("*.part"))
    assert contents(tmp_path / "run") == contents(undisturbed())
    expected = arrays(undisturbed())
    last = {k: v for k, v in arrays(tmp_path / "run").items() if k.startswith("state/")}
    for name, array in last.items():
        np.testing.assert_array_equal(array, expected[name])


def test_a_checkpoint_that_is_written_again_is_never_half_removed(tmp_path, monkeypatch):
    """A run that stopped in its first evaluation writes the checkpoint of step 0 twice: there is no other."""
    store = Store(tmp_path)
    store.save(Checkpoint(0, {"a": np.zeros(3)}, {}))

    def killed(path: Path, **_: Any) -> None:
        if path.exists():
            (path / "meta.json").unlink()
            raise KeyboardInterrupt

    monkeypatch.setattr("bires.runs.checkpoint.shutil.rmtree", killed)
    with pytest.raises(KeyboardInterrupt):
        store.save(Checkpoint(0, {"a": np.ones(3)}, {}))
    assert store.steps() == [0]
    np.testing.assert_array_equal(store.load(0).arrays["a"], np.ones(3))


@pytest.mark.parametrize(("error", "kept"), [(PermissionError, True), (FileNotFoundError, False)])
def test_replay_stays_while_a_checkpoint_cannot_be_read(tmp_path, monkeypatch, error, kept):
    """A disk that is away for a moment must not cost an older checkpoint its replay."""
    store = Store(tmp_path)
    rows = {"rows": np.zeros((1, 5, 2), np.float32)}
    first = store.save_replay(rows, 0)
    store.save(Checkpoint(5, {"a": np.zeros(1)}, {}, [first]))
    second = store.save_replay(rows, 5)
    read = Path.read_text

    def failing(path, *more):
        if path.parent.name == "step-000000000005":
            raise error(path)
        return read(path, *more)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "read_text", failing)
        store.save(Checkpoint(10, {"a": np.zeros(1)}, {}, [second]))
    assert (store.path / first.file).exists() == kept
    assert (store.path / second.file).exists()


def test_a_replay_of_another_shape_is_refused(stopped, tmp_path):
    """The last line of defence: the replay is looked at when it is loaded."""
    config, store = stopped
    name = sorted(store.path.glob("replay-*"))[-1]
    save_file({"rows": np.zeros((1, 30, 1), np.float32)}, name)
    sha256 = hashlib.sha256(name.read_bytes()).hexdigest()
    rewrite_meta(newest(store), lambda meta: meta["replay"][-1].update(sha256=sha256))
    before = contents(tmp_path / "run")
    with pytest.raises(bires.UserError, match="cannot be used; nothing was changed"):
        begin_or_continue(config, tmp_path / "run", Options(workers=0))
    assert contents(tmp_path / "run") == before


def test_when_no_checkpoint_is_whole_the_run_is_not_begun_again(stopped, tmp_path):
    config, store = stopped
    for step in store.steps():
        (store.folder(step) / "meta.json").write_text("{}")
    before = contents(tmp_path / "run")
    with pytest.raises(bires.UserError, match=r"(?s)No checkpoint .* can be used; nothing was changed.*begin again"):
        begin_or_continue(config, tmp_path / "run", Options(workers=0))
    assert contents(tmp_path / "run") == before


def test_checkpoints_by_the_clock_do_not_change_a_run(tmp_path, quick):
    """A checkpoint between two evaluations, taken because time had passed; resuming from it changes nothing."""
    config = configured(quick, log_every=60, eval_every=60, steps=120)
    seen: set[int] = set()

    def look() -> bool:
        seen.update(Store(tmp_path / "often").steps())
        return any(0 < step < 60 for step in seen)

    with pytest.raises(Stopped) as stopped:
        begin_or_continue(config, tmp_path / "often", Options(workers=0, checkpoint_minutes=1e-9), stop=look)
    assert 0 < stopped.value.step < 60
    begin_or_continue(config, tmp_path / "often", Options(workers=0))
    begin_or_continue(config, tmp_path / "once", Options(workers=0))
    assert contents(tmp_path / "often") == contents(tmp_path / "once")
    with pytest.raises(bires.UserError, match="--checkpoint-minutes was given 0"):
        begin_or_continue(config, tmp_path / "never", Options(checkpoint_minutes=0))


def test_a_stop_at_any_moment_loses_and_doubles_no_row(tmp_path, quick, undisturbed, stepwise, monkeypatch):
    """Just before, at and after a row of metrics.csv (every 10 steps) and an evaluation (every 30)."""
    monkeypatch.setattr("bires.training.evaluation.LOOK_S", float("inf"))
    config = configured(quick)
    stops, step = [], 0
    for moment in (19, 20, 20, 21, 30, 31, 40, 59):
        rounds = iter([False] * (moment - step))
        with pytest.raises(Stopped) as stopped:
            begin_or_continue(config, tmp_path / "stopped", Options(workers=0), stop=partial(next, rounds, True))
        step = stopped.value.step
        stops.append(step)
    assert stops == [19, 20, 20, 21, 30, 31, 40, 59]
    begin_or_continue(config, tmp_path / "stopped", Options(workers=0))
    assert contents(undisturbed()) == contents(tmp_path / "stopped")


def test_a_checkpoint_for_which_there_is_no_memory_now_is_not_taken_for_damaged(stopped, monkeypatch, undisturbed):
    config, store = stopped
    out, free = store.path.parent, iter([10])
    monkeypatch.setattr("bires.runs.checkpoint.free_memory", lambda: next(free, 10**12))
    with pytest.raises(
        bires.UserError, match=r"more than can be read here.*step 30 may be whole, so nothing was changed"
    ):
        begin_or_continue(config, out, Options(workers=0))
    assert store.steps() == [30, 0]
    begin_or_continue(config, out, Options(workers=0))
    assert contents(out) == contents(undisturbed())


def test_an_environment_that_cannot_be_rebuilt_costs_no_member(tmp_path, quick, monkeypatch):
    """What is away at a resume (a licence, a file, memory) may be there at the next one."""
    config, out, store = configured(quick, seed=(0, 1)), tmp_path / "run", Store(tmp_path / "run")
    begin_or_continue(config, tmp_path / "calm", Options(workers=0))
    with pytest.raises(Stopped):
        begin_or_continue(config, out, Options(workers=0), stop=lambda: store.steps() == [30, 0])
    before, begin = contents(out), Slots._begin

    def away(slots: Slots, start: Start) -> None:
        if start.slot == 1:
            raise RuntimeError("no licence")
        begin(slots, start)

    with monkeypatch.context() as patched:
        patched.setattr(Slots, "_begin", away)
        with pytest.raises(bires.UserError, match=r"(?s)member 1 raised when .* nothing was changed.*no licence"):
            begin_or_continue(config, out, Options(workers=0))
    assert contents(out) == before
    begin_or_continue(config, out, Options(workers=0))
    assert contents(out) == contents(tmp_path / "calm")
    assert_same_state(out, tmp_path / "calm")


def test_a_hung_worker_is_replaced_and_nothing_changes(tmp_path, quick, monkeypatch, split):
    monkeypatch.setattr(helpers, "PATIENCE_S", 6.0)
    config = configured(quick, seed=(0, 1))
    begin_or_continue(config, tmp_path / "calm", Options(workers=0))
    hung: list[int] = []

    def hang(loop: TrainingLoop) -> bool:
        if loop.step == 40 and not hung:
            hung.extend(cohorts_of(loop)[0].pool.worker_pids()[:1])
            os.kill(hung[0], signal.SIGSTOP)
        return False

    folder = bires.runs.folder.Folder(tmp_path / "hung")
    folder.path.mkdir()
    plan = make_plan(config, Options(workers=2))
    loop = TrainingLoop(plan, folder, Options(workers=2))
    folder.create(config, plan.members, {})
    loop.run(None, lambda: hang(loop))
    assert hung
    assert sum(cohort.pool.healed for cohort in cohorts_of(loop)) == 1
    assert contents(tmp_path / "calm") == contents(tmp_path / "hung")
    assert_same_state(tmp_path / "calm", tmp_path / "hung")


FLAGS = [TASK, "--steps", "1500", "--warmup", "100", "--eval-every", "1000", "--eval-episodes", "1"]
FLAGS += ["--hidden", "8", "8", "--batch", "8", "--replay", "2000", "--log-every", "500", "--workers", "0", "--quiet"]
FLAGS += ["--keep-every", "1000"]  # so that the evaluation there is followed by a checkpoint, however slow the disk is
KILOBYTES = 24
"""Learners of this size fit into such a file; the replay of a thousand steps does not."""


def trained(out: Path, confined: bool, *more: str) -> subprocess.CompletedProcess[str]:
    """`bires train`, perhaps in a process whose files cannot grow: to it, the disk is full."""
    limit = f"ulimit -f {KILOBYTES};" if confined else ""
    command = ["bash", "-c", f'{limit} exec "$@"', "bash", sys.executable, "-m", "bires", "train", *FLAGS]
    env = os.environ | {"JAX_COMPILATION_CACHE_DIR": str(out.parent / "xla")}  # a confined process may damage it
    return subprocess.run([*command, "--out", str(out), *more], capture_output=True, text=True, env=env, check=False)


@pytest.mark.slow
def test_a_full_disk_stops_a_run_unless_it_keeps_going_and_the_last_checkpoint_stays(tmp_path):
    assert trained(tmp_path / "free", False).returncode == 0
    full = trained(tmp_path / "full", True)
    assert full.returncode == 3, full.stderr
    assert "stopped at step 1000" in full.stderr
    assert "the last whole checkpoint is that of step 0" in full.stderr
    assert f"bires resume {tmp_path / 'full'}" in full.stderr
    assert Store(tmp_path / "full").steps() == [0]
    assert not list((tmp_path / "full").rglob("*.part"))
    again = trained(tmp_path / "full", False)
    assert again.returncode == 0, again.stderr
    assert contents(tmp_path / "free") == contents(tmp_path / "full")
    assert_same_moment(tmp_path / "free", tmp_path / "full", 2000)
    going = trained(tmp_path / "going", True, "--keep-going")
    assert going.returncode == 0, going.stderr
    assert contents(tmp_path / "free") == contents(tmp_path / "going")
    assert Store(tmp_path / "going").steps() == [0]


def test_a_run_that_cannot_open_another_file_says_so_and_goes_on_later(stopped, tmp_path, undisturbed):
    """Not even the folder of its checkpoints can be looked into."""
    config, _ = stopped
    before = resource.getrlimit(resource.RLIMIT_NOFILE)

    looks = iter([False])

    def stop() -> bool:
        now = next(looks, True)
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, before[1]) if now else before)
        return now

    try:
        with pytest.raises(CannotGoOn, match=r"Too many open files.*; the last whole checkpoint stays") as error:
            begin_or_continue(config, tmp_path / "run", Options(workers=0), stop)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert "Make room (disk, quota, file limit)" in str(error.value)
    begin_or_continue(config, tmp_path / "run", Options(workers=0))
    assert contents(undisturbed()) == contents(tmp_path / "run")


def test_members_that_diverge_do_not_change_the_others(tmp_path, quick, split):
    """The same population twice; in one of them two members explode."""
    calm = bires.train(TASK, critic_lr=[1e-3, 1e-4], seeds=2, out=tmp_path / "calm", **quick)
    wild = bires.train(TASK, critic_lr=[1e-3, 1e30], seeds=2, out=tmp_path / "wild", **quick)
    assert wild.members["status"].tolist() == ["finished", "finished", "diverged", "diverged"]
    assert all(20 < row["diverged_at"] <= 60 for row in wild.members.rows() if row["status"] == "diverged")
    seen = wild.evaluations
    assert np.all(seen["step"][seen["member"] >= 2] < 60)
    for name in ("evaluations.csv", "metrics.csv"):
        left, right = ((run.path / name).read_text().splitlines() for run in (calm, wild))
        kept = [line for line in left if line[:2] in ("0,", "1,")]
        assert kept
        assert kept == [line for line in right if line[:2] in ("0,", "1,")]
    left, right = arrays(calm.path), arrays(wild.path)
    for name in left:
        if not name.startswith("episode/"):
            np.testing.assert_array_equal(left[name][:2], right[name][:2], err_msg=name)


TAKEN = "process 1 on another machine\nanother machine\n0 000000000001"


@pytest.mark.parametrize(("owner", "name"), [(TrainingLoop, "_steps"), (Cohort, "evaluate"), (Cohort, "take_metrics")])
def test_a_process_that_lost_its_folder_writes_nothing_more(tmp_path, quick, monkeypatch, owner, name):
    """Another machine takes the folder over in the last round, the last evaluation, or before the last row."""
    monkeypatch.setattr("bires.runs.lock.LOST_S", 0.0)
    out, kept, real = tmp_path / "run", [], getattr(owner, name)

    def asleep(self, *arguments):
        found = real(self, *arguments)
        clock = self.step if owner is TrainingLoop else self.bridge._clock
        if clock == 60:
            (out / ".lock").write_text(TAKEN)
            kept.append((contents(out), Store(out).steps()))
        return found

    monkeypatch.setattr(owner, name, asleep)
    with pytest.raises(LostLock, match="taken over"):
        begin_or_continue(configured(quick), out, Options(workers=0, cohorts="threads"))
    assert (contents(out), Store(out).steps()) == kept[-1]
    assert (out / ".lock").read_text() == TAKEN


def test_members_that_freeze_together_are_recorded_at_once(monkeypatch):
    """A table is flushed to disk when it is written: a hundred times for a hundred members takes long."""
    loop: Any = TrainingLoop.__new__(TrainingLoop)
    said: list[str] = []
    written: list[dict[int, int]] = []
    frozen = [[(0, 5, None), (2, 5, None)], [(1, 6, None)]]
    loop.runner = SimpleNamespace(each=lambda what: frozen)
    loop.plan = SimpleNamespace(members=[None] * 3)
    loop.options = Options(say=said.append)
    loop.diverged, loop.stopped, loop.failed = {}, {}, set()
    loop.require_ours = lambda: None
    monkeypatch.setattr(TrainingLoop, "_write_members", lambda self: written.append(dict(self.diverged)))
    loop._record_frozen()
    assert written == [{0: 5, 2: 5, 1: 6}]
    assert [text.rpartition("; ")[2] for text in said] == ["the others go on"] * 2 + ["no member is left"]


@pytest.mark.parametrize("algorithm", ["ddpg", pytest.param("dyna-ddpg", marks=pytest.mark.slow)])
def test_when_a_divergence_is_noticed_changes_nothing(tmp_path, quick, algorithm, stepwise):
    """Checkpoints look for diverged members, too, and come when time has passed."""
    settings = {"log_every": 1000, "replay": 60, "critic_lr": [1e-3, 1e30], "algorithm": algorithm}
    settings |= {"task": "pendulum-swingup"} if algorithm == "dyna-ddpg" else {}  # it asks the simulator
    for name, minutes in (("once", 1e6), ("often", 1e-9)):
        begin_or_continue(
            configured(quick, **settings), tmp_path / name, Options(workers=0, checkpoint_minutes=minutes)
        )
    rows = (tmp_path / "once" / "members.csv").read_text().splitlines()
    assert "diverged" in rows[2]
    assert contents(tmp_path / "once") == contents(tmp_path / "often")
    left, right = (whole(arrays(tmp_path / name)) for name in ("once", "often"))
    assert left.keys() == right.keys()
    for name in left:
        np.testing.assert_array_equal(left[name], right[name], err_msg=name)


def whole(found: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """A checkpoint's arrays, with the segments of each replay put together."""
    replay: dict[str, list[np.ndarray]] = {}
    for name in sorted(name for name in found if name.startswith("replay/")):
        replay.setdefault(name.rpartition("/")[2], []).append(found[name])
    rest = {name: array for name, array in found.items() if not name.startswith("replay/")}
    return rest | {name: np.concatenate(parts, axis=1) for name, parts in replay.items()}
