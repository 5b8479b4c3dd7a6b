"""Convergence diagnostics: rank-normalized split R-hat and effective sample sizes, computed by arviz-stats.

The monitored quantities are the importance of each feature, log_joint and the mean number of neighbors. Single z or w
are not monitored: they are often constant over a whole chain, which makes their R-hat meaningless.
"""

from __future__ import annotations

import html
import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayespatch.types import Parameters

# The limits of Vehtari, Gelman, Simpson, Carpenter, Bürkner: Rank-normalization, folding, and localization: an improved
# R-hat for assessing convergence of MCMC, Bayesian Analysis 16 (2021), sections 4.1 and 4.3.
MAX_RHAT = 1.01
MIN_ESS_PER_CHAIN = 100
TAILS = (0.05, 0.95)  # the quantiles that define the tail ESS (same paper)

MIN_EFFICIENCY = 0.1  # of draws from a normal approximation that are reweighted to the exact posterior
MIN_DRAWS = 4  # R-hat and ESS need this many, because each chain is split in two
_COLUMNS = ("mean", "sd", "mcse", "ess_bulk", "ess_tail", "rhat")
_MOST_NAMED = 5  # largest number of quantities named in a warning


class MixingWarning(UserWarning):
    """The chains have not mixed or are too short for a reliable result."""


@dataclass(frozen=True, eq=False)
class Diagnostics:
    """A table with one row per quantity, displayed as text or, in a notebook, as HTML.

    If a quantity is the same in every draw, its R-hat and ESS are nan.

    Attributes
    ----------
    names : tuple of K str
        The quantities.
    mean, sd, mcse : array of shape (K,)
        Posterior mean and standard deviation, and the Monte Carlo standard error of the mean.
    ess_bulk, ess_tail : array of shape (K,)
        Effective sample size, over all chains, for the center and for the 5% and 95% quantiles.
    rhat : array of shape (K,)
        Rank-normalized split R-hat; nan if there is only one chain.
    n_chains, n_draws : int
        Number of chains and of draws per chain.
    efficiency : float or None
        For independent draws from a normal approximation: the effective share of the draws after they are reweighted to
        the exact posterior. None for sampled chains and for large tables, for which it is not computed.
    """

    names: tuple[str, ...]
    mean: NDArray[np.float64]
    sd: NDArray[np.float64]
    mcse: NDArray[np.float64]
    ess_bulk: NDArray[np.float64]
    ess_tail: NDArray[np.float64]
    rhat: NDArray[np.float64]
    n_chains: int
    n_draws: int
    efficiency: float | None = None

    @property
    def constant(self) -> NDArray[np.bool_]:
        """Whether each quantity is the same in every draw and therefore not diagnosed, (K,)."""
        return self.sd == 0

    @property
    def ess(self) -> NDArray[np.float64]:
        """The smaller of bulk and tail ESS (K,)."""
        return np.minimum(self.ess_bulk, self.ess_tail)

    @property
    def min_ess(self) -> int:
        """The required ESS: 100 per chain."""
        return MIN_ESS_PER_CHAIN * self.n_chains

    @property
    def poor(self) -> NDArray[np.bool_]:
        """Whether each quantity has an R-hat above 1.01 or an ESS below 100 per chain, or cannot be diagnosed, (K,)."""
        mixed = self.ess >= self.min_ess
        if self.n_chains > 1:
            mixed &= self.rhat <= MAX_RHAT
        return ~mixed & ~self.constant

    @property
    def converged(self) -> bool:
        """Whether there are enough draws, no quantity is `poor`, and the approximation, if any, is accurate."""
        return self.n_draws >= MIN_DRAWS and not self.poor.any() and not self.is_rough

    @property
    def is_rough(self) -> bool:
        """Whether draws come from an inaccurate approximation of the posterior."""
        return self.efficiency is not None and not self.efficiency >= MIN_EFFICIENCY

    @property
    def verdict(self) -> str:
        """One of "mixed", "not mixed", "too few draws" (the chains agree, but the ESS is low), "rough" (`is_rough`)."""
        if self.converged:
            return "mixed"
        if self.is_rough:
            return "rough"
        agree = self.n_chains > 1 and bool(np.all(self.rhat[self.poor] <= MAX_RHAT))
        return "too few draws" if self.n_draws < MIN_DRAWS or agree else "not mixed"

    def with_features(self, names: Sequence[str]) -> Diagnostics:
        """The same table with the names of the features: ``q[2]`` becomes the importance of the third feature.

        Examples
        --------
        >>> draws = np.random.default_rng(0).normal(size=(4, 500, 2))
        >>> diagnose(["q[0]", "slope"], draws).with_features(["age"]).names
        ('importance of age', 'slope')
        """
        labels = {f"q[{j}]": f"importance of {name}" for j, name in enumerate(names)}
        return replace(self, names=tuple(labels.get(name, name) for name in self.names))

    def worst(self, n: int = 3) -> Diagnostics:
        """The `n` quantities that mix worst, worst first, without constant quantities."""
        with np.errstate(divide="ignore"):
            badness = np.fmax((self.rhat - 1) / (MAX_RHAT - 1), self.min_ess / self.ess)
        badness = np.where(np.isnan(badness), np.inf, badness)
        order = np.argsort(-badness, kind="stable")
        rows = order[~self.constant[order]][:n]
        columns = {name: getattr(self, name)[rows] for name in _COLUMNS}
        names = tuple(self.names[row] for row in rows)
        return Diagnostics(names=names, **columns, n_chains=self.n_chains, n_draws=self.n_draws)

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes below the table."""
        remarks = []
        if self.efficiency is not None:
            share = f"{self.efficiency:.0%}"
            remarks.append(
                f"Draws from a normal approximation; reweighted to the exact posterior, {share} of them are effective."
            )
        if self.n_draws < MIN_DRAWS:
            remarks.append(
                f"{self.n_draws} draws per chain are too few for R-hat and ESS, which need at least {MIN_DRAWS}."
            )
        elif self.n_chains == 1:
            remarks.append("R-hat needs more than one chain.")
        if self.constant.any():
            fixed = [name for name, same in zip(self.names, self.constant, strict=True) if same]
            remarks.append(f"Constant over all draws, so not diagnosed: {_some(fixed)}.")
        return tuple(remarks)

    def warning(self) -> str | None:
        """A warning if the chains have not mixed or are too short; None otherwise."""
        if self.converged:
            return None
        if self.is_rough:
            return (
                f"the normal approximation of the importances' posterior is rough: reweighted to the exact posterior, "
                f"{self.efficiency:.0%} of its draws are effective (at least {MIN_EFFICIENCY:.0%} expected). Pass "
                f"votes='sampled', which samples the posterior itself"
            )
        if self.n_draws < MIN_DRAWS:
            return (
                f"draws={self.n_draws} per chain are too few to tell whether the chains have mixed; pass at least "
                f"{MIN_DRAWS}, preferably {MIN_ESS_PER_CHAIN} or more"
            )
        n_poor = int(self.poor.sum())
        rows = self.worst(min(n_poor, _MOST_NAMED))
        few = self.verdict == "too few draws"
        rhats = [f"R-hat {_rhat_text(value)}, " if self.n_chains > 1 and not few else "" for value in rows.rhat]
        named = [f"{name} ({rhat}ESS {ess:.0f})" for name, rhat, ess in zip(rows.names, rhats, rows.ess, strict=True)]
        more = f" and {n_poor - len(named)} more" if n_poor > len(named) else ""
        lowest = np.nanmin(self.ess[self.poor]) if np.isfinite(self.ess[self.poor]).any() else 1.0
        needed = math.ceil(self.n_draws * max(self.min_ess / lowest, 2.0))
        if few:
            return (
                f"too few draws: the chains agree, but the effective sample size (ESS) is low: "
                f"{', '.join(named)}{more}; the target is at least {self.min_ess} ({MIN_ESS_PER_CHAIN} per chain). "
                f"Pass more draws (roughly {needed} or more); diagnostics_ lists every quantity"
            )
        return (
            f"the chains have not mixed: {', '.join(named)}{more}; the targets are R-hat of at most {MAX_RHAT} and ESS "
            f"of at least {self.min_ess} ({MIN_ESS_PER_CHAIN} per chain). Pass more draws (roughly {needed} or more), "
            f"a larger thin if memory is short, or more warmup; diagnostics_ lists every quantity"
        )

    def to_frame(self) -> Any:  # a data frame of pandas, which may be absent
        """The table as a pandas DataFrame, one row per quantity."""
        try:
            import pandas
        except ImportError as error:
            raise ImportError("to_frame() needs pandas: pip install pandas") from error
        return pandas.DataFrame(
            {name: getattr(self, name) for name in _COLUMNS}, index=pandas.Index(self.names, name="quantity")
        )

    def _cells(self) -> list[list[str]]:
        digits = {"mean": ".4g", "sd": ".3g", "mcse": ".2g", "ess_bulk": ".0f", "ess_tail": ".0f"}
        columns = [[format(value, digits[name]) for value in getattr(self, name)] for name in digits]
        columns.append([_rhat_text(value) for value in self.rhat])
        return [[name, *row] for name, row in zip(self.names, zip(*columns, strict=True), strict=True)]

    def __str__(self) -> str:
        rows = [["", *_COLUMNS], *self._cells()]
        widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
        lines = [
            "  ".join([row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True))])
            for row in rows
        ]
        return "\n".join([*lines, *self.notes])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{name}</th>" for name in ("", *_COLUMNS))
        body = "".join(
            f"<tr><th>{html.escape(row[0])}</th>{''.join(f'<td>{cell}</td>' for cell in row[1:])}</tr>"
            for row in self._cells()
        )
        notes = "".join(f"<p>{html.escape(note)}</p>" for note in self.notes)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{notes}"


def diagnose(names: Sequence[str], draws: ArrayLike) -> Diagnostics:
    """R-hat, effective sample sizes and Monte Carlo errors of K quantities.

    Parameters
    ----------
    names : sequence of K str
        Names of the quantities.
    draws : array of shape (chains, draws, K)
        Their values.

    Returns
    -------
    Diagnostics

    Examples
    --------
    >>> import numpy as np
    >>> draws = np.random.default_rng(0).normal(size=(4, 500, 2))
    >>> diagnose(["a", "b"], draws).converged
    True
    """
    values = np.asarray(draws, dtype=np.float64)
    n_chains, n_draws, n_quantities = values.shape
    sd = values.std(axis=(0, 1), ddof=1) if n_chains * n_draws > 1 else np.zeros(n_quantities)
    varies = values.min(axis=(0, 1)) != values.max(axis=(0, 1))
    sd[~varies] = 0.0  # because of rounding, a constant may have a standard deviation of 1e-17

    statistics: Parameters = {name: np.full(n_quantities, np.nan) for name in ("mcse", "ess_bulk", "ess_tail", "rhat")}
    if n_draws >= MIN_DRAWS and varies.any():
        from arviz_stats.base import array_stats  # here, because loading takes a second if xarray is installed

        varying, axes = values[:, :, varies], {"chain_axis": 0, "draw_axis": 1}
        with np.errstate(invalid="ignore", divide="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            statistics["mcse"][varies] = array_stats.mcse(varying, method="mean", **axes)
            statistics["ess_bulk"][varies] = array_stats.ess(varying, method="bulk", **axes)
            statistics["ess_tail"][varies] = array_stats.ess(varying, method="tail", prob=TAILS, **axes)
            if n_chains > 1:
                statistics["rhat"][varies] = array_stats.rhat(varying, method="rank", **axes)
    mean = values.mean(axis=(0, 1))
    return Diagnostics(names=tuple(names), mean=mean, sd=sd, **statistics, n_chains=n_chains, n_draws=n_draws)


def _rhat_text(rhat: float) -> str:
    """R-hat with three decimals; if each chain is stuck at a different point, R-hat is about 1e16."""
    return f"{rhat:.1e}" if rhat > 1000 else f"{rhat:.3f}"


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(names[:_MOST_NAMED]) + more


def diagnose_steps(steps: NDArray[np.float64]) -> Diagnostics:
    """Diagnose steps (C, T, P + 2): each q_j, the slope (passed as its logarithm) and the log density."""
    names = [*(f"q[{j}]" for j in range(steps.shape[2] - 2)), "slope", "log_density"]
    return diagnose(names, _watched(steps))


def steps_converged(steps: NDArray[np.float64]) -> bool:
    """Whether every quantity of `diagnose_steps` has converged; begins with the last and stops at the first failure."""
    watched = _watched(steps)
    return all(diagnose([""], watched[:, :, [k]]).converged for k in reversed(range(watched.shape[2])))


def _watched(steps: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.concatenate([steps[:, :, :-2], np.exp(steps[:, :, -2:-1]), steps[:, :, -1:]], axis=2)
