"""Errors that a user can act on."""

import errno
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path

REFUSALS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM, errno.EMFILE, errno.ENFILE)
"""What an operating system says when a disk is full, a folder read-only or a limit reached: no defect of ours."""


class UserError(ValueError):
    """Bad input: the message says what was given, what is accepted and what to type instead.

    The command line prints the message alone and exits with code 2.
    """


@contextmanager
def writing_to(out: Path, instead: str = "Give a folder you may write to.") -> Iterator[None]:
    """What the system refuses to write, while this lasts, is an error of ``--out``."""
    try:
        yield
    except OSError as error:
        raise UserError(f"Cannot write to --out {out} ({error.strerror}). {instead}") from error


def unknown(kind: str, given: str, accepted: Iterable[str], hint: str) -> UserError:
    """The error for a name that is not in a list, with the nearest names of the list."""
    names = list(accepted)
    by_lower = {name.lower(): name for name in names}
    near = get_close_matches(given, names, n=3, cutoff=0.5)
    if given.lower() in by_lower:
        near = [by_lower[given.lower()]]
    meant = f" Did you mean {' or '.join(repr(name) for name in near)}?" if near else ""
    listed = f" Accepted: {', '.join(names)}." if 0 < len(names) <= 20 else ""
    return UserError(f"Unknown {kind} {given!r}.{meant}{listed} {hint}".rstrip())
