"""A figure that a notebook shows."""

from __future__ import annotations

from io import BytesIO

try:
    from matplotlib.figure import Figure
except ImportError as error:
    raise ImportError('pictures need matplotlib: pip install "bayespatch[plot]"') from error


class NotebookFigure(Figure):
    """A matplotlib Figure that shows itself where it is the result of a notebook's cell.

    pyplot does not know it: nobody has to close it, and ``%matplotlib inline`` does not show it a second time.
    """

    def _repr_png_(self) -> bytes:
        buffer = BytesIO()
        self.savefig(buffer, format="png")
        return buffer.getvalue()
