"""Modules of the user's own: named on the command line, found beside the package or in the current folder."""

from __future__ import annotations

import importlib
import os
import sys
from types import ModuleType

from bires.errors import UserError


def look_here() -> None:
    """Modules are looked for in the current folder, too; last of all."""
    here = os.getcwd()
    if here not in sys.path and "" not in sys.path:
        sys.path.append(here)


def import_users(module: str, flag: str) -> ModuleType:
    """Imports a module that a user named, perhaps from the current folder."""
    look_here()
    try:
        return importlib.import_module(module)
    except (Exception, SystemExit) as error:  # of the import itself, or whatever its code raised
        said = f"{type(error).__name__}: {error}" if not isinstance(error, ImportError) else error
        raise UserError(
            f"{flag} names the module {module!r}, which cannot be imported ({said}). Give MODULE:NAME, with a module "
            "that is installed or lies in the current folder."
        ) from error
