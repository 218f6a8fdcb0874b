"""A process that steps some slots: started with the file descriptors of its pipe and of the shared board.

A message is a length and that many bytes: one byte names a group of slots to step; anything longer is JSON.
Every message is answered by one: empty, or JSON {slot: traceback} when slots failed.
"""

from __future__ import annotations

import json
import mmap
import os
import struct
import sys
from typing import Any

from bires.envs.adapter import Recipe
from bires.envs.slots import Board, Slots, Start

LENGTH = struct.Struct("<I")


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
    slots, observation, action = setup["board"]
    with mmap.mmap(memory, Board.nbytes(slots, observation, action)) as buffer:
        board = Board(buffer, slots, observation, action)
        mine = Slots(Recipe(**setup["recipe"]), board)
        groups: list[list[int]] = setup["groups"]
        send(replies, b"")
        while True:
            try:
                message = receive(commands)
            except EOFError:
                os._exit(0)  # the trainer is gone; nothing here is worth closing
            if len(message) == 1:
                mine.step(groups[message[0]])
            else:
                for start in json.loads(message):
                    mine.begin(Start(**start))
            send(replies, json.dumps(mine.failures).encode() if mine.failures else b"")
            mine.failures.clear()


if __name__ == "__main__":
    serve(*map(int, sys.argv[1:4]))
