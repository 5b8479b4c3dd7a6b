"""The memory that a run needs, and a check before the run that it is available."""

from __future__ import annotations

from typing import Any, NamedTuple

from bayespatch.available_memory import shortage, shown_bytes
from bayespatch.engine.base import Engine, ProblemSizes
from bayespatch.model import Model
from bayespatch.sampling.posterior import SamplingSettings


class Need(NamedTuple):
    """Bytes, by purpose."""

    draws: int  # quantities stored for every draw
    sums: int  # sums over the draws: z_mean, votes_mean and, if requested, w_mean
    chains: int  # engines, states of the chains, and memory for sweeps
    checkpoint: int  # additional memory for reading a checkpoint

    @property
    def total(self) -> int:
        """The total number of bytes."""
        return sum(self)


def bytes_needed(
    sizes: ProblemSizes,
    model: Model,
    settings: SamplingSettings,
    engine: type[Engine[Any]],
    *,
    n_threads: int = 1,
    keep_w: bool = False,
    keep_votes: bool = False,
    checkpoint: bool = False,
) -> Need:
    """The memory that a run needs in addition to its data and the code.

    For N cases, S parents, P features, M classes, C chains of D draws::

        draws   C D (8 P + 4 S P + 4 N + 8), plus 4 C D N M with keep_votes
        sums    4 N S + 8 C N M, plus 4 N S P with keep_w
        chains  C times the memory of a chain, plus T times the memory of a sweep if T chains run at once

    With engine "cpu", F features (P rounded up to a multiple of 8), W words (P / 64, rounded up) and a capacity of
    R = 8 + Sα + 6 sqrt(Sα) neighbors per case (at most S), a chain takes about N (8 F + 28 + R (4 + 8 W)) + 80 S F
    bytes (8 N R more in Model III), and a sweep takes N (17 + 8 P + 16 M) bytes (in Model II, 8 instead of 8 P). The
    capacity doubles when a case has more neighbors.

    Parameters
    ----------
    sizes : ProblemSizes
        N, S, P and M.
    model, settings
        The model and the settings of the run.
    engine : type
        The engine's class, which states the memory per chain.
    n_threads : int
        Total number of threads.
    keep_w, keep_votes, checkpoint : bool
        Whether each of these is requested.

    Returns
    -------
    Need

    Examples
    --------
    >>> from bayespatch.engine.installed import load_engine
    >>> sizes = ProblemSizes(n_cases=101_766, n_parents=200, n_features=19, n_classes=2)
    >>> settings = SamplingSettings("cpu", chains=4, draws=500, warmup=500, thin=1, seed=0)
    >>> need = bytes_needed(sizes, Model(), settings, load_engine("cpu"), n_threads=2)
    >>> f"{need.draws / 1e6:.0f} MB of draws, {need.total / 1e6:.0f} MB in all"
    '845 MB of draws, 1316 MB in all'
    """
    n_cases, n_parents, n_features, n_classes = sizes
    held, swept = engine.bytes_per_chain(sizes, model, max(1, n_threads // settings.chains))
    per_draw = 8 * n_features + 4 * n_parents * n_features + 4 * n_cases + 8
    per_draw += 4 * n_cases * n_classes if keep_votes else 0
    sums = 4 * n_cases * n_parents * (1 + (n_features if keep_w else 0)) + 8 * settings.chains * n_cases * n_classes
    chains = settings.chains * held + min(settings.chains, n_threads) * swept
    return Need(
        settings.chains * settings.draws * per_draw, sums, chains, sums + settings.chains * held if checkpoint else 0
    )


def check_memory(need: Need, settings: SamplingSettings, *, keep_w: bool, keep_votes: bool) -> None:
    """Reject a run that does not fit into the available memory."""
    if (available := shortage(need.total)) is None:
        return
    remedies = [
        (
            need.draws,
            f"fewer draws than {settings.draws} (with a larger thin for the same number of sweeps)",
        ),
        (need.sums, "fewer parents"),
        (need.chains, f"fewer chains than {settings.chains}"),
    ]
    largest_first = [remedy for _, remedy in sorted(remedies, key=lambda part: -part[0])]
    dropped = [f"{name}=False" for name, kept in (("keep_w", keep_w), ("keep_votes", keep_votes)) if kept]
    shown = {part: shown_bytes(getattr(need, part)) for part in ("total", "draws", "sums")}
    raise MemoryError(
        f"the run needs {shown['total']} of memory (draws {shown['draws']}, neighbors' probabilities and votes "
        f"{shown['sums']}, chains {shown_bytes(need.chains + need.checkpoint)}), and {available} are "
        f"available; pass {', or '.join(dropped + largest_first)}, or fewer cases"
    )
