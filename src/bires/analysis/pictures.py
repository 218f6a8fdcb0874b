"""Figures as files: small, the same bytes every time, and with names as text."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

DPI = 120
COLOURS = 192
"""Colours of a PNG: lines, bands over each other and the edges of letters need no more. It is a third of the size."""

P = ParamSpec("P")
T = TypeVar("T")


def plain_text(draw: Callable[P, T]) -> Callable[P, T]:
    """Draws names as they are: a dollar sign in one is not mathematics."""

    @wraps(draw)
    def drawn(*args: P.args, **kwargs: P.kwargs) -> T:
        import matplotlib

        with matplotlib.rc_context({"text.parse_math": False, "text.usetex": False}):
            return draw(*args, **kwargs)

    return drawn


def write(figure: Any, source: str, paths: Sequence[Path]) -> list[Path]:
    """Writes a figure in the format of each name's ending; its bytes depend on what it shows alone."""
    import matplotlib

    metadata = {".svg": {"Source": source, "Date": None}, ".pdf": {"Subject": source, "CreationDate": None}}
    with matplotlib.rc_context({"svg.hashsalt": "bires"}):
        for path in paths:
            if path.suffix == ".png":
                path.write_bytes(png(figure, source))
            else:
                figure.savefig(path, metadata=metadata[path.suffix])
    return list(paths)


def png(figure: Any, source: str) -> bytes:
    """A figure as a PNG with a palette."""
    import matplotlib
    from PIL import Image, PngImagePlugin

    drawn, made = io.BytesIO(), io.BytesIO()
    figure.savefig(drawn, format="png", dpi=DPI)
    about = PngImagePlugin.PngInfo()
    about.add_text("Software", f"Matplotlib version {matplotlib.__version__}, https://matplotlib.org/")
    about.add_text("Source", source)
    with Image.open(drawn) as image:
        flat = image.convert("RGB").quantize(COLOURS, Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
        flat.save(made, format="png", optimize=True, pnginfo=about)
    return made.getvalue()
