"""The process of one population among several (see `bires.studies.together`)."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from pathlib import Path
from typing import IO

from bires.settings.options import Stopped
from bires.studies.run import attempt
from bires.studies.together import log_of


def serve(commands: int, replies: int) -> None:
    """Runs the population that it receives and replies how it ended; stops cleanly when the other side is gone."""
    with os.fdopen(commands, "rb") as received:
        task = json.loads(received.readline())
        log = log_of(Path(task["path"]))
        log.parent.mkdir(parents=True, exist_ok=True)
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        for stream in (1, 2):
            os.dup2(output, stream)
        threading.Thread(target=stop_at_end, args=(received,), daemon=True).start()
        try:
            ending = attempt(**task)
        except Stopped as stopped:
            ending = {"stopped": str(stopped)}
        if not os.fstat(output).st_size:
            log.unlink(missing_ok=True)
        with os.fdopen(replies, "wb") as answer:
            answer.write(json.dumps(ending).encode())
        os._exit(0)  # the thread still waits for the other side


def stop_at_end(received: IO[bytes]) -> None:
    """Stops this process when the other end of the pipe is closed."""
    received.read()
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    serve(*map(int, sys.argv[1:3]))
