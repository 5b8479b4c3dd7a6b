"""Classes that have an order."""

import numpy as np
import pandas as pd

from bayespatch import PatchworkClassifier, metrics

STAGES = ["none", "mild", "severe", "fatal"]


def test_ordered_categories_are_predicted_in_their_order():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((520, 5))
    places = np.digitize(x @ [1.0, -0.8, 0.6, 0.4, 0.0] + rng.logistic(size=520), [-1.2, 0.0, 1.5])
    past, new = x[:120], x[120:]
    scores = {}
    for ordered in (False, True):
        y = pd.Series(pd.Categorical(np.array(STAGES)[places[:120]], STAGES, ordered=ordered))
        clf = PatchworkClassifier(chains=2, draws=30, random_state=0, n_jobs=1).fit(past, y)
        assert clf.classes_.tolist() == sorted(STAGES)
        order = [clf.classes_.tolist().index(stage) for stage in STAGES]
        p = clf.predict_proba(new)[:, order]
        scores[ordered] = metrics.ranked_probability_score(p, places[120:])
    assert scores[True] < scores[False]
