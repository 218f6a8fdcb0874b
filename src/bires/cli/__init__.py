"""The command line.

May import: everything. What leaves it: `main`.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from importlib import metadata

LINES = "\n\t"
"""What a message may hold beside characters that print."""


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 0: done; 2: bad input; 3: stopped and resumable; 1: a defect of ours (`doctor`: of this machine).

    130: interrupted at once, by a second Ctrl-C or before there was a run to stop; 141: nothing reads the output.
    """
    try:
        return attempt(list(sys.argv[1:] if argv is None else argv))
    except KeyboardInterrupt:
        print("bires: interrupted; a run goes on from its last checkpoint: `bires resume RUN`", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of the output is gone, such as `head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE


def attempt(words: list[str]) -> int:
    import tyro

    from bires.cli import commands, flags
    from bires.cli.output import Interrupted
    from bires.errors import REFUSALS, UserError
    from bires.machine.terminal import printable

    if words == ["--version"]:
        print(f"bires {metadata.version('bires')}")
        return 0
    try:
        words = flags.completed(words)
        command = tyro.cli(
            commands.commands(words),
            prog="bires",
            description="Residual algorithms for deep reinforcement learning.",
            args=words,
        )
        try:
            return int(command.run())
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


def script() -> None:
    sys.exit(main())
