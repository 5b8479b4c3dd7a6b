"""The truth checks must be able to fail: known mistakes, planted in the paper's sampler, are found."""

import numpy as np
import pytest
from scipy.special import log_expit

from bayespatch import model as bp
from bayespatch.engine.paper import PaperEngine
from bayespatch.model import Model
from tests.montecarlo import check_against_exact
from tests.problems import PROBLEMS


class NoLabels(PaperEngine):
    """Labels do not matter."""

    def __init__(self, data, model, n_threads=1):
        super().__init__(data, model, n_threads)
        self._label_weight = np.zeros_like(self._label_weight)
        self._own_label_weight = np.zeros_like(self._own_label_weight)


class OneMuForAll(PaperEngine):
    """A vote weighs the same for every class."""

    def __init__(self, data, model, n_threads=1):
        super().__init__(data, model, n_threads)
        self._own_label_weight = (self._own_label_weight > 0) * 1.0
        self._label_weight = (self._label_weight > 0) * 1.0


class WrongNumberOfValues(PaperEngine):
    """Every feature has two values."""

    def __init__(self, data, model, n_threads=1):
        super().__init__(data._replace(n_values=np.full_like(data.n_values, 2)), model, n_threads)


class MissingParentsVote(PaperEngine):
    """A parent whose value is missing votes for something else."""

    def __init__(self, data, model, n_threads=1):
        super().__init__(data, model, n_threads)
        self._votable = np.repeat(bp.observed(data)[:, None].astype(float), len(data.x_parents), axis=1)


class CountsItself(PaperEngine):
    """The prior of w_ibj counts w_ibj itself."""

    def _prior_odds_w(self, state, counts, b):
        on, off = super()._prior_odds_w(state, counts, b)
        return on + 1, off + 1


class NoJacobian(PaperEngine):
    """The random walk on logit q forgets the change of scale."""

    def _log_density_logit_q(self, logit_q, n_on):
        right = super()._log_density_logit_q(logit_q, n_on)
        return right - log_expit(logit_q) - log_expit(-logit_q)


class SelfIsNeighbor(PaperEngine):
    """A case may be its own neighbor."""

    def __init__(self, data, model, n_threads=1):
        super().__init__(data, model, n_threads)
        self._allowed = np.ones_like(self._allowed)


class KappaFromThePrior(PaperEngine):
    """Model III: the degree of influence is drawn afresh, whatever the data say."""

    def _choose_kappa(self, counts, b, kappa, w, rng):
        return rng.beta(self.model.hyper.tau, self.model.hyper.sigma3, len(kappa))


class NoLabelsInW(PaperEngine):
    """Model II: the label does not see that w changes the influence."""

    def _update_w_one_by_one(self, state, counts, i, b, rng):
        label_weight, own_label_weight = self._label_weight, self._own_label_weight
        self._label_weight, self._own_label_weight = np.zeros_like(label_weight), np.zeros_like(label_weight)
        w_before = state.w[i, b].sum()
        super()._update_w_one_by_one(state, counts, i, b, rng)
        self._label_weight, self._own_label_weight = label_weight, own_label_weight
        change = float(state.w[i, b].sum()) - w_before
        counts.own[i] += change * own_label_weight[i, b]
        counts.all[i] += change * label_weight[i, b]


@pytest.mark.parametrize(
    ("bug", "kind", "likelihood", "name"),
    [
        (NoLabels, "I", "exact", "binary"),
        (NoLabels, "II", "paper", "binary"),
        (OneMuForAll, "I", "exact", "many_values"),
        (WrongNumberOfValues, "I", "exact", "many_values"),
        (MissingParentsVote, "I", "exact", "missing"),
        (CountsItself, "I", "exact", "one_parent"),
        (NoJacobian, "I", "exact", "binary"),
        (SelfIsNeighbor, "I", "exact", "exclude_self"),
        (KappaFromThePrior, "III", "exact", "one_case"),
        (NoLabelsInW, "II", "exact", "binary"),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else value,
)
def test_planted_bug_is_found(bug, kind, likelihood, name):
    data, hyper = PROBLEMS[name]()
    with pytest.raises(AssertionError, match=f"Model {kind}, {likelihood} likelihood"):
        check_against_exact(bug, data, Model(kind, likelihood, hyper), n_draws=1500, seed=0)
