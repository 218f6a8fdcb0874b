"""Processes beside this one: they end with it, and only then."""

import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from bires.machine.processes import end, ending, launch_helper

OWNER = """
from bires.machine.processes import launch_helper
launch_helper("tests.machine.waits", (), ()).wait()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel ends a process with its parent on Linux only")
def test_a_helper_outlives_requests_to_stop_but_not_its_parent():
    """Also one that cannot notice the end of a pipe: it hangs, or was stopped."""
    with subprocess.Popen([sys.executable, "-c", OWNER], stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        helper = psutil.Process(int(owner.stdout.readline()))
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
            helper.send_signal(number)
        time.sleep(0.1)
        assert helper.is_running()
        helper.suspend()
        owner.kill()
        owner.wait()
        _, alive = psutil.wait_procs([helper], timeout=10)
    assert not alive


def test_the_end_of_a_process_is_told_in_words():
    process = launch_helper("tests.machine.waits", (), ())
    assert ending(process) == "it does not answer"
    end(process)
    assert ending(process) == "killed by SIGKILL"
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)


@pytest.mark.skipif(sys.platform == "win32", reason="sessions and groups are POSIX's")
def test_a_process_shares_our_session_and_not_our_group():
    """An interrupt from the keyboard goes to our group; the kernel shares cores out by sessions, whatever `nice` is."""
    process = launch_helper("tests.machine.waits", (), ())
    try:
        assert os.getsid(process.pid) == os.getsid(0)
        assert os.getpgid(process.pid) == process.pid
    finally:
        end(process)
