"""A small problem in the layout of the GPU, in NumPy arrays: the functions of the GPU run on the CPU as well."""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

import numpy as np
from bayespatch_cuda.layout import DeviceData, DeviceNeighbors, chance_at, words_of
from bayespatch_cuda.sums import DeviceNodes
from bayespatch_cuda.update import Case, Change, Own, begin_case, refresh_labels
from numpy.typing import NDArray

from bayespatch.engine.cpu import layout
from bayespatch.engine.quadrature import Nodes, make_nodes, make_rates
from bayespatch.engine.votes import ON, VOTE_ON, Constants
from bayespatch.model import (
    Data,
    Hyperparameters,
    Latent,
    Model,
    ModelKind,
    agreement,
    feature_constants,
    log_likelihood_features,
    log_likelihood_labels,
)
from tests.problems import random_data


class Hand(NamedTuple):
    """Data, model, and both as the kernels see them; one case has several neighbors."""

    data: Data
    model: Model
    c: Constants
    table: DeviceData
    entries: DeviceNeighbors
    old: NDArray[np.float64]  # (4, S, P) importance
    new: NDArray[np.float64]


def hand(kind: ModelKind, seed: int, n_neighbors: int = 3, n_features: int = 3) -> Hand:
    """Case 0 has the first parents as neighbors, with w, kappa and q-tilde at random."""
    rng = np.random.default_rng(seed)
    data = random_data(seed, 2, 5, n_features, hidden=0.0)
    hyper = Hyperparameters(alpha=0.3, lam0=0.3, lam=1.7, mu0=0.4, mu=(1.0, 2.5), sigma2=2.0)
    model = Model(kind, "exact", hyper)
    c = layout.constants_of(data, model)
    _, c2 = feature_constants(data, model)
    same = agreement(data)
    table = DeviceData(
        same=np.stack([words_of(rows) for rows in same], axis=1),
        votes=words_of(~np.isnan(data.x_parents)),
        observed=words_of(~np.isnan(data.x)),
        y=data.y.astype(np.int32),
        own_parent=np.full(2, -1, np.int32),
        y_parents=data.y_parents.astype(np.int32),
        c2=c2,
        mu=layout.label_weights(data, model),
    )
    n = np.array([n_neighbors, 0], np.int32)
    parent = np.tile(np.arange(5, dtype=np.int32), (2, 1))
    bits = words_of(rng.random((5, n_features)) < 0.5)
    entries = DeviceNeighbors(
        n,
        parent,
        np.repeat(bits.T[None], 2, axis=0),
        np.moveaxis(table.same, 0, 2).copy(),
        np.repeat(rng.random((1, 5)), 2, axis=0),
        rng.uniform(0.5, 2.0, (2, 5)),
    )
    importances = []
    for _ in range(2):
        on = rng.random((5, n_features))
        silent = np.isnan(data.x_parents)
        importances.append(np.stack([on, 1 - on, np.where(silent, 0.0, on), np.where(silent, 1.0, 1 - on)]))
    return Hand(data, model, c, table, entries, *importances)


def w_of(entries: DeviceNeighbors, i: int, n_features: int) -> NDArray[np.bool_]:
    """w of the entries of case i, (n, P)."""
    rows = entries.bits[i, : entries.n[i]]
    return np.array([[bool(rows[s, j // 32] >> (j % 32) & 1) for j in range(n_features)] for s in range(entries.n[i])])


def latent_of(at: Hand, w: NDArray[np.bool_]) -> Latent:
    """The state of `hand` with the given w (n, P) for case 0."""
    n, n_features = w.shape
    z = np.zeros((2, 5), bool)
    z[0, :n] = True
    dense = np.zeros((2, 5, n_features), bool)
    dense[0, :n] = w
    kappa = np.zeros((2, 5))
    kappa[0, :n] = at.entries.kappa[0, :n]
    return Latent(np.full(n_features, 0.5), z, dense, kappa)


def log_settings(at: Hand, importance: NDArray[np.float64], j: int, summed: list[int]) -> dict[tuple[bool, ...], float]:
    """Every setting of w_0:j of the summed entries -> log of its probability times the likelihood of x_0j, and in Model
    II times the tilt of those that are on.
    """
    w = w_of(at.entries, 0, at.data.x.shape[1])
    weights = {}
    for setting in itertools.product([False, True], repeat=len(summed)):
        w[summed, j] = setting
        latent = latent_of(at, w)
        log = log_likelihood_features(at.data, at.model, latent)[0, j]
        on = importance[ON, : len(w), j]
        tilt = at.entries.tilt[0, : len(w)] if at.c.kind == 2 else 1.0
        weights[setting] = log + np.log(np.where(w[:, j], on * tilt, 1 - on)).sum()
    return weights


def log_of_others(at: Hand, w: NDArray[np.bool_], j: int, kappa: NDArray[np.float64] | None = None) -> float:
    """Log likelihood of all that is known of case 0 beside x_0j; votes may have other weights, `kappa`."""
    latent, model = latent_of(at, w), at.model
    if kappa is not None:
        model = Model("III", model.likelihood, model.hyper)
        latent.kappa[0, : len(kappa)] = kappa
    log = np.delete(log_likelihood_features(at.data, model, latent)[0], j).sum()
    return float(log + log_likelihood_labels(at.data, model, latent)[0])


def settings(at: Hand, importance: NDArray[np.float64], j: int, summed: list[int]) -> dict[tuple[bool, ...], float]:
    """The same without the logarithm."""
    return {setting: math.exp(log) for setting, log in log_settings(at, importance, j, summed).items()}


def rules(at: Hand, capacity: int) -> DeviceNodes:
    """The rules for sums over w."""
    c, c2 = at.c, at.table.c2
    if c.kind == 1:
        return model_one(make_nodes(c2, c.lam, capacity))
    heaviest = c.n_features if c.kind == 2 else 1
    nodes = make_rates(c2, c.lam, int(c.kind == 2), heaviest, capacity)
    return DeviceNodes(*nodes, np.exp(-c.lam * np.outer(np.arange(heaviest + 1), nodes.place[:, 0])))


def model_one(nodes: Nodes) -> DeviceNodes:
    """The same of Model I."""
    return DeviceNodes(*nodes, np.zeros((1, 1)))


B, GROUP = 4, 2  # the parent that may become a neighbor of case 0; threads that look at parents together


def begun(kind, seed=0, n_features=5, n_lanes=1):
    at = hand(kind, seed, n_features=n_features)
    exact = np.float64 if kind == "III" else np.float32
    shape = (2, n_features)
    case = Case(
        np.full(shape, 7, exact), np.zeros(shape[::-1], np.float32), np.zeros(shape, np.float32), np.full(2, 7, exact),
        np.zeros(2, np.float32), np.zeros((2, 2), np.float32),
    )  # fmt: skip
    own = Own(at.table.same[:, 0, B].copy(), np.zeros(1, np.uint32), *np.zeros((2, 4), np.float32))
    for lane in range(n_lanes):
        begin_case(at.c.kind, at.c, at.table, at.entries, case, 0, lane, n_lanes)
    for lane in range(n_lanes):
        refresh_labels(at.c.kind, at.c, at.table, case, 0, lane, n_lanes)
    change = Change(np.array([0b10110], np.uint32), at.table.same[:, 0, B].copy())
    return at, case, own, change


def chances(at):
    """`Importance.chance` of `hand`."""
    n_parents, n_features = at.new.shape[1:]
    chance = np.zeros(6 * n_features, np.float32)
    for b in range(n_parents):
        for j in range(n_features):
            chance[chance_at(b, j, n_features, GROUP)] = at.new[VOTE_ON, b, j]
    return chance, np.uint64(chance_at(B, 0, n_features, GROUP))
