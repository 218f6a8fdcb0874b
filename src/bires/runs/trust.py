"""What a run folder may make this process do: nothing but be read, unless its user trusts it.

A folder may come from somebody else. The names in its manifest may be those of modules, whose code runs when they are
imported; text among the arguments of its environment may name files and programs; its entries may be links to other
places, to which a resumed run would write.
"""

from __future__ import annotations

import json
import os
import shlex
import stat
import sys
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from bires.errors import UserError
from bires.settings.values import several

NAMED = ("task", "algorithm", "rule", "planner")
"""Settings that may be MODULE:NAME."""
ARGUMENTS = "env_kwargs"
"""The setting that holds the arguments of the environment."""
_named: set[str] = set()
"""Arguments that the user of this process gave or trusted: what `sys.modules` is for modules."""
LARGEST_MANIFEST = 10_000_000
"""Bytes; a usual one has three thousand."""
DEEPEST = 50
"""Levels of nesting in a manifest; a usual one has three."""


FEW = 4
"""Runs that a message names."""


def instead_of(path: Path) -> str:
    """What to give in place of a folder that is not a run: one of the runs in it, where it holds some."""
    try:
        inside = sorted(one.parent.name for one in path.glob("*/manifest.json"))
    except OSError:
        inside = []
    if not inside:
        return "Give a folder that `bires train` made."
    names = ", ".join(inside[:FEW]) + (f" and {len(inside) - FEW} more" if len(inside) > FEW else "")
    return f"It holds runs ({names}): give one of them. To continue all, type the command that made them again."


def read_manifest(path: Path) -> dict[str, Any]:
    """What a run's manifest.json holds, or an error of its own if it is not one."""
    require_inside(path)
    file = path / "manifest.json"
    try:
        if file.stat().st_size > LARGEST_MANIFEST:
            raise ValueError("too large")
        found = json.loads(file.read_text())
        require_shallow(found)
        if not isinstance(found, dict) or not isinstance(found.get("config"), dict):
            raise ValueError("not a manifest")
        datetime.fromisoformat(str(found.get("start")))
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"{path} is not a run folder (no readable manifest.json). {instead_of(path)}") from error
    for name in ("start", "end", "command", "cpu", "device", "commit", "precision"):
        if not isinstance(found.get(name), str | None):
            raise UserError(f"{file} cannot be used: its {name!r} is not text. Put a good copy back.")
    return found


def require_shallow(data: Any) -> None:
    """Refuses nesting that would exhaust the stack of whoever walks through it."""
    level = [data]
    for _ in range(DEEPEST):
        level = [one for x in level if isinstance(x, dict | list) for one in (x.values() if isinstance(x, dict) else x)]
    if level:
        raise ValueError("nested too deeply")


def require_inside(path: Path) -> None:
    """Refuses a folder with links to places outside of it, or with anything else than files and folders."""
    root = path.resolve()
    for entry in entries(root):
        try:
            kind = entry.stat(follow_symlinks=False).st_mode
        except FileNotFoundError:  # a run that is under way renames its files
            continue
        if stat.S_ISLNK(kind):
            target = Path(entry.path).resolve()
            if target != root and root not in target.parents:
                raise UserError(
                    f"{entry.path} is a link to {target}, outside of the run folder; nothing was read or written. "
                    "Replace it by what it points to, or link the run folder as a whole."
                )
        elif not (stat.S_ISREG(kind) or stat.S_ISDIR(kind)):
            raise UserError(f"{entry.path} is neither a file nor a folder; a run has no such thing. Remove it.")


def entries(folder: Path) -> Iterator[os.DirEntry[str]]:
    """Everything below a folder; links are not followed."""
    waiting: list[str | Path] = [folder]
    while waiting:
        try:
            found = list(os.scandir(waiting.pop()))
        except OSError:  # not there (any more), or not a folder
            continue
        yield from found
        waiting += [entry.path for entry in found if entry.is_dir(follow_symlinks=False)]


def modules(config: Mapping[str, Any]) -> dict[str, str]:
    """The modules that a configuration names → by what."""
    named = [(key, name) for key in NAMED for name in several(config.get(key, ())) if isinstance(name, str)]
    return {name.rpartition(":")[0]: f"{key} {name!r}" for key, name in named if name.rpartition(":")[0]}


def names_others(config: Mapping[str, Any]) -> bool:
    """Whether a configuration names modules or gives text to its environment: later commands need --trust."""
    return bool(modules(config)) or any(any(texts(one)) for one in (config.get(ARGUMENTS) or {}).values())


def resume_command(path: Path, config: Mapping[str, Any], more: str = "") -> str:
    """What to type to continue a run, in a process that knows nothing of it."""
    words = ["bires resume", shlex.quote(str(path)), *([more] if more else []), *["--trust"] * names_others(config)]
    return f"`{' '.join(words)}`"


def texts(value: Any) -> Iterator[str]:
    """All text in some arguments, but for the names of the arguments themselves."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, one in value.items():
            yield from (key, *texts(one))
    elif isinstance(value, list | tuple):
        for one in value:
            yield from texts(one)


def remember(config: Mapping[str, Any]) -> None:
    """The user of this process wants these arguments of an environment."""
    _named.add(as_text(config.get(ARGUMENTS)))


def as_text(arguments: Any) -> str:
    return json.dumps(arguments, sort_keys=True)


def require_trusted(path: Path, config: Mapping[str, Any]) -> None:
    """Refuses a run that would make this process import modules or use files of its choosing.

    What the user has named is not the run's choice: modules that are imported, arguments that were given before.
    Numbers among the arguments reach nothing.
    """
    given = config.get(ARGUMENTS)
    for name, value in given.items() if isinstance(given, dict) else ():
        if any(texts(value)) and as_text(given) not in _named:
            raise UserError(
                f"{path} gives its environment the argument {name}={value!r}, which may name a file or a program; "
                "nothing was built. If you trust it, as a run of your own, add --trust."
            )
    for module, by in modules(config).items():
        if module not in sys.modules:
            raise UserError(
                f"{path} names the module {module!r} ({by}), whose code would run here; nothing was imported. If you "
                "trust that code, as that of a run of your own, add --trust."
            )
