"""The three medical tables of the paper: heart disease, breast cancer recurrence, hospital readmission.

Each loader returns ``(X, y)``, a pandas data frame of features and a series of outcomes, as the source has them;
``discretize="paper"`` gives the paper's bins instead, every column then being a pandas categorical.
What a column means stands in ``X.attrs["descriptions"]``; where heart and breast have codes, their meaning stands in
``X.attrs["labels"]``.
"""

from bayespatch.datasets.breast import load_breast
from bayespatch.datasets.heart import load_heart
from bayespatch.datasets.readmission import load_readmission

__all__ = ["load_breast", "load_heart", "load_readmission"]
