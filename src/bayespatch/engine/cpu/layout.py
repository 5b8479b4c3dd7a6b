"""Memory layout of the data, the neighbors and the scratch memory for the kernels."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayespatch.engine.base import Neighbors
from bayespatch.engine.quadrature import make_nodes, make_rates
from bayespatch.engine.votes import CASE_MISSING, N_CANDIDATES, PARENT_MISSING, Constants
from bayespatch.model import KINDS, Data, Model

LANES = 8  # features are padded to a multiple of this, so that vector instructions have no remainder

CACHE_LINE = 64  # bytes


class PaddedTable(NamedTuple):
    """The data. F is P padded; padding and missing values never agree with a value and do not vote."""

    x: NDArray[np.float64]  # (N, F)
    y: NDArray[np.int64]  # (N,)
    own_parent: NDArray[np.int64]  # (N,)
    x_parents: NDArray[np.float64]  # (S, F)
    y_parents: NDArray[np.int64]  # (S,)
    feature: NDArray[np.float64]  # (2, F) window and c2
    mu: NDArray[np.float64]  # (2, M) mu and mu0


class Work(NamedTuple):
    """Scratch memory of one thread for updating a case; between cases, all entries of `slot` are -1."""

    rng: NDArray[np.uint64]  # (2,)
    slot: NDArray[np.int32]  # (S,) position of a parent in the entries below, -1: not a neighbor
    parent: NDArray[np.int32]  # (S,)
    bits: NDArray[np.uint64]  # (S, words)
    kappa: NDArray[np.float64]  # (S,)
    votes: NDArray[np.float64]  # (5, F)
    class_votes: NDArray[np.float64]  # (M,)
    by_weight: NDArray[np.float64]  # (2, F, P+1) Model II: R_j(k)
    label_factor: NDArray[np.float64]  # (M, P+1) H(k)
    poly: NDArray[np.float64]  # (P+1, P+1) Model II
    prefix: NDArray[np.float64]  # (P+1, P+1) Model II
    candidate: NDArray[np.float64]  # (N_CANDIDATES,) Model III
    weight: NDArray[np.float64]  # (max(P+1, N_CANDIDATES),)


class Sums(NamedTuple):
    """Scratch memory of one thread for summing w out; C is the capacity of the neighbor lists.

    Arrays that the same loop writes are separate: the compiler cannot tell that rows of one array do not overlap and
    would not use vector instructions.
    """

    rng: NDArray[np.uint64]  # (2,)
    span: NDArray[np.int32]  # (2, C+1) start and end of the rule for each number of neighbors (``quadrature.py``)
    rate: NDArray[np.float64]  # (nodes,) Model III: u
    weight: NDArray[np.float64]  # (F, nodes) W; in Models II and III W exp(-u c2)
    decay: NDArray[np.float64]  # s (F, nodes); exp(-u lam k), by weight in II (P+1, nodes), by entry in III (C, nodes)
    # of the entries, (C,)
    k: NDArray[np.float64]  # weight of an entry's vote if it votes
    row: NDArray[np.int64]  # its row of `decay`
    tilt: NDArray[np.float64]  # Model II: the factor by which one more vote of the entry changes everything else
    log_tilt: NDArray[np.float64]  # the logarithm of `tilt`
    on: NDArray[np.float64]  # probability that w of one feature is on; then that it is off, and its vote if on
    off: NDArray[np.float64]
    vote: NDArray[np.float64]
    sources: NDArray[np.float64]  # weights for choosing the entry that a value was copied from
    fresh: NDArray[np.bool_]  # new draw of w of one feature
    # of the rates, or in Model I of all features at two nodes (2F,)
    base: NDArray[np.float64]  # G
    copied: NDArray[np.float64]  # C
    chosen: NDArray[np.float64]  # (2 nodes,) the weights of the rates
    total: NDArray[np.float64]  # (2F,) Model I: the sum over nodes
    place: NDArray[np.float64]  # (nodes / 2, 2F) Model I: s of all features, for two nodes
    node_weight: NDArray[np.float64]  # (nodes / 2, 2F) Model I: W
    on_rows: NDArray[np.float64]  # (C, 2F) Model I: q~ of the entries, twice
    agreeing: NDArray[np.float64]  # (C, 2F) Model I: the same where they agree with the case
    terms: NDArray[np.float64]  # (nodes + 1, 2F) Model I: cumulative weights, two rows for two nodes
    chance: NDArray[np.float64]  # (C, F) Model I: q~ of the entries, even if they do not vote
    votes: NDArray[np.float64]  # (2, 5, F) Model II: all votes, before and after; or votes and slopes
    class_votes: NDArray[np.float64]  # (2, M)


def on_cache_line(array):
    """A copy aligned to a cache line.

    NumPy does not align arrays to cache lines. Vector instructions that cross a line take twice as long, and threads
    that write to the same line wait for each other.
    """
    room = np.empty(array.nbytes + CACHE_LINE, np.uint8)
    begin = -room.ctypes.data % CACHE_LINE
    copy = room[begin : begin + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def constants_of(data: Data, model: Model) -> Constants:
    hyper = model.hyper
    one = 1.0 if model.likelihood == "paper" else 0.0  # errata, item 1
    n_features = data.x.shape[1]
    # The largest factor by which the votes of one neighbor can change one feature.
    smallest = min(hyper.lam0 + one, float(data.n_values.min()) * hyper.lam0 + one)
    largest = 1.0 + hyper.lam * (n_features + 1) / smallest
    return Constants(
        kind=KINDS.index(model.kind) + 1,
        n_features=n_features,
        c1=float(hyper.lam0 + one),
        lam=float(hyper.lam),
        one=one,
        label_c2=float(hyper.mu0_per_class(data.n_classes).sum()) + one,
        prior_odds=float(hyper.alpha / (1.0 - hyper.alpha)),
        tau=float(hyper.tau),
        sigma3=float(hyper.sigma3),
        chunk=max(1, int(280.0 / math.log10(largest))),
    )


def tables_of(data: Data, model: Model) -> PaddedTable:
    hyper = model.hyper
    one = 1.0 if model.likelihood == "paper" else 0.0
    n_features = data.x.shape[1]
    width = padded_width(n_features)
    feature = np.zeros((2, width))
    feature[1] = 1.0
    feature[0, :n_features] = data.windows
    feature[1, :n_features] = data.n_values * hyper.lam0 + one
    return PaddedTable(
        padded(data.x, width, CASE_MISSING),
        np.ascontiguousarray(data.y, np.int64),
        np.ascontiguousarray(data.own_parent, np.int64),
        padded(data.x_parents, width, PARENT_MISSING),
        np.ascontiguousarray(data.y_parents, np.int64),
        on_cache_line(feature),
        label_weights(data, model),
    )


def label_weights(data: Data, model: Model) -> NDArray[np.float64]:
    """(2, M): the weight of a vote for each class, and the base votes."""
    return np.stack([model.hyper.mu_per_class(data.n_classes), model.hyper.mu0_per_class(data.n_classes)])


def padded_width(n_features: int) -> int:
    """F: the number of features, rounded up to whole lanes."""
    return -(-n_features // LANES) * LANES


def padded(values: NDArray[np.float64], width: int, missing: float) -> NDArray[np.float64]:
    """`values` padded to `width` columns; `missing` fills the padding and replaces NaN."""
    out = np.full((values.shape[0], width), missing)
    out[:, : values.shape[1]] = np.where(np.isnan(values), missing, values)
    return on_cache_line(out)


def blank_importance(t: PaddedTable) -> NDArray[np.float64]:
    """(4, S, F): q-tilde and 1 - q-tilde, then both for votes, where padding and missing values have 0 and 1."""
    importance = np.zeros((4, *t.x_parents.shape))
    importance[1::2] = 1.0
    return on_cache_line(importance)


def blank_neighbors(c: Constants, n_cases: int, capacity: int) -> Neighbors:
    return Neighbors(
        np.zeros(n_cases, np.int32),
        np.zeros((n_cases, capacity), np.int32),
        np.zeros((n_cases, capacity, -(-c.n_features // 64)), np.uint64),
        np.zeros((n_cases, capacity if c.kind == 3 else 1)),
    )


def with_capacity(neighbors: Neighbors, capacity: int) -> Neighbors:
    """The same neighbors with a larger capacity."""
    n, parent, bits, kappa = neighbors
    more = capacity - parent.shape[1]
    return Neighbors(
        n,
        np.pad(parent, ((0, 0), (0, more))),
        np.pad(bits, ((0, 0), (0, more), (0, 0))),
        np.pad(kappa, ((0, 0), (0, more))) if kappa.shape[1] > 1 or parent.shape[1] == 1 else kappa,
    )


def blank_work(c: Constants, t: PaddedTable) -> Work:
    n_parents, width = t.x_parents.shape
    n_counts = max(c.n_features + 1, 2)
    square = (n_counts, n_counts) if c.kind == 2 else (1, 1)
    work = Work(
        rng=np.zeros(2, np.uint64),
        slot=np.full(n_parents, -1, np.int32),
        parent=np.zeros(n_parents, np.int32),
        bits=np.zeros((n_parents, -(-c.n_features // 64)), np.uint64),
        kappa=np.zeros(n_parents),
        votes=np.zeros((5, width)),
        class_votes=np.zeros(t.mu.shape[1]),
        by_weight=np.ones((2, width, n_counts if c.kind == 2 else 1)),
        label_factor=np.ones((t.mu.shape[1], n_counts)),
        poly=np.zeros(square),
        prefix=np.zeros(square),
        candidate=np.zeros(N_CANDIDATES),
        weight=np.zeros(max(n_counts, N_CANDIDATES)),
    )
    return Work(*map(on_cache_line, work))


def blank_sums(c: Constants, t: PaddedTable, capacity: int) -> Sums:
    width = t.x.shape[1]
    c2 = np.pad(t.feature[1, : c.n_features], (0, width - c.n_features), mode="edge")  # no rule for padding
    weights = (1, c.n_features) if c.kind == 2 else (0, 1)  # of a vote
    rules = make_nodes(c2, c.lam, capacity) if c.kind == 1 else make_rates(c2, c.lam, *weights, capacity)
    beyond = 0, -len(rules.place) % LANES  # so that every row begins on a cache line
    rules = rules._replace(place=np.pad(rules.place, (beyond, (0, 0))), weight=np.pad(rules.weight, (beyond, (0, 0))))
    by_weight = np.outer(np.arange(c.n_features + 1 if c.kind == 2 else capacity), rules.place[:, 0])
    of_features = rules if c.kind == 1 else rules._replace(place=np.zeros((0, width)), weight=np.zeros((0, width)))
    n_entries = capacity if c.kind == 1 else 0
    most = int((rules.span[1] - rules.span[0]).max())  # nodes of a rule
    side_by_side = max(most, 2 * width)
    sums = Sums(
        rng=np.zeros(2, np.uint64),
        span=rules.span,
        rate=rules.place[:, 0].copy(),
        weight=np.ascontiguousarray(rules.weight.T),
        decay=np.ascontiguousarray(rules.place.T) if c.kind == 1 else np.exp(-c.lam * by_weight),
        k=np.zeros(capacity),
        row=np.zeros(capacity, np.int64),
        tilt=np.ones(capacity),
        log_tilt=np.zeros(capacity),
        on=np.zeros(capacity),
        off=np.zeros(capacity),
        vote=np.zeros(capacity),
        sources=np.zeros(capacity),
        fresh=np.zeros(capacity, np.bool_),
        base=np.zeros(side_by_side),
        copied=np.zeros(side_by_side),
        chosen=np.zeros(2 * most),
        total=np.zeros(2 * width),
        place=of_features.place.reshape(-1, 2 * width),
        node_weight=of_features.weight.reshape(-1, 2 * width),
        on_rows=np.zeros((n_entries, 2 * width)),
        agreeing=np.zeros((n_entries, 2 * width)),
        terms=np.zeros((most + 1 if c.kind == 1 else 0, 2 * width)),
        chance=np.zeros((n_entries, width)),
        votes=np.zeros((2, 5, width)),
        class_votes=np.zeros((2, t.mu.shape[1])),
    )
    return Sums(*map(on_cache_line, sums))


def check_neighbors(c: Constants, neighbors: Neighbors, n_parents: int) -> None:
    """Reject lists of neighbors with invalid indices."""
    n, parent, bits, kappa = neighbors
    capacity = parent.shape[1]
    rooms = {bits.shape[1], kappa.shape[1] if c.kind == 3 else capacity}
    inside = (n >= 0).all() and (n <= capacity).all() and (parent >= 0).all() and (parent < n_parents).all()
    if rooms != {capacity} or not inside:
        raise ValueError("the neighbors are not a list of parents for each case")
    if c.n_features % 64 and (bits[:, :, -1] >> np.uint64(c.n_features % 64)).any():
        raise ValueError(f"the neighbors have more than {c.n_features} features")
