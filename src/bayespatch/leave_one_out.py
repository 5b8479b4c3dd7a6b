"""Leave-one-out predictions of past cases, for calibration and all reported scores.

The importances are learned from leave-one-out predictions, so they predict the training rows better than new rows.
Therefore, rows are predicted in folds, each with importances learned without the fold (`HeldOut`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayespatch.model import HIDDEN, Data
from bayespatch.predict import Prediction, predict_batches
from bayespatch.sampling.posterior import Posterior
from bayespatch.types import Parameters

REPORTED = 256  # minimum number of cases predicted between two progress reports
# Past cases predicted from the others: enough to learn a slope to within a few hundredths. The precision depends on the
# number of cases in the rarest class, so more cases are used if this class is rare.
N_LEFT_OUT, N_OF_RAREST, MAX_LEFT_OUT = 2000, 400, 5000


class HeldOut(NamedTuple):
    """Importances learned without some rows of the training table.

    Attributes
    ----------
    rows : int array
        The rows; all folds together cover the whole table.
    posterior : Posterior
        The importances.
    """

    rows: NDArray[np.int64]
    posterior: Posterior


class LeaveOneOutVotes(NamedTuple):
    """Leave-one-out predictions: past cases, each predicted from all the others, with its own label hidden.

    Attributes
    ----------
    rows : int array of shape (R,)
        Rows of the training table.
    votes : array of shape (R, M)
        Mean vote shares of each class.
    familiarity : array of shape (R,)
        As in `Prediction`.
    """

    rows: NDArray[np.int64]
    votes: NDArray[np.float64]
    familiarity: NDArray[np.float64]


def leave_one_out_votes(
    posterior: Posterior,
    past: Data,
    *,
    held_out: Sequence[HeldOut] = (),
    n_threads: int = 1,
    engine: str = "cpu",
    scheduler: str | None = None,
    report: Callable[[int], object] = lambda done: None,
) -> tuple[LeaveOneOutVotes, NDArray[np.float64]]:
    """Predict the past cases, or `most` evenly spaced ones, each from all the others.

    Parameters
    ----------
    posterior : Posterior
        The fit.
    past : Data
        The rows of the training table and its parents; `past.own_parent` has the parent that is the row itself.
    held_out : sequence of HeldOut, optional
        Importances learned without each fold of the rows, used for the votes; familiarity uses `posterior`.
    most : int, optional
        Maximum number of cases; by default `n_left_out`.
    error, max_passes, n_threads, engine, scheduler
        As in `predict_batches`; `error` applies to the votes.
    report : callable
        Called with the number of finished cases.

    Returns
    -------
    LeaveOneOutVotes
    array of shape (R, C, B, M)
        The votes in each batch of each chain.
    """
    chosen, hidden = cases_left_out(past)
    settings: Parameters = dict(max_passes=1, n_threads=n_threads, engine=engine, scheduler=scheduler)
    # Workers get all cases at once and split them.
    parts, size = [], max(REPORTED, -(-len(chosen) // 20)) if scheduler is None else max(1, len(chosen))
    for first in range(0, len(chosen), size):
        part = cases_of(hidden, np.arange(first, min(first + size, len(chosen))))
        parts += list(predict_batches(posterior, part, **settings))
        report(min(first + size, len(chosen)))
    predictions = Prediction.joined(parts)
    for places, fold_posterior in by_fold(posterior, held_out, chosen) if held_out else ():
        fold = Prediction.joined(list(predict_batches(fold_posterior, cases_of(hidden, places), **settings)))
        predictions.votes_by_batch[places] = fold.votes_by_batch
    by_chain = predictions.votes_by_batch.reshape(len(chosen), posterior.n_chains, -1, past.n_classes)
    return LeaveOneOutVotes(chosen, predictions.mean_votes(), predictions.familiarity), by_chain


def by_fold(
    posterior: Posterior, held_out: Sequence[HeldOut], chosen: NDArray[np.int64]
) -> Iterator[tuple[NDArray[np.int64], Posterior]]:
    """Positions among the chosen rows and the importances that predict them; without folds, these are `posterior`."""
    if not held_out:
        yield np.arange(len(chosen)), posterior
    for fold in held_out:
        places = np.flatnonzero(np.isin(chosen, fold.rows))
        if len(places):
            yield places, fold.posterior


def cases_of(data: Data, places: NDArray[np.int64]) -> Data:
    """Some of the cases, with all parents."""
    return data._replace(x=data.x[places], y=data.y[places], own_parent=data.own_parent[places])


def n_left_out(y: NDArray[np.int64]) -> int:
    """Number of past cases to predict from the others, given the classes.

    Examples
    --------
    >>> import numpy as np
    >>> n_left_out(np.repeat([0, 1], 50)), n_left_out(np.repeat([0, 1], 5_000))
    (100, 2000)
    >>> n_left_out(np.repeat([0, 1], [9_000, 1_000]))
    4000
    """
    rarest = int(np.unique(y, return_counts=True)[1].min(initial=len(y)))
    enough = max(N_LEFT_OUT, N_OF_RAREST * len(y) // max(1, rarest))
    return min(len(y), enough, MAX_LEFT_OUT)


def cases_left_out(past: Data) -> tuple[NDArray[np.int64], Data]:
    """The past cases to predict from the others, evenly spaced (`n_left_out`); and the same with hidden classes."""
    n = len(past.x)
    chosen = np.linspace(0, n - 1, n_left_out(past.y)).round().astype(np.int64)
    hidden = np.full(len(chosen), HIDDEN)
    return chosen, past._replace(x=past.x[chosen], y=hidden, own_parent=past.own_parent[chosen])
