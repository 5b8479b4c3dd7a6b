"""Sampling from arrays; the result is a `Posterior`. Invalid input is rejected before sampling begins."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from contextlib import ExitStack

from joblib import cpu_count
from numpy.typing import ArrayLike

from bayespatch.engine.base import GivenEngine, ProblemSizes
from bayespatch.engine.installed import check_engine, fastest_engine, load_engine
from bayespatch.model import Data, Hyperparameters, Model
from bayespatch.progress import Tell, progress_meter
from bayespatch.sampling.chains import Run
from bayespatch.sampling.checkpoint import check_seconds, describe, opened
from bayespatch.sampling.diagnostics import MixingWarning
from bayespatch.sampling.memory_needed import bytes_needed, check_memory
from bayespatch.sampling.posterior import Posterior, PredictiveDraws, SamplingSettings
from bayespatch.validation import check_chain_lengths, check_count, check_data, check_flag, check_model, check_seed


def chosen_engine(name: str, data: Data) -> str:
    """The engine to use: "auto" is the GPU if present and if the data are large enough."""
    if check_engine(name, "auto") != "auto":
        return name
    return fastest_engine(len(data.x), *data.x_parents.shape)


def sample(
    x: ArrayLike,
    y: ArrayLike,
    x_parents: ArrayLike,
    y_parents: ArrayLike,
    *,
    n_values: ArrayLike,
    n_classes: int,
    hyper: Hyperparameters | None = None,
    model: str = "I",
    likelihood: str = "exact",
    supervised: bool = True,
    exclude_self: bool = False,
    windows: ArrayLike | None = None,
    missing: str = "error",
    engine: str = "cpu",
    chains: int = 4,
    draws: int = 500,
    warmup: int = 500,
    thin: int = 1,
    seed: int = 0,
    n_threads: int | None = None,
    progress: bool | Tell = False,
    keep_w: bool = False,
    keep_votes: bool = False,
    begin: Posterior | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_every: float = 30.0,
) -> Posterior:
    """Sample the neighbors of each case and the features that matter.

    Ctrl-C ends the run early: with a warning, `sample` returns the finished draws, the same number from each chain. If
    pressed again, or before the first draw, Ctrl-C raises KeyboardInterrupt.

    Parameters
    ----------
    x, y : array of shape (N, P) and (N,)
        The cases: coded values, and classes 0..M-1 (-1 if the class is not known).
    x_parents, y_parents : array of shape (S, P) and (S,)
        The parents: past cases that may become neighbors.
    n_values : sequence of length P
        V_j, the number of values of each feature; codes run from 0 to V_j - 1.
    n_classes : int
        M, the number of classes.
    hyper : Hyperparameters, optional
        The constants of the prior and of the votes.
    model : {"I", "II", "III"}
        Influence of a neighbor on a case: equal, by the number of features that matter, or separate for each neighbor.
    likelihood : {"exact", "paper"}
        g / sum g, or (g + 1) / (sum g + 1) as printed in the paper.
    supervised : bool
        If False, the classes of all cases are hidden.
    exclude_self : bool
        True if x and x_parents are the same rows: case i is never its own neighbor.
    windows : sequence of length P, optional
        r_j: values agree if they differ by at most r_j; 0 (the default) for codes of categories. If r_j > 0, V_j is
        range_j / (2 r_j).
    missing : {"error", "ignore"}
        Reject NaN, or leave missing values out of comparisons.
    engine : str
        "cpu"; "cuda" for an NVIDIA GPU; "auto" for the faster of the two; or "paper" for the paper's sampler (slow).
    chains, draws, warmup, thin : int
        Number of chains; draws stored per chain; sweeps before the first draw, during which step sizes are adapted;
        sweeps per draw.
    seed : int
        The same seed gives the same draws with any number of threads.
    n_threads : int, optional
        Number of threads; None uses all cores available to this process.
    progress : bool or callable
        True shows a bar on stderr; a callable gets (sweeps done, total sweeps, phase).
    keep_w : bool
        Also keep `w_mean` (4*N*S*P bytes).
    keep_votes : bool
        Also keep the votes of each draw (4*chains*draws*N*M bytes).
    begin : Posterior, optional
        An earlier run on the same features whose parents are the first rows of `x_parents`. Chains begin with the
        importances of its last draws instead of draws from the prior, which shortens the warm-up.
    checkpoint : path, optional
        A folder for the state of the run. If it contains a run, that run continues: after an interruption, the same
        call gives the same draws as an uninterrupted run. A finished run is returned immediately, or extended if
        `draws` is larger. Delete the folder when you no longer need it. A folder with a run on different data, or with
        different arguments, is rejected.
    checkpoint_every : float
        Seconds between checkpoints. A checkpoint takes 4*N*S bytes, the neighbors of each chain and the draws since the
        last checkpoint. If writing is slow, checkpoints are less frequent, so that they take at most 5% of the time.

    Returns
    -------
    Posterior

    Raises
    ------
    MemoryError
        If the run needs more memory than is available; see `bayespatch.sampling.memory_needed.bytes_needed`.
    StorageError
        If the checkpoint is damaged or belongs to another run (a subclass of ValueError).

    Warns
    -----
    MixingWarning
        If R-hat is above 1.01 or there are fewer than 100 effective draws per chain.

    Examples
    --------
    >>> past = dict(x_parents=[[0], [1], [1]], y_parents=[0, 1, 1], n_values=[2], n_classes=2)
    >>> posterior = sample([[0], [1]], [0, 1], **past, draws=50, warmup=50)
    >>> posterior.q.shape
    (4, 50, 1)

    A run that is killed, or interrupted with Ctrl-C, continues from the last checkpoint:

    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "run")
    ...     short = sample([[0], [1]], [0, 1], **past, warmup=50, draws=50, checkpoint=path)
    ...     longer = sample([[0], [1]], [0, 1], **past, warmup=50, draws=60, checkpoint=path)
    >>> bool((longer.q[:, :50] == short.q).all())
    True
    """
    check_chain_lengths(chains, draws, warmup, thin)
    data = check_data(
        x,
        y,
        x_parents,
        y_parents,
        n_values=n_values,
        n_classes=n_classes,
        windows=windows,
        missing=missing,
        supervised=supervised,
        exclude_self=exclude_self,
    )
    settings = SamplingSettings(
        engine=chosen_engine(engine, data),
        chains=int(chains),
        draws=int(draws),
        warmup=int(warmup),
        thin=int(thin),
        seed=check_seed(seed),
        supervised=supervised,
        exclude_self=exclude_self,
        missing=missing,
    )
    return run_chains(
        data,
        check_model(model, likelihood, hyper, data.n_classes, data.x.shape[1]),
        settings,
        n_threads=n_threads,
        progress=progress,
        keep_w=keep_w,
        keep_votes=keep_votes,
        begin=begin,
        checkpoint=checkpoint,
        checkpoint_every=checkpoint_every,
    )


def run_chains(
    data: Data,
    model: Model,
    settings: SamplingSettings,
    *,
    n_threads: int | None = None,
    progress: bool | Tell = False,
    keep_w: bool = False,
    keep_votes: bool = False,
    begin: Posterior | None = None,
    predictive: PredictiveDraws | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_every: float = 30.0,
    feature_names: Sequence[str] = (),
) -> Posterior:
    """The part of `sample` after the checks of data, model and settings.

    `predictive`: draws of q from its separate posterior; everything else is sampled given these. `feature_names`: names
    for warnings.
    """
    keep_w, keep_votes = check_flag("keep_w", keep_w), check_flag("keep_votes", keep_votes)
    threads = cpu_count() if n_threads is None else check_count("n_threads", n_threads, at_least=1)
    seconds = check_seconds("checkpoint_every", checkpoint_every)
    begin = _checked_beginning(begin, data)
    meter = progress_meter(progress)  # before sampling, so that a missing package is reported immediately

    engine_class = load_engine(settings.engine)
    n_at_once = min(settings.chains, threads)
    check_size(data, model, settings, threads, keep_w, keep_votes, checkpoint is not None)
    if predictive is not None and not issubclass(engine_class, GivenEngine):
        raise ValueError(
            f"engine={settings.engine!r} samples the importances itself and cannot use given ones; pass engine='cpu'"
        )
    with ExitStack() as stack:
        keeper = None
        if checkpoint is not None:
            run_of = describe(data, model, settings, keep_w, keep_votes, begin, predictive)
            keeper = stack.enter_context(opened(checkpoint, run_of, seconds))
        engines = engine_class.for_chains(settings.chains, data, model, threads // n_at_once)
        run = Run(engines, settings, keep_w=keep_w, keep_votes=keep_votes, begin=begin, predictive=predictive)
        if keeper is not None:
            keeper.resume(run)
        run.run(n_at_once, meter, keeper)

    posterior = run.posterior(n_threads=threads)
    del run, engines  # free their memory
    if posterior.interrupted:
        more = "" if checkpoint is None else f"; the same call continues from checkpoint={os.fspath(checkpoint)!r}"
        warnings.warn(
            f"interrupted: {posterior.n_draws} of {settings.draws} draws per chain are kept{more}",
            UserWarning,
            stacklevel=3,
        )
    warning = posterior.diagnostics().with_features(feature_names).warning()
    if warning is not None:
        warnings.warn(warning, MixingWarning, stacklevel=3)
    return posterior


def check_size(
    data: Data,
    model: Model,
    settings: SamplingSettings,
    n_threads: int,
    keep_w: bool = False,
    keep_votes: bool = False,
    checkpoint: bool = False,
) -> None:
    """Reject a run that does not fit into memory before it starts."""
    sizes = ProblemSizes(len(data.x), len(data.x_parents), data.x.shape[1], data.n_classes)
    need = bytes_needed(
        sizes,
        model,
        settings,
        load_engine(settings.engine),
        n_threads=n_threads,
        keep_w=keep_w,
        keep_votes=keep_votes,
        checkpoint=checkpoint,
    )
    check_memory(need, settings, keep_w=keep_w, keep_votes=keep_votes)


def _checked_beginning(begin: Posterior | None, data: Data) -> Posterior | None:
    if begin is not None:
        n_parents, n_features = begin.q_tilde.shape[2:]
        if n_features != data.x.shape[1] or n_parents > len(data.x_parents):
            raise ValueError(
                f"begin has {n_parents} parents and {n_features} features, x_parents has shape {data.x_parents.shape}; "
                f"pass a run on the same features whose parents are the first of these, or omit begin"
            )
    return begin
