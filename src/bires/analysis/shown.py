"""A Matplotlib figure that a notebook shows, also where pyplot was not imported. Imported only where one is drawn."""

from __future__ import annotations

from typing import final

from matplotlib.figure import Figure

from bires.analysis.pictures import png


@final
class ShownFigure(Figure):
    def _repr_png_(self) -> bytes:
        """What a notebook shows."""
        return png(self, "bires")
