"""A look at a task before it is trained."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Literal

from bires.api.spelling import as_typed, in_python
from bires.runs.tables import Table
from bires.settings import config as configs
from bires.settings.values import proper
from bires.tools.checking import diagnoses


@as_typed
def check(
    task: str,
    *,
    protocol: Literal["modern", "paper"] = "modern",
    env_kwargs: Mapping[str, Any] | None = None,
    **settings: Any,
) -> Table:
    """What an agent sees of a task, and whether it keeps what training asks of an environment: one row per check.

        found = bires.check("my_envs:my/Crane-v0")
        assert "broken" not in found["state"]

    ``state`` is ``"ok"``; ``"advice"``: it trains, and ``fix`` says what would be better; ``"absent"``: an option that
    it does not have; or ``"broken"``: it raised, or gave what is not finite. ``settings`` are those of the task's
    family, such as ``sticky=0.5`` of MinAtar. The environment takes up to 2,000 random
    steps. A task that is not known, cannot be built or in which no agent can act is a `bires.UserError`.
    """
    way = proper("protocol", protocol, Literal["modern", "paper"])
    proper("task", task, str)
    rows = [asdict(one) for one in diagnoses(task, way, configs.settled("env_kwargs", env_kwargs or {}), settings)]
    return Table({name: [in_python(row[name]) for row in rows] for name in rows[0]})
