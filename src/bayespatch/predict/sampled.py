"""Predictions by sampling from a `Posterior`: neighbors, votes and their Monte Carlo errors.

The paper's predictions of types I and II (neighbors and votes if the label is unknown) and III (if the label is known
and used). Given q-tilde, a new case does not depend on any other case. So for each stored draw of q-tilde, its
neighbors are updated once, starting from their state in the previous draw. Random numbers are derived from the content
of the row, so a prediction does not depend on the other rows or their order.

**As many votes as needed.** Draws are used in rounds, each spread evenly over all stored draws, until the Monte Carlo
standard error of a case's probability is small enough. The error is estimated from the spread of `N_BATCHES` batches of
consecutive draws, so it includes autocorrelation shorter than a batch and the effect of the finite number of stored
draws of the importances. Finished cases drop out; the other cases continue, reusing the same draws if necessary, up to
a limit.

The paper samples past and new cases together (`sample_together`). In that approach, new cases affect other predictions
only through the posterior of q-tilde.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from bayespatch.calibrate import Calibration
from bayespatch.engine.base import GivenEngine, Neighbors, first_capacity
from bayespatch.engine.installed import load_engine
from bayespatch.model import HIDDEN, Data, Model, feature_constants, label_constants
from bayespatch.predict.closed import predict_closed
from bayespatch.predict.results import Detail, NeighborStatistics, Prediction
from bayespatch.progress import Tell
from bayespatch.retrieval.sums import LEAST
from bayespatch.retrieval.votes import in_threads
from bayespatch.sampling.posterior import Posterior, PredictiveDraws
from bayespatch.sampling.sampler import chosen_engine, run_chains
from bayespatch.types import Parameters
from bayespatch.validation import MAX_SEED, check_choice

if TYPE_CHECKING:
    from bayespatch.engine.cpu.summary import Tally
    from bayespatch.engine.cpu.voting import Draws, Voters

ERROR = 0.01  # default target for the Monte Carlo standard error of a probability
N_BATCHES = 12  # batches of draws, whose spread gives the error
ROUND = 20  # draws of each chain in a round
MIN_ROUNDS = 3  # before an error is used, because an error that is small by chance would stop a case too early
MAX_PASSES = 16  # largest number of passes over all stored draws
N_SETTLING = 5  # sweeps before the first draw of a chain counts; the votes forget the past within one or two
CASES_PER_THREAD = 8  # a thread is not worthwhile for fewer
BLANK_ERROR = 0.002  # target error of the votes on a case without known values
MANY_NEIGHBORS = 12.0  # expected number above which updating each parent is cheaper than updating each neighbor
CASES_PER_PART = 512  # for workers: takes about a second and less than a megabyte
PREDICTING = ("cpu", "cuda", "auto")  # engines that can hold q-tilde fixed
BATCH = 4096  # largest number of cases at a time,
BATCH_ON_GPU = 2**16  # larger on a GPU to keep it busy, and
BATCH_NUMBERS = 2**24  # largest number of values for these cases; both limit memory
MAX_FEATURES_BY_PLACE = 64  # w of a neighbor is one word
PAIRS_ON_GPU = 2**27  # pairs of a parent and a case per round of a chain: their agreement takes half a gigabyte
MOST_RUNS = 64  # rounds of chains processed at once, each with different importances


def predict_batches(
    posterior: Posterior,
    data: Data,
    *,
    detail: Detail = False,
    excluded: NDArray[np.bool_] | None = None,
    calibration: Calibration | None = None,
    error: float = ERROR,
    max_passes: int = MAX_PASSES,
    n_threads: int = 1,
    engine: str = "cpu",
    scheduler: str | None = None,
) -> Iterator[Prediction]:
    """Predict cases that were not part of the fit, in batches to limit memory.

    Parameters
    ----------
    posterior : Posterior
        The source of q-tilde, which must have been sampled with the parents `data.x_parents`.
    data : Data
        The new cases, their labels hidden (types I and II) or known (type III), and the parents.
    detail : bool, "shares", "spread" or "voters"
        Whether to include the neighbors and the features that matter. "shares" omits the features, which takes P times
        less memory. "spread" adds the covariance of the votes over the draws, for closed-form votes only. "voters" is
        sufficient for the number of voters and the closest one.
    excluded : bool array of shape (n, S), optional
        Parents that may not be neighbors of a case, in addition to the case itself (`data.own_parent`). Model I only.
    calibration : Calibration, optional
        The map from votes to the probabilities whose error must be small; by default, votes are the probabilities.
    error : float
        Target Monte Carlo standard error at a probability of one half; rarer classes must be equally precise on their
        scale (`Calibration.scaled_error`), so no probability has a larger error.
    max_passes : int
        Largest number of passes over all stored draws.
    n_threads : int
        Number of threads; it does not affect the result.
    engine : {"cpu", "cuda", "auto"}
        The engine; "auto" uses a GPU if present and if there are many cases.
    scheduler : str, optional
        The address of a Dask scheduler, whose workers predict with the CPU kernels and give the same result.

    Yields
    ------
    Prediction
        Predictions of the next cases, in order. The results do not depend on how the cases are split.
    """
    if posterior.log_weights is not None:
        check_choice("engine", engine, PREDICTING)
        yield from predict_closed(posterior, data, detail=detail, excluded=excluded, n_threads=n_threads, engine=engine)
        return
    if detail == "spread":
        raise ValueError("detail='spread' needs closed-form votes; fit with votes='closed', or pass 'shares'")
    if detail == "voters":
        detail = "shares"
    if scheduler is not None and len(data.x) > CASES_PER_PART:
        settings = dict(detail=detail, calibration=calibration, error=error, max_passes=max_passes)
        yield from _predict_on_workers(posterior, data, excluded, settings, scheduler)
        return
    n_parents, n_features = data.x_parents.shape
    name = chosen_engine(check_choice("engine", engine, PREDICTING), data)
    rounds = Rounds.of(posterior, max_passes)
    per_case = posterior.n_chains * rounds.n_batches * data.n_classes
    by_place = name == "cpu" and votes_by_place(posterior.model, data)
    if detail:
        per_case += n_parents * (2 + 2 * posterior.n_chains)
    if detail and detail != "shares":
        per_case += n_parents * n_features * (1 + posterior.n_chains if by_place else 2)
    size = max(1, min(BATCH_ON_GPU if name == "cuda" else BATCH, BATCH_NUMBERS // per_case))
    reading = calibration or Calibration.none(data.n_classes)
    for first in range(0, len(data.x), size):
        rows = slice(first, first + size)
        batch = data._replace(x=data.x[rows], y=data.y[rows], own_parent=data.own_parent[rows])
        excluded_here = None if excluded is None else excluded[rows]
        votes: _Votes
        if by_place:
            votes = _VotesByPlace(posterior, batch, detail, excluded_here, rounds, n_threads)
        elif excluded_here is None:
            votes = _VotesBySweep(posterior, batch, detail, rounds, n_threads, name)
        else:
            raise ValueError("parents can be excluded only in Model I with few neighbors and engine='cpu'")
        todo, done = np.arange(len(batch.x)), 0
        while len(todo) and done < rounds.n_rounds:
            upto = min(done + votes.n_more(done), rounds.n_rounds)
            votes.add(todo, range(done, upto))
            done = upto
            if done >= min(MIN_ROUNDS, rounds.n_rounds):
                todo = todo[reading.scaled_error(votes.by_batch(todo)) > error]
        prediction = votes.prediction()
        blank = np.isnan(batch.x).all(axis=1) & (batch.y == HIDDEN) & (batch.own_parent < 0)
        if posterior.model.kind == "I" and excluded_here is None and blank.any():
            # The votes on a case without known values are exact, so that noise does not move it off the base rates.
            prediction.votes_by_batch[blank] = blank_votes(posterior, data)
        yield prediction


# For some cases: codes, classes, positions among the parents, and parents that may not vote
_Part: TypeAlias = tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_] | None]


def _predict_on_workers(
    posterior: Posterior,
    data: Data,
    excluded: NDArray[np.bool_] | None,
    settings: Parameters,
    scheduler: str,
) -> Iterator[Prediction]:
    """`predict_batches`, in parts of `CASES_PER_PART` on the workers of a Dask cluster."""
    from bayespatch.workers import over_workers

    no_cases = data._replace(x=data.x[:0], y=data.y[:0], own_parent=data.own_parent[:0])

    def parts() -> Iterator[_Part]:
        for first in range(0, len(data.x), CASES_PER_PART):
            rows = slice(first, first + CASES_PER_PART)
            yield data.x[rows], data.y[rows], data.own_parent[rows], None if excluded is None else excluded[rows]

    yield from over_workers(_predict_part, (posterior.for_predictions(), no_cases, settings), parts(), scheduler)


def _predict_part(shared: tuple[Posterior, Data, Parameters], part: _Part, n_threads: int) -> Prediction:
    """Predict some cases on a worker."""
    draws, no_cases, settings = shared
    x, y, own_parent, excluded = part
    data = no_cases._replace(x=x, y=y, own_parent=own_parent)
    return predict_cases(draws, data, excluded=excluded, n_threads=n_threads, **settings)


def predict_cases(posterior: Posterior, data: Data, **settings: Any) -> Prediction:
    """All of `predict_batches` at once; the other parameters are described there.

    Examples
    --------
    >>> from bayespatch.validation import check_data
    >>> new = check_data([[1]], [-1], **past)  # with the `posterior` in the docstring of `Posterior`
    >>> predict_cases(posterior, new).mean_votes().shape
    (1, 2)
    """
    return Prediction.joined(list(predict_batches(posterior, data, **settings)))


def votes_by_place(model: Model, data: Data) -> bool:
    """Whether `engine/cpu/voting.py` can sample the neighbors: in Model I with few expected neighbors."""
    few = model.hyper.alpha * len(data.x_parents) <= MANY_NEIGHBORS
    return model.kind == "I" and few and data.x.shape[1] <= MAX_FEATURES_BY_PLACE


class Rounds(NamedTuple):
    """The order in which draws are used."""

    n_draws: int  # stored draws of each chain, D
    n_batches: int  # of each chain, B
    n_per_pass: int  # rounds in which all draws are used once
    n_rounds: int

    @classmethod
    def of(cls, posterior: Posterior, max_passes: int) -> Rounds:
        """Rounds of about `ROUND` draws of each chain, with `N_BATCHES` batches in total."""
        n_draws = posterior.n_draws
        n_per_pass = max(1, n_draws // ROUND)
        n_batches = max(1, min(n_draws // n_per_pass, -(-N_BATCHES // posterior.n_chains)))
        return cls(n_draws, n_batches, n_per_pass, n_per_pass * max_passes)

    def draws(self, round_: int) -> NDArray[np.int64]:
        """The draws of a round, evenly spread over the chain."""
        return np.arange(round_ % self.n_per_pass, self.n_draws, self.n_per_pass)

    def batches(self, draws: NDArray[np.int64]) -> NDArray[np.int64]:
        """The batch of each draw."""
        return draws * self.n_batches // self.n_draws


class _Votes(Protocol):
    """Votes on a batch of cases, round after round."""

    def n_more(self, done: int) -> int:
        """Number of rounds to add after `done` rounds."""

    def add(self, todo: NDArray[np.int64], rounds: range) -> None:
        """Add the votes of these rounds on the cases `todo`."""

    def by_batch(self, cases: NDArray[np.int64]) -> NDArray[np.float64]:
        """Mean shares of the votes on n cases so far, (n, C * B, M)."""

    def prediction(self) -> Prediction:
        """The result."""


class _Counted:
    """Sums of votes, common to both samplers of neighbors."""

    def __init__(self, n_cases: int, n_chains: int, n_classes: int, rounds: Rounds) -> None:
        self.rounds = rounds
        self.votes = np.zeros((n_cases, n_chains, rounds.n_batches, n_classes))
        self.counts = np.zeros((n_cases, rounds.n_batches))  # draws of a chain in each batch
        self.familiarity = np.zeros((n_cases, n_chains))

    def count(self, todo: NDArray[np.int64], batches: NDArray[np.int64]) -> None:
        self.counts[todo] += np.bincount(batches, minlength=self.rounds.n_batches)

    def by_batch(self, cases: NDArray[np.int64]) -> NDArray[np.float64]:
        means = self.votes[cases] / np.maximum(self.counts[cases], 1.0)[:, None, :, None]
        return np.asarray(means.reshape(len(cases), -1, means.shape[3]))

    def n_draws(self) -> NDArray[np.float64]:
        """Number of draws of a chain used for each case, (n,)."""
        return np.asarray(self.counts.sum(axis=1))

    def counted(self, statistics: NeighborStatistics | None) -> Prediction:
        """The votes on all cases, with statistics of their neighbors."""
        n_draws, n_chains = self.n_draws(), self.votes.shape[1]
        familiarity = self.familiarity.sum(axis=1) / (n_chains * np.maximum(n_draws, 1.0))
        everyone = np.arange(len(n_draws))
        return Prediction(self.by_batch(everyone), familiarity, (n_chains * n_draws).astype(np.int64), statistics)


_prepared: WeakKeyDictionary[Posterior, tuple[NDArray[np.int64], Voters, Draws]] = WeakKeyDictionary()  # by posterior


class _VotesByPlace(_Counted):
    """Votes from replacing each neighbor in turn (`engine/cpu/voting.py`)."""

    def __init__(
        self,
        posterior: Posterior,
        data: Data,
        detail: Detail,
        excluded: NDArray[np.bool_] | None,
        rounds: Rounds,
        n_threads: int,
    ) -> None:
        n_chains, (n, n_features) = posterior.n_chains, data.x.shape
        n_parents = len(data.x_parents)
        super().__init__(n, n_chains, data.n_classes, rounds)
        self.data, self.n_threads, self.model = data, n_threads, posterior.model
        self.order, self.voters, self.draws = self._prepare(posterior, data)
        place = np.argsort(self.order)
        self.own = np.where(data.own_parent >= 0, place[np.maximum(data.own_parent, 0)], -1)
        self.excluded = (
            np.zeros((n, 0), np.bool_) if excluded is None else np.ascontiguousarray(excluded[:, self.order])
        )
        from bayespatch.engine.cpu import voting  # loads Numba

        capacity = first_capacity(n_parents, posterior.model.hyper.alpha)
        self.places = voting.Places(
            np.zeros((n, n_chains, 2), np.uint64),
            np.zeros((n, n_chains), np.int32),
            np.zeros((n, n_chains, capacity), np.int32),
            np.zeros((n, n_chains, capacity), np.uint64),
        )
        voting.open_streams(self.places, _prediction_key(posterior), row_numbers(data.x))
        shares, features = bool(detail), bool(detail) and detail != "shares"
        self.sums = voting.SampledVotes(
            self.votes,
            self.familiarity,
            np.zeros((n, n_chains)),
            np.zeros((n, n_chains, n_parents * shares)),
            np.zeros((n, n_chains, n_parents * shares)),
            np.zeros((n, n_chains, n_features * features, n_parents * features)),
            np.zeros((n, n_chains, n_features * features)),
        )

    def _prepare(self, posterior: Posterior, data: Data) -> tuple[NDArray[np.int64], Voters, Draws]:
        """The parents ordered by class, and the draws in the kernels' layout; cached for as long as the posterior."""
        from bayespatch.engine.cpu import voting  # loads Numba

        found = _prepared.get(posterior)
        if found is not None:
            return found
        order = np.argsort(data.y_parents, kind="stable")
        x = np.ascontiguousarray(data.x_parents[order].T)
        hyper = posterior.model.hyper
        c1, c2 = feature_constants(data, posterior.model)
        _, label_c2 = label_constants(data, posterior.model)
        voters = voting.Voters(
            x,
            np.searchsorted(data.y_parents[order], np.arange(data.n_classes + 1)).astype(np.int64),
            np.array(data.windows, np.float64),
            float(c1),
            c2,
            float(hyper.lam),
            np.stack([hyper.mu_per_class(data.n_classes), hyper.mu0_per_class(data.n_classes)]),
            label_c2,
            float(posterior.model.likelihood == "paper"),
            float(hyper.alpha / (1.0 - hyper.alpha)),
        )
        q_tilde = np.empty((posterior.n_chains, posterior.n_draws, *x.shape), np.float32)
        for chain in range(posterior.n_chains):
            for d in range(posterior.n_draws):
                q_tilde[chain, d] = posterior.q_tilde[chain, d].T[:, order]
        q_tilde[:, :, np.isnan(x)] = 0.0  # a parent whose value is missing does not vote
        # Copies, because Numba would compile separate kernels for read-only arrays, for example mapped from a file.
        draws = voting.Draws(np.array(posterior.q, np.float64, order="C"), q_tilde)
        _prepared[posterior] = order, voters, draws
        return order, voters, draws

    def n_more(self, done: int) -> int:
        """One, because each round continues from the previous one."""
        return 1

    def add(self, todo: NDArray[np.int64], rounds: range) -> None:
        for round_ in rounds:
            self._add_round(todo, round_)

    def _add_round(self, todo: NDArray[np.int64], round_: int) -> None:
        used = self.rounds.draws(round_)
        batches = self.rounds.batches(used)
        n_pairs = len(todo) * self.places.n.shape[1]

        from bayespatch.engine.cpu import voting  # loads Numba

        def work(first: int, last: int) -> None:
            voting.vote_on_cases(
                self.voters, self.draws, self.data.x, self.data.y, self.own, self.excluded, used, batches,
                0 if round_ else N_SETTLING, self.places, self.sums, todo, first, last,
            )  # fmt: skip

        in_threads(n_pairs, min(self.n_threads, 1 + n_pairs // CASES_PER_THREAD), work)
        self.count(todo, batches)

    def prediction(self) -> Prediction:
        each, n_chains = np.maximum(self.n_draws(), 1.0), self.votes.shape[1]
        statistics = None
        if self.sums.share.shape[2]:
            back = np.argsort(self.order)
            by_chain = [
                (sums / each.reshape(-1, *[1] * (sums.ndim - 1))).astype(np.float32)
                for sums in (self.sums.probability, self.sums.share)
            ]
            probability, share = (values[:, :, back] for values in by_chain)
            mean = (self.sums.features.sum(axis=1) / (n_chains * each)[:, None, None]).astype(np.float32)
            features = mean.transpose(0, 2, 1)
            features = features[:, back] if features.shape[1] else features
            explained = self.sums.explained.sum(axis=1) / (n_chains * each)[:, None]
            mean = probability.mean(axis=1)
            statistics = NeighborStatistics(
                mean, mean, share.mean(axis=1), share, features, explained.astype(np.float32)
            )
        return self.counted(statistics)


class _VotesBySweep(_Counted):
    """Votes from the blocked sweep of an engine: for any model and any number of neighbors, also on a GPU."""

    def __init__(
        self, posterior: Posterior, data: Data, detail: Detail, rounds: Rounds, n_threads: int, name: str
    ) -> None:
        (n, n_features), n_parents, n_chains = data.x.shape, len(data.x_parents), posterior.n_chains
        super().__init__(n, n_chains, data.n_classes, rounds)
        self.posterior, self.data, self.n_threads, self.name = posterior, data, n_threads, name
        self.numbers = row_numbers(data.x)
        self.statistics = None
        if detail:
            n_shown = 0 if detail == "shares" else n_features
            shapes: dict[str, tuple[int, ...]] = dict.fromkeys(NeighborStatistics._fields, (n, n_parents))
            shapes |= {"features": (n, n_parents, n_shown), "explained": (n, n_shown)}
            shapes |= {"share_by_chain": (n, n_chains, n_parents)}
            self.statistics = NeighborStatistics(
                **{name: np.zeros(shape, np.float32) for name, shape in shapes.items()}
            )

    def n_more(self, done: int) -> int:
        """Half of the rounds so far, because rounds run in parallel."""
        return max(1, done // 2) if done else MIN_ROUNDS

    def add(self, todo: NDArray[np.int64], rounds: range) -> None:
        runs = [(round_, chain) for round_ in rounds for chain in range(self.posterior.n_chains)]
        most = BATCH
        if self.name == "cuda":
            n_words = -(-self.data.x.shape[1] // 32)
            most = PAIRS_ON_GPU // (len(self.data.x_parents) * n_words)
        if self.statistics is not None:  # the neighbors of all draws stay in memory until they are added up
            capacity = first_capacity(len(self.data.x_parents), self.posterior.model.hyper.alpha)
            most = min(most, BATCH_NUMBERS // (capacity * len(self.rounds.draws(0))))
        size = min(MOST_RUNS, max(1, most // len(todo)))
        for first in range(0, len(runs), size):
            self._add_runs(todo, runs[first : first + size])

    def _add_runs(self, todo: NDArray[np.int64], runs: list[tuple[int, int]]) -> None:
        """Run rounds of chains in parallel: the cases are repeated for each round and begin without neighbors."""
        from bayespatch.engine.cpu.summary import Tally
        from bayespatch.engine.streams import renumbered, subkey

        posterior, n, n_runs = self.posterior, len(todo), len(runs)
        some = self.data._replace(x=self.data.x[todo], y=self.data.y[todo], own_parent=self.data.own_parent[todo])
        repeated = some._replace(
            x=np.tile(some.x, (n_runs, 1)), y=np.tile(some.y, n_runs), own_parent=np.tile(some.own_parent, n_runs)
        )
        engine_class = load_engine(self.name)
        assert issubclass(engine_class, GivenEngine)
        engine = engine_class(repeated, posterior.model, min(self.n_threads, 1 + n // 16))
        state = engine.start(posterior.seed, 0)
        draws = [self.rounds.draws(round_) for round_, _ in runs]
        numbers = np.concatenate([renumbered(self.numbers[todo], *run) for run in runs])
        votes, familiarity = np.zeros((n_runs, *self.votes[todo, 0].shape)), np.zeros((n_runs, n))
        found: list[list[Neighbors]] = [[] for _ in runs]  # if requested
        key, sweep = _prediction_key(posterior), 0
        for k in range(max(map(len, draws))):
            q_tilde = np.stack(
                [
                    posterior.q_tilde[chain, of_run[min(k, len(of_run) - 1)]]
                    for (_, chain), of_run in zip(runs, draws, strict=True)
                ]
            )
            for _ in range(1 if k else N_SETTLING):
                engine.update_given(state, q_tilde, subkey(key, sweep), numbers)
                sweep += 1
            shares, log_likelihood = engine.summarise(state)
            neighbors = None if self.statistics is None else engine.neighbors(state)
            for run, of_run in enumerate(draws):
                if k == len(of_run):  # this run has one draw fewer than others
                    continue
                rows = slice(run * n, (run + 1) * n)
                votes[run, :, self.rounds.batches(of_run[k])] += shares[rows]
                familiarity[run] += log_likelihood[rows]
                if neighbors is not None:
                    n_entries, parent, bits, kappa = neighbors
                    some_of = n_entries[rows].copy(), parent[rows].copy(), bits[rows].copy(), kappa[rows].copy()
                    found[run].append(Neighbors(*some_of))
        # Run by run, so that the sums do not depend on the number of parallel runs.
        for run, (_, chain) in enumerate(runs):
            self.votes[todo, chain] += votes[run]
            self.familiarity[todo, chain] += familiarity[run]
            if chain == 0:
                self.count(todo, self.rounds.batches(draws[run]))
        if self.statistics is not None:
            self._add_statistics(todo, Tally(some, posterior.model), found, [chain for _, chain in runs])

    def _add_statistics(
        self, todo: NDArray[np.int64], tally: Tally, found: list[list[Neighbors]], chains: list[int]
    ) -> None:
        """Add up the neighbors in the draws of each run."""
        assert self.statistics is not None
        taken = NeighborStatistics(*(part[todo] for part in self.statistics))
        for draws, chain in zip(found, chains, strict=True):
            share = np.ascontiguousarray(taken.share_by_chain[:, chain])
            for neighbors in draws:
                tally.add(
                    neighbors,
                    taken.probability,
                    taken.features,
                    taken.influence,
                    share,
                    taken.explained,
                )
            taken.share_by_chain[:, chain] = share
        for total, part in zip(self.statistics, taken, strict=True):
            total[todo] = part

    def prediction(self) -> Prediction:
        each, n_chains = np.maximum(self.n_draws(), 1.0), self.votes.shape[1]
        if self.statistics is not None:
            for name, part in self.statistics._asdict().items():
                draws = each if name == "share_by_chain" else n_chains * each
                part /= draws.reshape(-1, *[1] * (part.ndim - 1)).astype(np.float32)
            self.statistics = self.statistics._replace(share=self.statistics.share_by_chain.mean(axis=1))
        return self.counted(self.statistics)


def _prediction_key(posterior: Posterior) -> np.uint64:
    """The key of the random numbers for predictions, which differs from all chains of the fit."""
    from bayespatch.engine.streams import chain_key

    return chain_key(posterior.seed, -1 % 2**63)


def blank_votes(posterior: Posterior, past: Data, *, n_threads: int = 1) -> NDArray[np.float64]:
    """The votes on a case without known values, (M,): the anchor of the calibration.

    In Model I the neighbors follow their prior (every parent with probability alpha), and the mean share of a class is
    a one-dimensional integral, ``E[h_m / sum h] = int_0^inf E[h_m exp(-t sum h)] dt``, with the expectation in closed
    form. The other models predict this case like any other.

    Examples
    --------
    >>> from bayespatch.validation import check_data
    >>> blank_votes(posterior, check_data([[0], [1]], [0, 1], **past)).round(2)
    array([0.48, 0.52])
    """
    hyper, n_classes = posterior.model.hyper, past.n_classes
    if posterior.log_weights is not None:  # every past case votes
        cast = hyper.mu_per_class(n_classes) * past.weight_by_class()
        base = hyper.mu0_per_class(n_classes)
        return np.asarray((1.0 - LEAST) * cast / cast.sum() + LEAST * base / base.sum())
    if posterior.model.kind != "I":
        blank = past._replace(x=np.full((1, past.x.shape[1]), np.nan), y=np.array([HIDDEN]), own_parent=np.array([-1]))
        return predict_cases(posterior, blank, error=BLANK_ERROR, n_threads=n_threads).mean_votes()[0]
    mu, mu0 = hyper.mu_per_class(n_classes), hyper.mu0_per_class(n_classes)
    counts = np.bincount(past.y_parents, minlength=n_classes)

    def weights(t: float) -> NDArray[np.float64]:
        """E[h_m exp(-t sum h)], (M,)."""
        on = hyper.alpha * np.exp(-mu * t)
        either = 1.0 - hyper.alpha + on
        return np.asarray(np.exp(counts @ np.log(either) - t * mu0.sum()) * (mu0 + mu * counts * on / either))

    # The integrand decays at least at the rate of the base votes and is negligible beyond 50 times its inverse.
    ends = np.concatenate([[0.0], np.geomspace(1e-6 / mu.max(), 50.0 / mu0.sum(), 40)])
    nodes, of_node = np.polynomial.legendre.leggauss(10)
    total = np.zeros(n_classes)
    for low, high in itertools.pairwise(ends.tolist()):
        half = 0.5 * (high - low)
        for node, weight in zip(nodes, of_node, strict=True):
            total += half * weight * weights(low + half * (1.0 + node))
    return total / total.sum()


def sample_together(
    posterior: Posterior, past: Data, new: Data, *, n_threads: int, progress: bool | Tell = False
) -> Posterior:
    """The joint posterior of past and new cases, as in the paper; chains begin where the chains of the fit ended.

    Parameters
    ----------
    posterior : Posterior
        The fit, which provides the model and the settings.
    past, new : Data
        The fitted cases and the cases to predict, with hidden or known labels and the same parents.
    n_threads : int
        Number of threads; it does not affect the result.
    progress : bool or callable
        As in `sample`.

    Returns
    -------
    Posterior
        The posterior, with the past cases before the new ones.
    """
    together = past._replace(
        x=np.concatenate([past.x, new.x]),
        y=np.concatenate([past.y, new.y]),
        own_parent=np.concatenate([past.own_parent, new.own_parent]),
    )
    seed = (posterior.seed + 1) % MAX_SEED  # so that starting points do not depend on later random numbers
    settings = posterior.settings._replace(seed=seed)
    return run_chains(
        together,
        posterior.model,
        settings,
        n_threads=n_threads,
        progress=progress,
        begin=posterior,
        predictive=_given_again(posterior),
    )


def _given_again(posterior: Posterior) -> PredictiveDraws | None:
    """The same draws of q, if q has a separate posterior: new cases with hidden classes do not change it.

    The warm-up uses the last of these draws.
    """
    if posterior.steps is None:
        return None
    run, n_draws = posterior.settings, posterior.n_draws
    of_draws = np.arange(run.draws * run.thin) // run.thin
    given = posterior.q[:, np.concatenate([np.arange(-run.warmup, 0), of_draws]) % n_draws]
    return PredictiveDraws(given, posterior.steps)


def row_numbers(x: NDArray[np.float64]) -> NDArray[np.int64]:
    """A number for each row that depends only on the content of the row."""
    rows = np.ascontiguousarray(x, dtype="<f8") + 0.0  # -0 is 0
    rows[np.isnan(rows)] = np.nan  # and there is one NaN
    digests = (hashlib.blake2b(row.tobytes(), digest_size=8).digest() for row in rows)
    return np.frombuffer(b"".join(digests), dtype="<i8").astype(np.int64)
