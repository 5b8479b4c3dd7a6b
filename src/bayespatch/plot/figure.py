"""A figure that a notebook displays."""

from __future__ import annotations

from io import BytesIO

try:
    from matplotlib.figure import Figure
except ImportError as error:
    raise ImportError('figures need matplotlib: pip install "bayespatch[plot]"') from error


class NotebookFigure(Figure):
    """A matplotlib Figure that displays itself as the result of a notebook cell.

    It is not registered with pyplot, so you need not close it, and ``%matplotlib inline`` does not show it twice.
    """

    def _repr_png_(self) -> bytes:
        buffer = BytesIO()
        self.savefig(buffer, format="png")
        return buffer.getvalue()
