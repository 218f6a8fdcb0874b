"""A folder ready for a model hub: one member's policy, with a card that says what it is. Nothing is uploaded."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bires.analysis import scores, statistics
from bires.analysis.curves import collect
from bires.analysis.figures import save_curves
from bires.analysis.intervals import Estimate, estimate
from bires.analysis.labels import labelled
from bires.errors import UserError, writing_to
from bires.machine.terminal import counted, printable
from bires.runs.activations import ELSEWHERE
from bires.runs.folder import write_whole
from bires.runs.run import Run
from bires.runs.trust import resume_command
from bires.settings import config as configs
from bires.settings import grid
from bires.settings.grid import Member
from bires.settings.recipes import recipe_of
from bires.tools import video

COPIED = ("manifest.json", "members.csv", "evaluations.csv")
LOADER = """import json
import numpy as np

data = np.fromfile("policy.safetensors", np.uint8).tobytes()
size = 8 + int.from_bytes(data[:8], "little")
about = (header := json.loads(data[8:size])).pop("__metadata__")
p = {k: np.frombuffer(data[size:][slice(*v["data_offsets"])], "<f4").reshape(v["shape"]) for k, v in header.items()}
start, hidden = int(about["start"]), {"relu": lambda x: np.maximum(x, 0)}[about.get("activation", "relu")]

def act(observation):
    x = np.clip((observation - p["mean"]) / p["std"], -p["limit"], p["limit"])
    for i in range(int(about["layers"])):
        x = (hidden(x) if i else x) @ p[f"weight.{i}"] + p[f"bias.{i}"]
    return np.clip(np.tanh(x) * p["scale"] + p["shift"], p["low"], p["high"]) if "low" in p else x.argmax(-1) + start
"""
"""Acts by a saved policy with ReLU, with NumPy alone."""


@dataclass(frozen=True)
class Card:
    """What a model card says of a member."""

    run: Run
    member: int
    step: int
    """Of the checkpoint whose policy it is."""
    row: dict[str, Any]
    """The member's last evaluation."""
    label: str
    final: Estimate
    """Final return of its kind: mean over the seeds."""
    seeds: int
    files: tuple[str, ...]
    activation: str
    """Of the policy's hidden layers."""


def to_hub(run: Run, out: Path, member: int, say: Callable[[str], object] = lambda text: None) -> Path:
    """Writes policy, card, curves and, where it can be drawn, a video; ``say`` is told what is missing and why."""
    policy = run.policy(member)
    with writing_to(out):
        out.mkdir(parents=True, exist_ok=True)
        about = policy.network().about
        policy.save(out / "policy.safetensors")
        if importlib.util.find_spec("onnx") is not None:
            policy.save(out / "policy.onnx")
        else:
            say("no policy.onnx: `pip install 'bires[onnx]'` first")
        for name in COPIED:
            shutil.copyfile(run.path / name, out / name)
        panels = collect([run])
        save_curves(panels, out / "curves.png")
        filmed = film(run, member, out, say)
    own = run.evaluations
    rows = list(own.where(own["member"] == member).rows())
    if not rows:
        command = resume_command(run.path, run.manifest["config"])
        raise UserError(f"Member {member} of {run.path} was never evaluated. Train on: {command}.")
    label = labelled([run])[0][member]["label"]
    kind = next(kind for kind in panels[0].kinds if kind.label == label)
    final = estimate(statistics.mean, scores.final(kind)[:, None])
    there = ("policy.safetensors", "policy.onnx", "curves.png", *COPIED, filmed or "")
    files = tuple(name for name in there if name and (out / name).exists())
    used = about.get("activation", "relu")
    found = Card(run, member, int(about["step"]), rows[-1], label, final, len(kind.returns), files, used)
    write_whole(out / "README.md", card(found))
    return out


def longer(run: Run) -> bool:
    """Whether a run was made longer after the command that its manifest names."""
    said = re.search(r"--steps[ =](\S+)", str(run.manifest.get("command", "")))
    try:
        return said is not None and int(float(said[1])) < run.config.steps
    except ValueError:
        return False


def loader(activation: str) -> str:
    """`LOADER` for a policy with an activation function."""
    return LOADER.replace(f'"relu": {ELSEWHERE["relu"].text}', f'"{activation}": {ELSEWHERE[activation].text}')


def settings_of(run: Run, member: Member) -> dict[str, Any]:
    """One member's values of all settings that it uses."""
    own, shared = member.row(), configs.to_json(run.config)
    unused = {"tuning", *grid.ETAS, *grid.RATES} - own.keys() | {name for name, value in own.items() if value is None}
    if member.planner is None:
        unused |= {one.name for one in run.config.planner_settings}
    return {name: own.get(name, value) for name, value in shared.items() if name not in unused}


def film(run: Run, member: int, out: Path, say: Callable[[str], object]) -> str | None:
    """A video of one evaluation episode, under the name that hubs show; None where it cannot be drawn."""
    name = f"replay{video.ending()}"
    try:
        video.play(run, member, 0, out / name)
        return name
    except UserError as error:
        say(f"no video: {str(error).splitlines()[0]}")
        return None


def card(found: Card) -> str:
    """The card: metadata that hubs read, then what people read."""
    run, row = found.run, found.row
    task, own = printable(run.config.task), grid.members(run.config)[found.member]
    name = printable(recipe_of(run.config).id)
    meant = "" if task.endswith(name) else f" (`{name}`)"
    mean = f"{row['return_mean']:.2f} +/- {row['return_std']:.2f}"
    about = {
        "library_name": "bires",
        "tags": ["reinforcement-learning", "deep-reinforcement-learning", found.label, task],
        "model-index": [
            {
                "name": found.label,
                "results": [
                    {
                        "task": {"type": "reinforcement-learning", "name": "reinforcement-learning"},
                        "dataset": {"name": task, "type": task},
                        "metrics": [{"type": "mean_reward", "value": mean, "name": "mean_reward", "verified": False}],
                    }
                ],
            }
        ],
    }
    head = "\n".join(f"{key}: {json.dumps(value, ensure_ascii=False)}" for key, value in about.items())  # JSON is YAML
    settings = "\n".join(f"{name}: {json.dumps(value)}" for name, value in settings_of(run, own).items())
    whose = "this policy" if row["step"] == found.step else "this member earlier, at its last evaluation"
    interval = "" if found.seeds > 1 else " (one seed: no interval)"
    pictures = ["![learning curves](curves.png)", *(f"![an episode]({n})" for n in found.files if n.endswith(".gif"))]
    lines = [
        f"---\n{head}\n---\n",
        f"# {found.label} on {task}\n",
        f"A policy of `{own.algorithm}` (rule `{own.rule}`, seed {own.seed}, member {found.member}) for {task}{meant} "
        f"after {found.step:,} environment steps, trained by bires {run.manifest['versions']['bires']}.\n",
        "| | return |\n|---|---|",
        f"| {whose}, {counted(row['episodes'], 'episode')} at step {row['step']:,}: mean ± standard deviation | "
        f"{mean} |",
        f"| {found.label}, {counted(found.seeds, 'seed')}, last tenth of training: mean [95 % interval]{interval} | "
        f"{found.final.show('.2f')} |\n",
        *(f"{one}\n" for one in pictures),
        "## Use it\n",
        "With NumPy alone; observations are flat vectors, actions are what the environment's `step` takes:\n",
        f"```python\n{loader(found.activation)}```\n",
        *(
            ["`policy.onnx` has the input `observation` and the output `action`.\n"]
            if "policy.onnx" in found.files
            else []
        ),
        "## How it was made\n",
        f"    {printable(run.manifest.get('command', ''))}\n",
        *([f"The run was made longer: `bires resume RUN --steps {run.config.steps}`.\n"] * longer(run)),
        f"<details><summary>All settings of this member</summary>\n\n```yaml\n{settings}\n```\n</details>\n",
        f"Files: {', '.join(f'`{name}`' for name in found.files)}. `evaluations.csv` has the curves of all members.\n",
    ]
    return "\n".join(lines)
