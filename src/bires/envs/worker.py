"""A process that steps some slots: started with the file descriptors of its pipe and of the shared arrays.

A message is a length and that many bytes: one byte names a group of slots to step, or (``?``) asks for answers to the
questions in the shared arrays; anything longer is JSON.
Every message is answered by one: empty, or JSON {slot: traceback} when slots failed.
"""

from __future__ import annotations

import json
import mmap
import os
import struct
import sys
from typing import Any

from bires.envs.memory import Layout
from bires.envs.oracle import Oracle, Questions
from bires.envs.recipe import Recipe
from bires.envs.slots import SharedArrays, Slots, Start
from bires.machine.helper import leave_output_to_parent
from bires.types import Space

LENGTH = struct.Struct("<I")
ASK = b"?"


def shared(layout: Layout, setup: dict[str, Any]) -> tuple[SharedArrays, Questions]:
    """The arrays that the pool and its workers share, in the order in which both sides lay them out."""
    space = Space.from_json(setup["space"])
    physics, rows = setup["oracle"]["physics"], setup["oracle"]["rows"]
    return SharedArrays(layout, setup["slots"], space, physics), Questions(layout, rows, space, physics)


def send(descriptor: int, message: bytes) -> None:
    view = memoryview(LENGTH.pack(len(message)) + message)
    while view:
        view = view[os.write(descriptor, view) :]


def receive(descriptor: int) -> bytes:
    return read_exactly(descriptor, LENGTH.unpack(read_exactly(descriptor, LENGTH.size))[0])


def read_exactly(descriptor: int, count: int) -> bytes:
    parts = []
    while count:
        part = os.read(descriptor, count)
        if not part:
            raise EOFError
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def serve(commands: int, replies: int, memory: int) -> None:
    """Answers messages until the other side closes the pipe."""
    setup: dict[str, Any] = json.loads(receive(commands))
    with mmap.mmap(memory, 0) as buffer:
        arrays, questions = shared(Layout(buffer), setup)
        recipe = Recipe(**setup["recipe"])
        mine, oracle = Slots(recipe, arrays), Oracle(recipe)
        groups: list[list[int]] = setup["groups"]
        send(replies, b"")
        while True:
            message = receive(commands)
            if message == ASK:
                mine.failures |= oracle.answer(questions, *setup["share"])
            elif len(message) == 1:
                mine.step(groups[message[0]])
            else:
                for start in json.loads(message):
                    mine.begin(Start(**start))
            send(replies, json.dumps(mine.failures).encode() if mine.failures else b"")
            mine.failures.clear()


if __name__ == "__main__":
    leave_output_to_parent()
    try:
        serve(*map(int, sys.argv[1:4]))
    except (EOFError, BrokenPipeError):
        os._exit(0)  # the process that started this one is gone; nothing here needs to be closed
