"""The three medical tables of the paper: heart disease, breast cancer recurrence, hospital readmission.

Each loader returns ``(X, y)``, a pandas data frame of features and a series of outcomes, as in the source;
``discretize="paper"`` returns the paper's bins instead, with every column as a pandas categorical.
``X.attrs["descriptions"]`` describes the columns; ``X.attrs["labels"]`` has the meanings of codes in heart and breast.
"""

from bayespatch.datasets.breast import load_breast
from bayespatch.datasets.heart import load_heart
from bayespatch.datasets.readmission import load_readmission

__all__ = ["load_breast", "load_heart", "load_readmission"]
