"""A fitted model is one thing: it is replaced in one step, and whoever reads it reads one model.

`fit` builds everything aside and swaps it in with one assignment, so that a refused or interrupted refit leaves the
model as it was. A method that reads several attributes works on all of them as they were when it was called, whatever a
`fit` in another thread does meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

Method = TypeVar("Method", bound=Callable[..., Any])


def built_aside(fit: Method) -> Method:
    """A `fit` that works on a copy of the estimator, whose attributes then become the estimator's at once."""

    @wraps(fit)
    def fitting(self: Any, *args: Any, **kwargs: Any) -> Any:
        new = copied(self)
        fit(new, *args, **kwargs)
        self.__dict__ = new.__dict__
        return self

    return fitting  # type: ignore[return-value]


def read_at_once(method: Method) -> Method:
    """A method for which the model is the one that was there when it was called."""

    @wraps(method)
    def reading(self: Any, *args: Any, **kwargs: Any) -> Any:
        return method(copied(self), *args, **kwargs)

    return reading  # type: ignore[return-value]


def copied(estimator: Any) -> Any:
    """Another estimator with the same attributes; copying a dict is one step for all threads."""
    other = object.__new__(type(estimator))
    other.__dict__ = dict(estimator.__dict__)
    return other
