"""The paper's experiments on this implementation, with the paper's numbers beside ours: ``python -m study``."""

from study.runner import run

__all__ = ["run"]
