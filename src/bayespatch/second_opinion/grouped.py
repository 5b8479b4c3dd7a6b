"""Second opinions on grouped rows: all visits of a patient are held out together."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import GroupKFold

Model = TypeVar("Model")

N_FOLDS = 10


def out_of_group(
    learn: Callable[[NDArray[np.int64]], Model],
    predict: Callable[[Model, NDArray[np.int64]], NDArray[np.float64]],
    groups: NDArray[np.int64],
    otherwise: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Predict each row with a model learned without its group, using ten folds of groups.

    Parameters
    ----------
    learn : callable
        Maps training rows to a model; a ValueError means that it cannot learn from them.
    predict : callable
        Maps a model and rows to predictions.
    groups : int array of shape (n,)
        The group of each row.
    otherwise : array
        The prediction of a row if nothing can be learned from the other rows: the base rates.

    Examples
    --------
    >>> y = np.array([0.0, 0.0, 4.0, 4.0])
    >>> groups = np.array([0, 0, 1, 1])
    >>> out_of_group(lambda rows: y[rows].mean(), lambda mean, rows: np.full(len(rows), mean), groups, y[0])
    array([4., 4., 0., 0.])
    """
    predictions = np.empty((len(groups), *np.shape(otherwise)))
    n_groups = len(np.unique(groups))
    if n_groups < 2:
        predictions[:] = otherwise
        return predictions
    for train, test in GroupKFold(min(N_FOLDS, n_groups)).split(groups, groups=groups):
        try:
            predictions[test] = predict(learn(train), test)
        except ValueError:
            predictions[test] = otherwise
    return predictions
