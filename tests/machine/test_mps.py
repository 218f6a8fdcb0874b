"""NVIDIA's service for sharing a GPU: started once, used by all processes, gone with the one that asked for it.

There is no GPU where these tests run, so a script stands in for NVIDIA's program and notes what it is told.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

import bires
from bires.machine import mps

ASK = """
import json, sys
from bires.machine import mps
mps.TRY = sys.argv[1]
print(json.dumps(mps.environment()), flush=True)
print(json.dumps(mps.environment()), flush=True)
sys.stdin.read()
"""
SERVED = "import os; raise SystemExit(not os.path.exists(os.environ['CUDA_MPS_PIPE_DIRECTORY'] + '/control'))"


@pytest.fixture
def control(tmp_path: Path, monkeypatch) -> Path:
    """A control program whose service stays until it is told to quit."""
    script, notes = tmp_path / "bin" / mps.CONTROL, tmp_path / "notes"
    script.parent.mkdir()
    script.write_text(
        f"""#!/bin/sh
if [ "$1" = -d ]; then
  echo start >> {notes}
  touch "$CUDA_MPS_PIPE_DIRECTORY/control"
  (while [ -e "$CUDA_MPS_PIPE_DIRECTORY/control" ]; do sleep 0.1; done; echo end >> {notes}) &
else
  cat >> {notes}
  rm "$CUDA_MPS_PIPE_DIRECTORY/control"
fi
"""
    )
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{script.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.delenv(mps.PIPE, raising=False)
    return notes


def ask(attempt: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", ASK, attempt], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def line(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def wait_for(notes: Path, text: str) -> None:
    deadline = time.monotonic() + 30
    while notes.read_text() != text and time.monotonic() < deadline:
        time.sleep(0.05)
    assert notes.read_text() == text


@pytest.mark.parametrize("end", ["kill", "terminate", "close"])
def test_the_service_ends_with_the_process_that_asked_for_it(end, control):
    process = ask(SERVED)
    first, second = line(process), line(process)
    assert first == second
    variables = json.loads(first)
    assert list(variables) == [mps.PIPE]
    assert Path(variables[mps.PIPE], "control").exists()
    assert control.read_text() == "start\n"
    if end != "close":
        getattr(process, end)()
    process.communicate()
    wait_for(control, "start\nquit -t 1\nend\n")
    assert not Path(variables[mps.PIPE]).exists()


def test_a_service_through_which_cuda_cannot_be_used_is_ended(control):
    process = ask("raise SystemExit(1)")
    assert line(process) == "null"
    wait_for(control, "start\nquit -t 1\nend\n")
    process.communicate()


def test_a_service_of_the_users_is_used(control, tmp_path, monkeypatch):
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "control").touch()
    monkeypatch.setenv(mps.PIPE, str(tmp_path / "theirs"))
    process = ask(SERVED)
    assert json.loads(line(process)) == {mps.PIPE: str(tmp_path / "theirs")}
    process.communicate()
    assert not control.exists()


def test_processes_on_a_gpu_without_the_service_are_refused(tmp_path, quick, monkeypatch):
    monkeypatch.setattr("jax.default_backend", lambda: "gpu")
    monkeypatch.setattr(mps, "environment", lambda: None)
    with pytest.raises(bires.UserError, match=rf"{mps.CONTROL}, which does not start here. Use cohorts='threads'"):
        bires.train("pendulum-swingup", out=tmp_path / "run", cohorts="processes", **quick)
    assert not (tmp_path / "run" / "manifest.json").exists()
