"""What a check found: its state, in words, and what to type; of a machine (`doctor`) or of a task (`check`)."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from textwrap import wrap
from typing import Literal

from bires.errors import UserError
from bires.machine.terminal import json_line, terminal_width

State = Literal["ok", "advice", "absent", "broken"]
"""`broken`: training does not work. `advice`: it could work better. `absent`: an optional part is missing."""
MARKS: dict[State, str] = {"ok": "ok", "advice": "look", "absent": "–", "broken": "FAIL"}
INDENT = " " * 34
"""Below what was found."""
REPORT = "Please report this."
LEAST = 20
"""Columns for what was found, however narrow a terminal is."""


@dataclass(frozen=True)
class Diagnosis:
    """The result of one check."""

    what: str
    state: State
    found: str
    fix: str = ""


def examined(check: Callable[[], Iterator[Diagnosis]], fix: str = REPORT) -> Iterator[Diagnosis]:
    """A check that raises is a finding, too."""
    try:
        yield from check()
    except UserError as error:  # it says what to type
        yield Diagnosis(check.__name__, "broken", str(error), "" if fix == REPORT else fix)
    except (Exception, SystemExit) as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        found = f"{type(error).__name__}: {error} ({Path(last.filename).name}, line {last.lineno})"
        yield Diagnosis(check.__name__, "broken", found, fix)


def show(diagnoses: Iterable[Diagnosis], as_json: bool, good: str, bad: str) -> int:
    """Prints them, and ``good``, or ``bad`` with what is broken; exit code 1 if something is, else 0."""
    out, seen, width = sys.stdout, [], terminal_width()
    with redirect_stdout(sys.stderr):  # what is looked at may print
        for diagnosis in diagnoses:
            seen.append(diagnosis)
            if not as_json:
                print(line(diagnosis, width), file=out, flush=True)
    broken = [diagnosis.what for diagnosis in seen if diagnosis.state == "broken"]
    if as_json:
        print(json_line(seen))
    else:
        print(f"{bad}: {', '.join(broken)}." if broken else good)
    return int(bool(broken))


def line(diagnosis: Diagnosis, width: int | None = None) -> str:
    """What was found, broken between words on a terminal; not what to type, which is copied."""
    found = diagnosis.found.splitlines()
    if width:
        room = max(LEAST, width - len(INDENT))
        found = [one for text in found for one in wrap(text, room, break_long_words=False, break_on_hyphens=False)]
    fix = f"\n{INDENT}→ {diagnosis.fix}" if diagnosis.fix else ""
    return f"{MARKS[diagnosis.state]:6}{diagnosis.what:28}" + f"\n{INDENT}".join(found) + fix
