"""Predictions of Dask data frames, partition by partition on the workers."""

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
    """A decorator for methods that predict rows of a table; Dask data frames are predicted partition by partition.

    Only the predictions are sent to this process. They equal those of the same rows in one table, except for the last
    bits of the second opinion, because the rounding of a matrix product may depend on the number of rows.
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
            wanted = [(method.__name__, part, args, kwargs) for part in X.to_delayed()]
            found = computed(_answer, wanted, self.scheduler, shared=model)
        else:  # the past cases are partitioned, too: they vote on their workers, on one partition at a time
            own = (computed(_partition, [(part,)], self.scheduler)[0] for part in X.to_delayed())
            found = [_answer(self, method.__name__, part, args, kwargs) for part in own]
        parts = [part for part in found if part is not None]
        if not parts:
            raise ValueError("the table has no rows (0 samples); pass at least one case")
        return _together(parts)

    return cast("Method", predicting)


def _partition(part: Sized) -> Sized:
    return part


def _answer(model: Learner, name: str, part: Sized, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
    """Where a partition lies: what the model says of its rows; None if it has none."""
    return getattr(model, name)(part, *args, **kwargs) if len(part) else None


def _together(parts: Sequence[Any]) -> Any:  # arrays, None, or tuples or dicts of these
    """Arrays, or tuples or dicts of arrays, one after the other."""
    first = parts[0]
    if first is None:
        return None
    if isinstance(first, dict):
        return {name: _together([part[name] for part in parts]) for name in first}
    if isinstance(first, tuple):
        return type(first)(*(_together(each) for each in zip(*parts, strict=True)))
    return np.concatenate(parts)
