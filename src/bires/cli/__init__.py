"""The command line."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 0: done; 2: bad input; 3: stopped and resumable; 1: a defect of ours (`doctor`: of this machine)."""
    import tyro

    from bires.cli import commands
    from bires.errors import UserError

    try:
        command = tyro.cli(
            commands.COMMANDS,
            prog="bires",
            description="Residual algorithms for deep reinforcement learning.",
            args=list(sys.argv[1:] if argv is None else argv),
        )
        return int(command.run())
    except UserError as error:
        print(f"bires: {error}", file=sys.stderr)
        return 2
    except commands.Interrupted as stopped:
        print(f"bires: {stopped}", file=sys.stderr)
        return 3


def script() -> None:
    sys.exit(main())
