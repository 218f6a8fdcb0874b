"""Whether the networks and batches of one member can be made at all: asked before any of them is."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from bires.errors import UserError
from bires.machine.memory import free_memory, gigabytes
from bires.planning.models import SCALES
from bires.settings.config import Config
from bires.types import Space

COPIES = 16
"""Bytes for each weight: itself, its target and Adam's two moments, in float32."""


def require_room(config: Config, space: Space) -> None:
    """Refuses networks and batches that this machine has no memory for; a first draw of weights would take it."""
    free = free_memory()
    critics, ensemble = config.own.get("critics", 1), config.own.get("ensemble", 1)
    scale = SCALES[config.own["model_scale"]]
    layers = " ".join(map(str, config.hidden))
    models = (space.observation, *scale.change) if config.own["model"] == "learned" else ()
    narrower = "--batch 256" if config.batch > 256 else "--hidden 256 256"  # what takes the memory of a small batch
    wanted = {
        f"--hidden {layers}": (COPIES * weights(first_layers(config, space)), "--hidden 256 256"),
        **critic_width(config, space),
        f"--critics {critics}": (COPIES * critics * weights(critic_layers(config, space)), "--critics 2"),
        f"--batch {config.batch}": (batch_bytes(config, space), narrower),
        f"--ensemble {ensemble}": (COPIES * ensemble * weights(models), "--ensemble 5"),
    }
    for given, (needed, smaller) in wanted.items():
        if needed > free:
            raise UserError(
                f"{given} needs at least {gigabytes(needed)} of memory for one member; {gigabytes(free)} are free. "
                f"Give a smaller number, such as {smaller}."
            )


def batch_bytes(config: Config, space: Space) -> int:
    """About what an update of one member takes beside its weights: a batch, and its values in each layer and back."""
    row = 2 * space.observation * space.dtype.itemsize + 4 * (space.action + 2)
    return config.batch * (row + 8 * max(sum(config.hidden), sum(critic_layers(config, space)[1:])))


def critic_width(config: Config, space: Space) -> dict[str, tuple[int, str]]:
    """What critics with a width of their own need; nothing where they have the layers of --hidden."""
    if "critic_width" not in config.own:
        return {}
    needed = COPIES * weights(critic_layers(config, space))
    return {f"--critic-width {config.own['critic_width']}": (needed, "--critic-width 1024")}


def critic_layers(config: Config, space: Space) -> tuple[int, ...]:
    """The sizes of a critic's layers: CrossQ's have a width of their own."""
    if "critic_width" not in config.own:
        return first_layers(config, space)
    return (space.observation + space.action, *(config.own["critic_width"],) * len(config.hidden))


def first_layers(config: Config, space: Space) -> tuple[int, ...]:
    """The sizes of a network's layers; what convolutions make of pixels is left out."""
    return config.hidden if space.pixels else (space.observation, *config.hidden)


def weights(layers: Sequence[int]) -> int:
    """The weights of a network without its last layer."""
    return sum(inputs * outputs for inputs, outputs in pairwise(layers))
