"""A run folder: what training leaves behind, and what everything after it reads."""

from __future__ import annotations

import csv
import io
import json
import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import jax
import numpy as np

from bires.runs.tables import read_csv
from bires.settings import config as configs
from bires.settings.config import Config
from bires.settings.grid import Member

EVALUATION_COLUMNS = (
    "member",
    "step",
    "episodes",
    "return_mean",
    "return_std",
    "return_min",
    "return_max",
    "length_mean",
    "q_mean",
    "bellman_error",
)
METRIC_COLUMNS = ("member", "step", "episodes", "train_return_mean", "updates")
"""Those of every run; behind them are the agent's own, and those of planners and models."""
FORMAT = 2
"""The format of run folders: since 2, evaluations have new starts each time. Others are read, never continued."""
PACKAGES = ("bires", "jax", "jaxlib", "numpy", "gymnasium", "mujoco", "dm-control", "shimmy")


def write_whole(path: Path, text: str) -> None:
    """Writes a file aside and renames it: readers see the old text or the new, never a part."""
    aside = path.with_name(path.name + ".part")
    with aside.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    aside.replace(path)


class Appender:
    """A CSV file that only grows, by whole rows; `certain` is how much of it would survive a power cut."""

    def __init__(self, path: Path, columns: Sequence[str], size: int | None) -> None:
        if size is None:
            path.write_text(",".join(columns) + "\n")
        else:
            os.truncate(path, size)  # rows after the checkpoint will be written again
        self._file: Any = path.open("ab", buffering=0)

    def write(self, rows: Iterable[Sequence[Any]]) -> None:
        whole, rest = self.size(), memoryview(csv_text(rows).encode())
        try:
            while rest:
                rest = rest[self._file.write(rest) :]
        except OSError:
            self._file.truncate(whole)  # a torn row would outlive us
            raise

    def size(self) -> int:
        return os.fstat(self._file.fileno()).st_size

    def certain(self) -> int:
        """The size, once what was written is on the disk."""
        os.fsync(self._file.fileno())
        return self.size()

    def __enter__(self) -> Appender:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


def csv_text(rows: Iterable[Iterable[Any]]) -> str:
    """Rows as the text of a CSV file."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([cell(value) for value in row] for row in rows)
    return text.getvalue()


def cell(value: Any) -> Any:
    """Numbers as short as they can be read back; flags as 1 and 0, None and nan as nothing."""
    if isinstance(value, bool | np.bool_):
        return int(value)
    if value is None or (isinstance(value, float | np.floating) and np.isnan(value)):
        return ""
    return f"{float(value):.9g}" if isinstance(value, float | np.floating) else value


class Folder:
    """The writing side."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def create(self, config: Config, members: Sequence[Member], about: dict[str, Any]) -> None:
        """A new run: the manifest first, so that a folder with a manifest is a run."""
        write_whole(self.path / "manifest.json", json.dumps(manifest(config, about), indent=2) + "\n")
        self.write_members(config, members, {})

    def had_processes(self, platform: str) -> bool | None:
        """Whether the run that is here began with processes for its cohorts on such a platform; None: no such run."""
        try:
            about = json.loads((self.path / "manifest.json").read_text())
        except (OSError, ValueError):
            return None
        same = isinstance(about, dict) and about.get("platform") == platform
        return bool(about["processes"]) if same and "processes" in about else None

    def open(self, sizes: dict[str, int] | None, more: Sequence[str] = ()) -> tuple[Appender, Appender]:
        """evaluations.csv and metrics.csv (with ``more`` columns), new or cut back to a checkpoint."""
        sizes = sizes or {}
        return (
            Appender(self.path / "evaluations.csv", EVALUATION_COLUMNS, sizes.get("evaluations")),
            Appender(self.path / "metrics.csv", (*METRIC_COLUMNS, *more), sizes.get("metrics")),
        )

    def write_members(
        self,
        config: Config,
        members: Sequence[Member],
        frozen: Mapping[int, int],
        end: bool = False,
        stopped: Mapping[int, int] | None = None,
        failed: Collection[int] = (),
    ) -> None:
        """members.csv: the members and their status; ``frozen`` and ``stopped`` say in which step they ended.

        Frozen members have diverged, unless their environments have ``failed``.
        """
        early = [(frozen, "diverged"), (stopped or {}, "stopped")]
        columns = list(members[0].row())
        rows: list[list[Any]] = [["member", "task", *columns[1:], "status", "diverged_at", "stopped_at"]]
        for member in members:
            number, usual = member.member, "finished" if end else "running"
            status = "failed" if number in failed else next((name for ended, name in early if number in ended), usual)
            _, *values = member.row().values()
            rows.append([number, config.task, *values, status, *(one.get(number) for one, _ in early)])
        write_whole(self.path / "members.csv", csv_text(rows))

    def withdraw(self) -> None:
        """Removes what `create` and `open` wrote: the run never began. Tracebacks stay, as messages have named them."""
        for name in ("manifest.json", "members.csv", "evaluations.csv", "metrics.csv"):
            (self.path / name).unlink(missing_ok=True)
            (self.path / f"{name}.part").unlink(missing_ok=True)
        with suppress(OSError):  # not there, or not empty
            (self.path / "checkpoints").rmdir()

    def finish(self) -> None:
        self.amend(end=now())

    def amend(self, **about: Any) -> None:
        """Writes what became of the run into its manifest."""
        data = json.loads((self.path / "manifest.json").read_text()) | about
        write_whole(self.path / "manifest.json", json.dumps(data, indent=2) + "\n")

    def lengthen(self, steps: int, members: Sequence[Member], frozen: dict[int, int]) -> None:
        """Gives a run more steps, so that it is not finished; the manifest records when, and how many it had."""
        rows = list(read_csv(self.path / "members.csv").rows())
        stopped = ended_early(rows, "stopped")
        data = json.loads((self.path / "manifest.json").read_text())
        data.setdefault("lengthened", []).append({"steps": data["config"]["steps"], "at": now()})
        data["config"]["steps"], data["end"] = steps, None
        failed = {int(row["member"]) for row in rows if row["status"] == "failed"}
        self.write_members(configs.from_json(data["config"]), members, frozen, stopped=stopped, failed=failed)
        write_whole(self.path / "manifest.json", json.dumps(data, indent=2) + "\n")

    def keep_traceback(self, member: int, text: str) -> Path:
        path = self.path / "errors" / f"member-{member}.txt"
        path.parent.mkdir(exist_ok=True)
        write_whole(path, text)
        return path


def ended_early(rows: Iterable[Mapping[str, Any]], status: str) -> dict[int, int]:
    """Member → step, of the rows of members.csv that are ``diverged``, ``failed`` or ``stopped``."""
    column = "stopped_at" if status == "stopped" else "diverged_at"
    return {int(row["member"]): int(row[column]) for row in rows if row["status"] == status}


def manifest(config: Config, about: dict[str, Any]) -> dict[str, Any]:
    """How the run was made."""
    return {
        "format": FORMAT,
        "config": configs.to_json(config),
        "command": shlex.join(["bires", *sys.argv[1:]]) if typed() else "bires.train(…)",
        "versions": {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}},
        "commit": commit(),
        "cpu": cpu(),
        "device": str(jax.devices()[0].device_kind),
        "precision": "float32",
        **about,
        "start": now(),
        "end": None,
    }


def typed() -> bool:
    """Whether this process is the command line."""
    program = Path(sys.argv[0])
    return program.name == "bires" or program.parts[-2:] == ("bires", "__main__.py")


def version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def commit() -> str | None:
    """The commit of the source, where there is one: of its repository, or in BIRES_COMMIT (copies, containers)."""
    if given := os.environ.get("BIRES_COMMIT"):
        return given
    here = Path(__file__).resolve().parent
    try:
        ours, shown = (
            subprocess.run(["git", *words], cwd=here, capture_output=True, text=True, timeout=10)
            for words in (["ls-files", "--error-unmatch", __file__], ["rev-parse", "HEAD"])
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return shown.stdout.strip() if ours.returncode == shown.returncode == 0 else None


def cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        model = platform.processor() or platform.machine()
    return f"{model}, {os.cpu_count()} cores"


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
