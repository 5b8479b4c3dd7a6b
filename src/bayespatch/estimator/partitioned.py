"""Predictions for Dask data frames, partition by partition on the workers."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Sized
from copy import copy
from functools import wraps
from typing import Any, TypeVar, cast

import numpy as np
from sklearn.utils.validation import check_is_fitted

from bayespatch.encode import is_partitioned
from bayespatch.estimator.learning import Learner
from bayespatch.types import TableLike

Method = TypeVar("Method", bound=Callable[..., object])


def by_partition(method: Method) -> Method:
    """Decorate a method that predicts the rows of a table, so that it predicts Dask data frames by partition.

    Only the predictions are sent to this process. They equal the predictions for the same rows in a single table,
    except for the last bits of the second opinion, because rounding in a matrix product may depend on the number of
    rows.
    """

    @wraps(method)
    def predicting(self: Learner, X: TableLike, *args: object, **kwargs: object) -> object:
        if not is_partitioned(X):
            return method(self, X, *args, **kwargs)
        from bayespatch.workers import computed

        check_is_fitted(self)
        if self.transductive:
            raise ValueError(
                "transductive=True samples all rows together and needs a table in memory; pass X.compute()"
            )
        if self.fitted_.elsewhere is None:
            model = copy(self).set_params(engine="cpu", scheduler=None, n_jobs=1)
            calls = [(method.__name__, part, args, kwargs) for part in X.to_delayed()]
            results = computed(_answer, calls, self.scheduler, shared=model)
        else:  # the past cases are also partitioned: they vote on their workers, on one partition at a time
            own = (computed(_partition, [(part,)], self.scheduler)[0] for part in X.to_delayed())
            results = [_answer(self, method.__name__, part, args, kwargs) for part in own]
        parts = [part for part in results if part is not None]
        if not parts:
            raise ValueError("the table has no rows (0 samples); pass at least one case")
        return _together(parts)

    return cast("Method", predicting)


def _partition(part: Sized) -> Sized:
    return part


def _answer(model: Learner, name: str, part: Sized, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
    """Predict the rows of a partition on the worker that holds it; None if it has no rows."""
    return getattr(model, name)(part, *args, **kwargs) if len(part) else None


def _together(parts: Sequence[Any]) -> Any:  # arrays, None, or tuples or dicts of these
    """Concatenate arrays, or tuples or dicts of arrays."""
    first = parts[0]
    if first is None:
        return None
    if isinstance(first, dict):
        return {name: _together([part[name] for part in parts]) for name in first}
    if isinstance(first, tuple):
        return type(first)(*(_together(each) for each in zip(*parts, strict=True)))
    return np.concatenate(parts)
