"""Faults: signals, to the trainer, to its cohorts, to its workers, and to all at once."""

from __future__ import annotations

import signal
import time

import psutil

from .kinds import Missed, Wrong, kind
from .shaken import Shaken

REQUESTS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)
GOES_ON = "the run goes on; nothing changes"


@kind("kill -9 of the trainer", "the same command goes on from the last checkpoint")
def kill_trainer(run: Shaken) -> None:
    run.kill()


@kind("kill -9 of a cohort's process", "the run goes on from its last checkpoint", "cohort")
def kill_cohort(run: Shaken) -> None:
    run.some("cohort").kill()


@kind("kill -9 of an environment worker", "replaced, its episodes rebuilt; the run goes on", "worker")
def kill_worker(run: Shaken) -> None:
    run.some("worker").kill()


@kind("kill -9 of the trainer, a worker stopped", "no process stays", "worker")
def kill_beside_stopped(run: Shaken) -> None:
    run.some("worker").suspend()
    run.kill()


def stopped_in_order(run: Shaken, number: signal.Signals) -> None:
    run.send(number)
    run.ended(0, 3)  # 0: it was at its end


@kind("SIGTERM", "exit code 3 after a checkpoint")
def terminate(run: Shaken) -> None:
    stopped_in_order(run, signal.SIGTERM)


@kind("SIGINT (Ctrl-C)", "exit code 3 after a checkpoint")
def interrupt(run: Shaken) -> None:
    stopped_in_order(run, signal.SIGINT)


@kind("SIGUSR1 (Slurm, before the time is up)", "exit code 3 after a checkpoint")
def user_signal(run: Shaken) -> None:
    stopped_in_order(run, signal.SIGUSR1)


@kind("Ctrl-C twice", "exit code 130 at once, or 3")
def interrupt_twice(run: Shaken) -> None:
    run.send(signal.SIGINT)
    run.pause(0.3)
    if run.running:
        run.send(signal.SIGINT)
    run.ended(0, 3, 130, -signal.SIGINT)  # the last one once Python is about to end: a shell shows 130, too


@kind("SIGHUP (the terminal is closed)", "the same command goes on from the last checkpoint")
def hang_up(run: Shaken) -> None:
    run.send(signal.SIGHUP)
    run.ended(0, -signal.SIGHUP)


@kind("SIGTERM to every process of the run", "exit code 3 after a checkpoint")
def terminate_all(run: Shaken) -> None:
    family = run.family()
    run.send(signal.SIGTERM)
    for process in family:
        try:
            process.terminate()
        except psutil.Error:
            continue
    run.ended(0, 3)


def asked(run: Shaken, part: str) -> None:
    """A request to stop is the trainer's business; a helper that gets one goes on."""
    one = run.some(part)
    one.send_signal(REQUESTS[int(run.rng.integers(len(REQUESTS)))])
    time.sleep(0.3)
    if run.running and not run.finished and not one.is_running():
        raise Wrong(f"the {part} has ended")


@kind("SIGTERM, SIGINT or SIGUSR1 to a worker", GOES_ON, "worker")
def ask_worker(run: Shaken) -> None:
    asked(run, "worker")


@kind("SIGTERM, SIGINT or SIGUSR1 to a cohort's process", GOES_ON, "cohort")
def ask_cohort(run: Shaken) -> None:
    asked(run, "cohort")


def asleep(run: Shaken, one: psutil.Process) -> None:
    """Stops a process for a while; the run must go on afterwards."""
    try:
        one.suspend()
        time.sleep(0.5 + float(run.rng.uniform(0, 1.5)))
        one.resume()
    except psutil.NoSuchProcess:
        raise Missed("the process had ended") from None


@kind("SIGSTOP, then SIGCONT, of the trainer", GOES_ON)
def stop_trainer(run: Shaken) -> None:
    assert run.process is not None
    asleep(run, psutil.Process(run.process.pid))


@kind("SIGSTOP, then SIGCONT, of a worker", GOES_ON, "worker")
def stop_worker(run: Shaken) -> None:
    asleep(run, run.some("worker"))


@kind("SIGSTOP, then SIGCONT, of a cohort's process", GOES_ON, "cohort")
def stop_cohort(run: Shaken) -> None:
    asleep(run, run.some("cohort"))
