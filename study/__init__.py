"""The paper's experiments with this implementation, next to the paper's results: ``python -m study``."""

from study.runner import run

__all__ = ["run"]
