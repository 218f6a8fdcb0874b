"""What steps a pool's environments: worker processes, or a thread."""

from __future__ import annotations

import json
import math
import os
import select
import subprocess
import threading
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from queue import SimpleQueue
from typing import Any

import numpy as np

from bires.envs.slots import Start
from bires.envs.worker import ASK, receive, send
from bires.machine.processes import end, launch_helper

PATIENCE_S = 300.0
"""A worker that does not reply for this long counts as hung and is replaced."""
LOOK_S = 1.0
"""How often it is looked at meanwhile: a process that its simulator forked keeps the pipe of a dead one open."""
LOST = (EOFError, OSError, TimeoutError)
"""What is raised when a worker is dead or hung."""

QUESTIONS = -1
"""In the list of pending replies: answers to the oracle's questions."""


@dataclass
class Worker:
    """A worker process and the replies it still has to send."""

    setup: dict[str, Any]
    memory: int
    process: subprocess.Popen[bytes] | None = None
    commands: int = -1
    replies: int = -1

    def __post_init__(self) -> None:
        self.pending: list[int | None] = []
        """Requests without a reply yet: steps (by group), `QUESTIONS`, and begins (None)."""
        self.losses = 0
        """How often its process was lost since the last reply to such a request."""
        self.slots = sorted(slot for group in self.setup["groups"] for slot in group)

    def launch(self) -> None:
        """Starts the process; its first reply means that it is ready."""
        theirs_in, self.commands = os.pipe()
        self.replies, theirs_out = os.pipe()
        arguments = (theirs_in, theirs_out, self.memory)
        self.process = launch_helper("bires.envs.worker", arguments, arguments)
        os.close(theirs_in)
        os.close(theirs_out)
        send(self.commands, json.dumps(self.setup).encode())

    def ask_to_step(self, group: int) -> None:
        self.pending.append(group)
        self._ask(bytes([group]))

    def ask_oracle(self) -> None:
        self.pending.append(QUESTIONS)
        self._ask(ASK)

    def ask_to_begin(self, starts: Sequence[Start]) -> None:
        self.pending.append(None)
        self._ask(json.dumps([asdict(start) for start in starts]).encode())

    def _ask(self, message: bytes) -> None:
        try:
            send(self.commands, message)
        except OSError:
            pass  # a dead worker: noticed and replaced when its reply is awaited

    def reply(self) -> bytes:
        assert self.process is not None
        for _ in range(math.ceil(PATIENCE_S / LOOK_S)):  # not by the clock: this process may have been stopped, too
            if select.select([self.replies], [], [], LOOK_S)[0]:
                return receive(self.replies)
            if self.process.poll() is not None:
                raise EOFError
        raise TimeoutError

    def kill(self) -> None:
        if self.process is not None:
            end(self.process)
            os.close(self.commands)
            os.close(self.replies)
            self.process = None


def split(group: Sequence[int], workers: int, worker: int) -> list[int]:
    """The part of a group that one worker steps: contiguous, of nearly equal sizes."""
    return [int(slot) for slot in np.array_split(np.asarray(group, int), workers)[worker]]


class StepThread:
    """A thread that does some work while its owner does something else."""

    def __init__(self, work: Callable[..., None]) -> None:
        self._work = work
        self._asked: SimpleQueue[tuple[Any, ...] | None] = SimpleQueue()
        self._done: SimpleQueue[BaseException | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def start(self, *arguments: Any) -> None:
        self._asked.put(arguments)

    def finish(self) -> None:
        """Returns when what was started last is done; raises what it raised."""
        error = self._done.get()
        if error is not None:
            raise error

    def close(self) -> None:
        self._asked.put(None)
        self._thread.join()

    def _serve(self) -> None:
        while (arguments := self._asked.get()) is not None:
            try:
                self._work(*arguments)
                self._done.put(None)
            except BaseException as error:
                self._done.put(error)
