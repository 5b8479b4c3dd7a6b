"""The paper's experimental section on this implementation, with the paper's numbers beside ours.

``bayespatch study`` runs everything; so does ``bayespatch.study.run("docs/study")``. Nothing else loads it.
"""

from bayespatch.study.runner import run

__all__ = ["run"]
