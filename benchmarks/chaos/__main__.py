"""Prints a table of what was done and what came of it, and writes it into a page.

Exits with 1 if a single byte differs, a fault ended otherwise than it should, a process stayed, or fewer faults than
asked for found their way in.
"""

from __future__ import annotations

import argparse
import signal
import sys
import threading
import time
from pathlib import Path

import numpy as np

from . import __doc__ as about
from . import folders, signals, storage, timed, worlds
from .kinds import KINDS, Kind
from .lanes import Lane, Record, deal
from .subjects import SUBJECTS
from .worlds import WORLD

GROUPS = (signals, timed, storage, folders, worlds)
"""What fills the table."""


PLACES = 3
"""Lanes at a time. Each start of a process keeps a core busy, but there is some waiting, too."""


def table(kinds: list[Kind], record: Record) -> str:
    rows = [
        f"| {one.name} | {record.impossible.get(one.name) or record.done[one.name]} | {one.expected} |" for one in kinds
    ]
    return "\n".join(["| fault | times | what is expected of the run |", "|---|---|---|", *rows])


def main() -> int:
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--faults", type=int, help="how many; default: each kind once")
    parser.add_argument("--long", action="store_true", help="shake all subjects, not the first two")
    parser.add_argument("--only", nargs="+", default=[""], help="kinds whose names hold one of these")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--list", action="store_true", help="show the kinds")
    parser.add_argument("--out", type=Path, default=Path("runs/chaos"))
    parser.add_argument("--page", type=Path, help="a page whose block <!-- chaos --> … <!-- end --> takes the table")
    options = parser.parse_args()
    kinds = [one for name, one in KINDS.items() if any(part.lower() in name.lower() for part in options.only)]
    if options.list or not kinds:
        print("\n".join(f"{one.name}: {one.expected}" for one in kinds or KINDS.values()))
        return 0 if options.list else 2
    return shake(kinds, options)


def shake(kinds: list[Kind], options: argparse.Namespace) -> int:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it, and so would runs
    print(f"seed {options.seed}", flush=True)
    begun, out = time.monotonic(), options.out.resolve()
    record = Record(lambda text: print(text, flush=True))
    subjects = [*(SUBJECTS if options.long else SUBJECTS[:2]), WORLD]
    lanes = [Lane(one, out / str(i), record, options.seed + i) for i, one in enumerate(subjects)]
    faults = options.faults or len(kinds)
    deal(kinds, faults, lanes, np.random.default_rng(options.seed))
    follow(lanes)
    count = sum(record.done.values())
    if count < faults and not record.impossible:
        record.wrong.append(f"only {count} of {faults} faults found their way in")
    verdict = "files, learners and replay are identical" if not record.wrong else "\n".join(record.wrong)
    minutes, runs = (time.monotonic() - begun) / 60, sum(lane.laps for lane in lanes)
    text = (
        f"{table(kinds, record)}\n\n{count} faults of {len(record.done)} kinds in {minutes:.1f} minutes, in {runs} "
        f"runs ({'; '.join(lane.subject.name for lane in lanes if lane.laps)}), seed {options.seed}: {verdict}.\n"
    )
    print(text)
    if options.page and not record.wrong:
        head, _, rest = options.page.read_text().partition("<!-- chaos -->\n")
        options.page.write_text(f"{head}<!-- chaos -->\n{text}<!-- end -->{rest.partition('<!-- end -->')[2]}")
    return 1 if record.wrong else 0


def follow(lanes: list[Lane]) -> None:
    """Runs the lanes, some at a time."""
    places = threading.Semaphore(PLACES)

    def one(lane: Lane) -> None:
        with places:
            lane.run()

    threads = [threading.Thread(target=one, args=(lane,), daemon=True) for lane in lanes]
    for thread in threads:
        thread.start()
    try:
        for thread in threads:
            thread.join()
    except KeyboardInterrupt:
        for lane in lanes:
            lane.give_up()
        raise


if __name__ == "__main__":
    sys.exit(main())
