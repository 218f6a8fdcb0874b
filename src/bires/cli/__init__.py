"""The command line.

May import: everything. What leaves it: `main`.
"""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout, suppress
from importlib import metadata
from typing import Any

LINES = "\n\t"
"""What a message may hold beside characters that print."""
INTERRUPTED = "bires: interrupted; a run goes on from its last checkpoint: `bires resume RUN`"
TRAINING = ("train", "compare", "tune", "resume")
GOING_ON = (*TRAINING, "reproduce")
"""Commands that train, and go on where they were."""
STYLE = r"(?:\x1b\[\d*m)*"
USAGE = re.compile(rf"({STYLE}usage:{STYLE}) {STYLE}bires{STYLE} (train|compare|tune)\b.*")
"""How the parser shows these commands: flags first, which is refused."""


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 0: done; 2: bad input; 3: stopped and resumable; 1: a defect of ours, or found by `doctor`, `check`.

    130: interrupted at once, by a second Ctrl-C or before there was a run to stop; 141: nothing reads the output.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        return attempt(words)
    except KeyboardInterrupt:
        print(INTERRUPTED if words[:1] and words[0] in GOING_ON else "bires: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of the output is gone, such as `head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE


def attempt(words: list[str]) -> int:
    from bires.cli.flags import one_task_each
    from bires.cli.output import Interrupted
    from bires.errors import REFUSALS, UserError
    from bires.machine.terminal import printable

    if words == ["--version"]:
        print(f"bires {metadata.version('bires')}")
        return 0
    if not words:
        with suppress(SystemExit):
            parse(["--help"])
        return 2
    try:
        parsed = [parse(one) for one in one_task_each(words)]
        try:
            return run(parsed)
        except SystemExit as ending:
            if isinstance(ending.__context__, BrokenPipeError):  # what Rich makes of one
                raise BrokenPipeError from None
            raise
    except UserError as error:
        print(f"bires: {printable(error, LINES)}", file=sys.stderr)
        return 2
    except OSError as error:
        if error.errno not in REFUSALS:
            raise
        print(
            f"bires: the system refused: {printable(error, LINES)}. Make room (disk, quota, ulimit).", file=sys.stderr
        )
        return 2
    except Interrupted as stopped:
        print(f"bires: {printable(stopped, LINES)}", file=sys.stderr)
        return 3


def parse(words: list[str]) -> Any:
    """The command that some words are, as a record with a method `run`."""
    import tyro

    from bires.cli import commands, flags

    words = flags.completed(words)
    shown: Any = TaskFirst(sys.stdout)
    with redirect_stdout(shown):
        parsed, rest = tyro.cli(
            commands.commands(words),
            prog="bires",
            description="Residual algorithms for deep reinforcement learning.",
            args=words,
            return_unknown_args=True,
        )
    if rest:
        raise commands.refused(words, rest)
    return parsed.command() if hasattr(parsed, "command") else parsed


def run(commands: Sequence[Any]) -> int:
    """A command; or one that was typed with several tasks."""
    if len(commands) == 1:
        return int(commands[0].run())
    from bires.cli.training import on_several

    return on_several(commands)


def script() -> None:
    """The program `bires`."""
    if sys.argv[1:2] and sys.argv[1] in TRAINING and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, end_at_once)
    sys.exit(main())


def end_at_once(number: int, frame: Any) -> None:
    """For Ctrl-C before a run can stop in order. Python's own exception would be lost in a callback of a library."""
    os.write(sys.stderr.fileno(), f"{INTERRUPTED}\n".encode())
    os._exit(130)


class TaskFirst:
    """The standard output, with the usage of a command as it is to be typed; the parser has no setting for it."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        return int(self._stream.write(USAGE.sub(r"\1 bires \2 TASK [options]", text)))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
