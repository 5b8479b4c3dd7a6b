"""The paper's experimental section on this implementation, with the paper's numbers beside ours.

``bayespatch.study.run("docs/study")``, or ``python -m bayespatch.study`` on the command line, runs everything.
"""

from bayespatch.study.runner import run

__all__ = ["run"]
