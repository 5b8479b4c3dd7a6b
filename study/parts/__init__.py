"""The experiments, in the paper's order."""

from __future__ import annotations

from study.parts import closeness, computation, interpretation, prediction, sensitivity
from study.parts.context import Context, Part

__all__ = ["PARTS", "Context", "Part"]

PARTS = (
    Part("heart", "Prediction, heart disease", "tab:result1, fig:estpr", prediction.models_on_heart, 220),
    Part("breast", "Prediction, breast cancer", "tab:result2, fig:estpr", prediction.models_on_breast, 50),
    Part("likelihood", "The likelihood as printed", "eq:xphi", prediction.printed_likelihood, 70),
    Part("length", "Longer chains", "not in the paper", prediction.longer_chains, 250),
    Part("patients", "Sample patients", "fig:network1 to fig:network1111", interpretation.sample_patients, 7),
    Part("importance", "Importance of features", "fig:posteriorbox1", interpretation.importance, 600),
    Part("ranked-features", "Ranked features", "fig:posteriorbox2", interpretation.ranked_features, 50),
    Part("sensitivity-parents", "Number of parents", "subsec:sensS", sensitivity.number_of_parents, 75),
    Part("sensitivity-alpha", "Number of neighbors", "fig:sensalpha", sensitivity.number_of_neighbors, 85),
    Part("sensitivity-shape", "Prior of importance", "fig:sensitgamma", sensitivity.shape_of_importance, 75),
    Part("sensitivity-rest", "Other constants", "sec:sens", sensitivity.other_constants, 180),
    Part("others", "Other methods and BCM", "tab:comparison1, fig:bcmcompare", prediction.others_on_both, 45),
    Part("knn", "KNN and its extensions", "fig:comp3", closeness.nearest_neighbors, 55),
    Part("sample-patient", "One patient in three models", "fig:sample1", interpretation.sample_patient, 6),
    Part("trees", "Decision trees", "fig:comd31, fig:comd32", closeness.decision_trees, 12),
    Part("readmission", "Readmission", "tab:readres", prediction.readmission, 320, needs_readmission=True),
    Part("full", "The full data sets", "not in the paper", prediction.full_sets, 115),
    Part("time", "Time per sweep", "fig:cpu1", computation.time_per_sweep, 40),
)
