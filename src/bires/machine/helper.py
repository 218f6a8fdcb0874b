"""``python -m bires.machine.helper MODULE …`` runs a module in a process that ends with the one that started it.

Its parent decides when to stop: signals that ask for that (SIGINT, SIGTERM, SIGUSR1) are often sent to all processes of
a job, and a helper that obeyed would take from its parent what a checkpoint needs. When the parent is gone, so is the
helper: also one that hangs in a simulator, or was stopped (SIGSTOP). This comes before the module's imports, which take
seconds.
"""

from __future__ import annotations

import ctypes
import os
import runpy
import signal
import sys
from typing import Any

REQUESTS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)
PR_SET_PDEATHSIG = 1
MAY_FINISH = "BIRES_HELPER_MAY_FINISH"
"""The variable that leaves a helper the time to finish what it does, until it next uses its pipe: a process that is
killed in the middle of a GPU's work may disturb others there."""


def disregard(number: int, frame: Any) -> None:
    """A handler, not SIG_IGN: programs that a simulator starts would inherit that, and could not be stopped."""


def end_with_parent() -> None:
    """Asks the kernel to end this process with its parent; where it cannot, the end of the pipes must do."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL))


def in_a_fork() -> None:
    """A process that a simulator forked can be stopped as usual, and ends with its parent."""
    for number in REQUESTS:
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    end_with_parent()


def leave_output_to_parent() -> None:
    """What a simulator prints goes to the standard error: on the standard output it would break the parent's JSON."""
    os.dup2(2, 1)


def main() -> None:
    for number in REQUESTS:
        signal.signal(number, disregard)
    if os.environ.pop(MAY_FINISH, None) is None:
        end_with_parent()
    os.register_at_fork(after_in_child=in_a_fork)
    sys.argv = sys.argv[1:]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
