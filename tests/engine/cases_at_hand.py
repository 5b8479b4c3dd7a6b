"""Cases in the middle of a run, laid open for the tests of the kernels: entries, votes, likelihood."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from bayespatch import model as bp
from bayespatch.engine import votes
from bayespatch.engine.cpu import CpuEngine, CpuState
from bayespatch.engine.cpu import importance as cpu_importance
from bayespatch.model import Latent


class CaseAtHand(NamedTuple):
    """One case with the votes of its neighbors counted, in the engine's own work space."""

    engine: CpuEngine
    state: CpuState
    latent: Latent
    i: int
    n: int

    @property
    def parts(self):
        """(constants, tables, work): what the kernels are given."""
        return self.engine.constants, self.engine.tables, self.engine.work[0]

    @property
    def q_tilde(self) -> NDArray[np.float64]:
        return expit(self.state.logit_q_tilde)

    def outsiders(self) -> list[int]:
        """Parents that are not neighbors of the case, and may be."""
        return np.flatnonzero(~self.latent.z[self.i] & bp.may_be_neighbors(self.engine.data)[self.i]).tolist()

    def log_likelihood(self, latent: Latent) -> NDArray[np.float64]:
        """The model's log likelihood of every feature of the case, then of its label (P+1,)."""
        data = self.engine.data
        one = data._replace(
            x=data.x[self.i : self.i + 1],
            y=data.y[self.i : self.i + 1],
            own_parent=data.own_parent[self.i : self.i + 1],
        )
        mine = Latent(latent.q, *(part[self.i : self.i + 1] for part in latent[1:]))
        features = bp.log_likelihood_features(one, self.engine.model, mine)[0]
        return np.append(features, bp.log_likelihood_labels(one, self.engine.model, mine))

    def with_neighbor(self, b: int, w: NDArray[np.bool_], kappa: float = 1.0) -> Latent:
        """The latent variables if parent b were a neighbor of the case, with this w (and kappa, in Model III)."""
        changed = self.latent._replace(z=self.latent.z.copy(), w=self.latent.w.copy(), kappa=self.latent.kappa.copy())
        changed.z[self.i, b], changed.w[self.i, b], changed.kappa[self.i, b] = True, w, kappa
        return changed


def cases_at_hand(data, model, seed=0, n_sweeps=3, n_cases=3, **constants):
    """The first cases of the data after a few sweeps, one after another."""
    engine = CpuEngine(data, model)
    engine.constants = engine.constants._replace(**constants)
    state = engine.start(seed, 0)
    for _ in range(n_sweeps):
        engine.sweep(state)
    cpu_importance.fill_importance(state.logit_q_tilde, engine.tables.x_parents, engine.importance)
    latent = engine.latent(state)
    for i in range(min(n_cases, len(data.x))):
        n = int(state.neighbors.n[i])
        c, t, work = engine.constants, engine.tables, engine.work[0]
        votes.count_votes(
            c, t.x, t.y, t.x_parents, t.y_parents, t.feature, t.mu,
            state.neighbors.parent[i], state.neighbors.bits[i], state.neighbors.kappa[i],
            work.votes, work.class_votes, work.by_weight, work.label_factor, i, n,
        )  # fmt: skip
        yield CaseAtHand(engine, state, latent, i, n)


def settings_of_w(n: int) -> NDArray[np.bool_]:
    """All 2^n settings of n bits."""
    return np.array(list(itertools.product([False, True], repeat=n)), bool)
