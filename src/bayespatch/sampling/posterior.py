"""The result of sampling: draws of the importances, neighbors, votes and diagnostics."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayespatch.model import Hyperparameters, Model
from bayespatch.sampling.diagnostics import Diagnostics, diagnose, diagnose_steps
from bayespatch.types import AnyArray

if TYPE_CHECKING:
    from arviz import InferenceData

# Metadata of a field that may be stored in a model file without the past cases, because it holds totals over all rows.
STORED_WITHOUT_CASES = {"stored_without_cases": True}


class SamplingSettings(NamedTuple):
    """Settings of a run; the same settings and data give the same draws."""

    engine: str
    chains: int
    draws: int  # requested number; an interrupted run has fewer
    warmup: int
    thin: int
    seed: int
    supervised: bool = True
    exclude_self: bool = False
    missing: str = "error"
    feature_subsets: bool = False  # closed-form votes: each draw compares a part of the features (`predict.closed`)


class Timing(NamedTuple):
    """The cost of a run, which differs between runs."""

    seconds_warmup: float
    seconds_sampling: float
    sweeps: int  # of all chains together, including warm-up
    n_threads: int

    @property
    def seconds(self) -> float:
        """Time for warm-up and sampling."""
        return self.seconds_warmup + self.seconds_sampling


@dataclass(frozen=True, eq=False)
class PredictiveDraws:
    """Draws of the importances for C chains.

    Attributes
    ----------
    given : array of shape (C, W + T, P)
        q for each sweep of the chains that follow: W sweeps of warm-up and T after it.
    steps : array of shape (C, k * T, P + 2)
        Every position after warm-up, k for each stored draw: q, log slope, log density. For diagnostics
        (`diagnose_steps`).
    n_cases, n_parents : int
        Number of predicted past cases and number of parents.
    """

    given: NDArray[np.float64]
    steps: NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class Posterior:
    """Draws from the posterior for N cases, S parents, P features and M classes.

    Attributes
    ----------
    q : array of shape (chains, draws, P)
        Importance of each feature.
    q_tilde : array of shape (chains, draws, S, P), float32
        Importance of each feature of each parent. Rounded for storage: values within 3e-8 of 1 become 1.
    z_mean : array of shape (N, S), float32
        P(z_ib = 1 | data): the probability that parent b is a neighbor of case i.
    votes_mean : array of shape (N, M)
        Mean over the draws of h_i(m) / sum_m h_i(m): the shares of the neighbors' votes for each class.
    n_neighbors : array of shape (chains, draws, N), int32
        Number of neighbors of each case.
    log_joint : array of shape (chains, draws)
        Log of the joint density of data and latent variables, with q_tilde integrated out.
    w_mean : array of shape (N, S, P), float32
        P(w_ibj = 1, z_ib = 1 | data); only with ``sample(..., keep_w=True)``.
    votes : array of shape (chains, draws, N, M), float32
        The votes of each draw; only with ``sample(..., keep_votes=True)``.
    steps : array of shape (chains, steps, P + 2), or None
        If q has a separate posterior, from prediction (`importances`): q, log slope and log density after every step of
        its chains; `q` has every k-th step. None if q was sampled jointly with everything else.
    log_weights : array of shape (chains, draws, K), or None
        With closed-form votes: log weight of each comparison (`bayespatch.retrieval`). In this case no neighbors are
        sampled, and N and S are 0 in the arrays above.
    compares_missing : bool array of shape (P,), or None
        Features with a comparison for missing values.
    efficiency : array of shape (1,), or None
        If the importances were drawn from a normal approximation: the effective share of the draws after they are
        reweighted to the exact posterior. NaN if it was not computed.
    model, settings, timing
        The model, and the settings and cost of the run.

    Examples
    --------
    >>> from bayespatch import sample
    >>> past = dict(x_parents=[[0], [1], [1]], y_parents=[0, 1, 1], n_values=[2], n_classes=2)
    >>> posterior = sample([[0], [1]], [0, 1], **past, draws=50, warmup=50, keep_votes=True)
    >>> posterior.q.shape, posterior.z_mean.shape
    ((4, 50, 1), (2, 3))
    >>> bool(posterior.votes_mean[1, 1] > 0.5)  # the second case is in the second class, like its look-alikes
    True
    """

    q: NDArray[np.float64] = field(metadata=STORED_WITHOUT_CASES)
    q_tilde: NDArray[np.float32]
    z_mean: NDArray[np.float32]
    votes_mean: NDArray[np.float64]
    n_neighbors: NDArray[np.int32]
    log_joint: NDArray[np.float64]
    model: Model = field(metadata=STORED_WITHOUT_CASES)
    settings: SamplingSettings = field(metadata=STORED_WITHOUT_CASES)
    timing: Timing = field(metadata=STORED_WITHOUT_CASES)
    kept_w_mean: NDArray[np.float32] | None = None  # read through w_mean
    kept_votes: NDArray[np.float32] | None = None  # read through votes
    steps: NDArray[np.float64] | None = field(default=None, metadata=STORED_WITHOUT_CASES)
    log_weights: NDArray[np.float64] | None = field(default=None, metadata=STORED_WITHOUT_CASES)
    compares_missing: NDArray[np.bool_] | None = field(default=None, metadata=STORED_WITHOUT_CASES)
    efficiency: NDArray[np.float64] | None = field(default=None, metadata=STORED_WITHOUT_CASES)

    @classmethod
    def closed(
        cls,
        q: NDArray[np.float64],
        log_weights: NDArray[np.float64],
        compares_missing: NDArray[np.bool_],
        steps: NDArray[np.float64],
        n_classes: int,
        model: Model,
        settings: SamplingSettings,
        timing: Timing,
        efficiency: float | None = None,
    ) -> Posterior:
        """The posterior of a model with closed-form votes: importances without sampled neighbors.

        Examples
        --------
        >>> q, steps = np.full((4, 50, 1), 0.5), np.zeros((4, 50, 3))
        >>> closed = Posterior.closed(
        ...     q, q, np.array([False]), steps, 2, posterior.model, posterior.settings, posterior.timing
        ... )
        >>> closed.z_mean.shape
        (0, 0)
        """
        n_chains, n_draws, n_features = q.shape
        return cls(
            q=q,
            q_tilde=np.empty((n_chains, n_draws, 0, n_features), np.float32),
            z_mean=np.empty((0, 0), np.float32),
            votes_mean=np.empty((0, n_classes)),
            n_neighbors=np.empty((n_chains, n_draws, 0), np.int32),
            log_joint=np.ascontiguousarray(steps[:, -n_draws:, -1]),
            model=model,
            settings=settings,
            timing=timing,
            steps=steps,
            log_weights=log_weights,
            compares_missing=compares_missing,
            efficiency=np.array([np.nan if efficiency is None else efficiency]),
        )

    @property
    def w_mean(self) -> NDArray[np.float32]:
        """P(w_ibj = 1, z_ib = 1 | data), (N, S, P)."""
        if self.kept_w_mean is None:
            raise AttributeError("w_mean was not kept; sample again with keep_w=True (it takes 4*N*S*P bytes)")
        return self.kept_w_mean

    @property
    def votes(self) -> NDArray[np.float32]:
        """The votes of each draw, (chains, draws, N, M)."""
        if self.kept_votes is None:
            raise AttributeError("votes were not kept; sample again with keep_votes=True, or use votes_mean")
        return self.kept_votes

    @property
    def hyper(self) -> Hyperparameters:
        """The constants of the prior and of the votes."""
        return self.model.hyper

    @property
    def seed(self) -> int:
        """The seed of the run."""
        return self.settings.seed

    @property
    def n_chains(self) -> int:
        """Chains."""
        return self.q.shape[0]

    @property
    def n_draws(self) -> int:
        """Number of stored draws per chain."""
        return self.q.shape[1]

    @property
    def interrupted(self) -> bool:
        """Whether there are fewer draws than requested."""
        return self.n_draws < self.settings.draws

    def diagnostics(self) -> Diagnostics:
        """R-hat, effective sample sizes and Monte Carlo errors of each q_j, log_joint and the mean number of neighbors.

        If q has a separate posterior, the diagnosed quantities are each q_j, the slope and the log density
        (`diagnose_steps`); each prediction states the precision of the votes given q.

        Returns
        -------
        Diagnostics
            One row per quantity: ``q[0]``, ``q[1]``, ..., ``log_joint``, ``mean_neighbors``.

        Examples
        --------
        >>> posterior.diagnostics().names
        ('q[0]', 'log_joint', 'mean_neighbors')
        """
        return self._diagnostics

    @cached_property
    def _diagnostics(self) -> Diagnostics:
        if self.steps is not None:
            table = diagnose_steps(self.steps)
            if self.efficiency is None or np.isnan(self.efficiency[0]):
                return table
            return replace(table, efficiency=float(self.efficiency[0]))
        names = [f"q[{j}]" for j in range(self.q.shape[2])] + ["log_joint", "mean_neighbors"]
        mean_neighbors = self.n_neighbors.mean(axis=2)
        watched = np.concatenate([self.q, self.log_joint[:, :, None], mean_neighbors[:, :, None]], axis=2)
        return diagnose(names, watched)

    def votes_rhat(self) -> NDArray[np.float64]:
        """The largest R-hat over the classes of the votes on each case (N,); nan if the votes never change.

        Needs ``sample(..., keep_votes=True)`` and takes about a millisecond per case and class.

        Examples
        --------
        >>> posterior.votes_rhat().shape  # one for each case
        (2,)
        """
        n_chains, n_draws, n_cases, n_classes = self.votes.shape
        flat = self.votes.reshape(n_chains, n_draws, n_cases * n_classes)
        rhat = diagnose([""] * flat.shape[2], flat).rhat.reshape(n_cases, n_classes)
        return np.fmax.reduce(rhat, axis=1)

    def for_predictions(self) -> Posterior:
        """Only what predictions read, to be sent to other processes.

        Examples
        --------
        >>> posterior.z_mean.shape, posterior.for_predictions().z_mean.shape
        ((2, 3), (0, 3))
        """
        return replace(
            self,
            z_mean=self.z_mean[:0],
            votes_mean=self.votes_mean[:0],
            n_neighbors=self.n_neighbors[:, :, :0],
            kept_w_mean=None,
            kept_votes=None,
            steps=None,
        )

    def last_draws(self, parents: NDArray[np.int64], others: NDArray[np.int64]) -> Posterior:
        """The last draw of each chain, as the start of chains with different parents.

        `parents` and `others` are the ascending numbers of the parents of this run and of the new chains. Parents in
        both keep their q_tilde; new parents start from q. Use only q and q_tilde of the result.

        Examples
        --------
        >>> import numpy as np
        >>> posterior.last_draws(np.array([3, 5, 8]), np.array([5, 9])).q_tilde.shape  # 5 is in both, 9 is new
        (4, 1, 2, 1)
        """
        _, old_places, new_places = np.intersect1d(parents, others, return_indices=True)
        q = self.q[:, -1:]
        q_tilde = np.repeat(q[:, :, None, :], len(others), axis=2).astype(np.float32)
        q_tilde[:, :, new_places] = self.q_tilde[:, -1:, old_places]
        return replace(self, q=q, q_tilde=q_tilde)

    def to_arviz(self, features: Sequence[str] | None = None) -> Any:
        """The draws for ArviZ's plots and statistics.

        Parameters
        ----------
        features : names, optional
            Names of the features, such as ``clf.schema_.names``; by default, features are numbered.

        Returns
        -------
        arviz.InferenceData or xarray.DataTree
            InferenceData for ArviZ before 1.0, otherwise a DataTree.
            It has the groups ``posterior`` (q, q_tilde, n_neighbors, votes if stored), ``sample_stats`` (lp, which is
            log_joint) and ``means`` (z_mean, votes_mean, w_mean if stored), with the dimensions chain, draw, feature,
            parent, case and class.

        Examples
        --------
        >>> q = posterior.to_arviz(features=["age"])["posterior"]["q"]
        >>> dict(q.sizes), q["feature"].values.tolist()
        ({'chain': 4, 'draw': 50, 'feature': 1}, ['age'])
        """
        try:
            import xarray
        except ImportError as error:
            raise ImportError('to_arviz() needs ArviZ: pip install "bayespatch[arviz]"') from error
        draw = ["chain", "draw"]
        variables: dict[str, dict[str, tuple[list[str], AnyArray]]] = {
            "posterior": {
                "q": ([*draw, "feature"], self.q),
                "q_tilde": ([*draw, "parent", "feature"], self.q_tilde),
                "n_neighbors": ([*draw, "case"], self.n_neighbors),
            },
            "sample_stats": {"lp": (draw, self.log_joint)},
            "means": {"z_mean": (["case", "parent"], self.z_mean), "votes_mean": (["case", "class"], self.votes_mean)},
        }
        if self.kept_votes is not None:
            variables["posterior"]["votes"] = ([*draw, "case", "class"], self.kept_votes)
        if self.kept_w_mean is not None:
            variables["means"]["w_mean"] = (["case", "parent", "feature"], self.kept_w_mean)
        n_features = self.q.shape[2]
        if features is not None and len(features) != n_features:
            raise ValueError(f"features has {len(features)} names for {n_features} features; pass one for each")
        named = {"feature": list(features)} if features is not None else {}
        groups = {}
        for name, parts in variables.items():
            group = xarray.Dataset(parts)
            group = group.assign_coords(
                {one: named.get(str(one), np.arange(size)) for one, size in group.sizes.items()}
            )
            groups[name] = group
        attrs = {"model": self.model.kind, "likelihood": self.model.likelihood, "seed": self.seed}
        inference_data = _inference_data()
        if inference_data is not None:
            return inference_data(attrs=attrs, warn_on_custom_groups=False, **groups)
        tree = xarray.DataTree.from_dict(groups)
        tree.attrs = attrs
        return tree

    def __repr__(self) -> str:
        n_parents, n_features = self.q_tilde.shape[2:]
        n_cases, n_classes = self.votes_mean.shape
        run = self.settings
        if self.log_weights is not None:
            return (
                f"Posterior of Model {self.model.kind} with closed-form votes: {self.n_chains} chains x {self.n_draws} "
                f"draws of {n_features} importances, seed {run.seed}, {self.timing.seconds:.1f} s"
            )
        short = f" (interrupted: {run.draws} were requested)" if self.interrupted else ""
        return (
            f"Posterior of Model {self.model.kind}, {self.model.likelihood} likelihood: "
            f"{self.n_chains} chains x {self.n_draws} draws{short}\n"
            f"  cases {n_cases}, parents {n_parents}, features {n_features}, classes {n_classes}; "
            f"neighbors per case {self.n_neighbors.mean():.2f}\n"
            f"  engine {run.engine}, seed {run.seed}, warmup {run.warmup}, thin {run.thin}; "
            f"{self.timing.sweeps} sweeps in {self.timing.seconds:.1f} s"
        )

    def summary(self) -> str:
        """A description of the run and of the quantities that mix worst.

        Examples
        --------
        >>> print(posterior.summary().splitlines()[0])
        Posterior of Model I, exact likelihood: 4 chains x 50 draws
        """
        table = self.diagnostics()
        sentences = {"mixed": "The chains have mixed.", "not mixed": "The chains have not mixed."}
        sentences["rough"] = "The normal approximation of the importances is rough."
        verdict = sentences.get(table.verdict, "There are too few draws.")
        return f"{self!r}\n{verdict} The slowest quantities:\n{table.worst()}"


def _inference_data() -> type[InferenceData] | None:
    """ArviZ's InferenceData, if the installed version has it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # about the next version
        try:
            from arviz import InferenceData
        except ImportError:
            return None
    return InferenceData
