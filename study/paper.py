"""The paper's numbers, transcribed with the labels of its tables; percentages are as printed.

Our computations do not use any of these numbers. Rows that the paper repeats by mistake are transcribed without changes
(docs/errata.md, item 6).
"""

from __future__ import annotations

MEASURES = ("accuracy", "sensitivity", "specificity", "precision", "f_measure")  # in the order of the rows below

# tab:result1 (heart) and tab:result2 (breast): fold -> the measures of Model I, then those of Model II.
# (cohort, supervised, model) -> five folds of accuracy, sensitivity, specificity, precision; recall is sensitivity.
FOLDS: dict[tuple[str, bool, str], tuple[tuple[float, float, float, float], ...]] = {
    ("heart", True, "I"): (
        (74.55, 73.33, 76.00, 78.57),
        (78.18, 80.00, 76.00, 80.00),
        (78.18, 69.23, 86.21, 81.82),
        (92.73, 92.31, 93.10, 92.31),
        (90.74, 96.00, 86.21, 85.71),
    ),
    ("heart", True, "II"): (
        (81.82, 73.33, 92.00, 91.67),
        (76.36, 80.00, 72.00, 77.42),
        (78.18, 73.08, 82.76, 79.17),
        (92.73, 92.31, 93.10, 92.31),
        (88.89, 100.00, 79.31, 80.65),
    ),
    ("heart", False, "I"): (
        (72.73, 73.33, 72.00, 75.86),
        (76.36, 76.67, 76.00, 79.31),
        (80.00, 73.08, 86.21, 82.61),
        (89.09, 84.62, 93.10, 91.67),
        (87.04, 92.00, 82.76, 82.14),
    ),
    ("heart", False, "II"): (
        (72.73, 73.33, 72.00, 75.86),
        (74.55, 76.67, 72.00, 76.67),
        (80.00, 76.92, 82.76, 80.00),
        (94.55, 100.00, 89.66, 89.66),
        (87.04, 92.00, 82.76, 82.14),
    ),
    ("breast", True, "I"): (
        (68.75, 92.86, 50.00, 59.09),
        (90.91, 100.00, 80.00, 85.71),
        (62.50, 57.14, 66.67, 57.14),
        (84.38, 87.50, 81.25, 82.35),
        (84.85, 94.74, 71.43, 81.82),
    ),
    ("breast", True, "II"): (
        (71.88, 92.86, 55.56, 61.90),
        (87.88, 100.00, 73.33, 81.82),
        (71.88, 71.43, 72.22, 66.67),
        (81.25, 81.25, 81.25, 81.25),
        (81.82, 89.47, 71.43, 80.95),
    ),
    ("breast", False, "I"): (
        (76.36, 76.67, 76.00, 79.31),
        (76.36, 76.67, 76.00, 79.31),
        (59.38, 57.14, 61.11, 53.33),
        (89.09, 84.62, 93.10, 91.67),
        (78.79, 89.47, 64.29, 77.27),
    ),
    ("breast", False, "II"): (
        (71.88, 92.86, 55.56, 61.90),
        (87.88, 100.00, 73.33, 81.82),
        (65.63, 71.43, 61.11, 58.82),
        (84.38, 87.50, 81.25, 82.35),
        (84.85, 94.74, 71.43, 81.82),
    ),
}

# The rows "Mean" and "SD" of the same tables, as printed: accuracy, sensitivity, specificity, precision.
PRINTED: dict[tuple[str, bool, str], tuple[tuple[float, ...], tuple[float, ...]]] = {
    ("heart", True, "I"): ((82.88, 82.17, 83.50, 83.68), (8.25, 11.66, 7.41, 5.52)),
    ("heart", True, "II"): ((83.60, 83.74, 83.83, 84.24), (7.01, 11.98, 8.86, 7.17)),
    ("heart", False, "I"): ((81.04, 79.94, 82.01, 82.32), (6.94, 8.20, 8.33, 5.88)),
    ("heart", False, "II"): ((81.77, 83.78, 79.83, 80.87), (9.06, 11.59, 7.69, 5.53)),
    ("breast", True, "I"): ((78.28, 86.45, 69.87, 73.22), (12.04, 16.98, 12.65, 13.89)),
    ("breast", True, "II"): ((78.94, 87.00, 70.76, 74.52), (6.95, 11.01, 9.36, 9.50)),
    ("breast", False, "I"): ((76.00, 76.91, 74.10, 76.18), (10.67, 12.33, 12.58, 13.99)),
    ("breast", False, "II"): ((78.92, 89.30, 68.54, 73.34), (9.64, 10.95, 10.21, 11.90)),
}

# tab:comparison1: method -> accuracy, sensitivity, specificity, precision (recall is sensitivity), heart then breast.
# Methods have the names of our tables; the paper does not state which classifier it applies to BCM's mixtures.
COMPARISON: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = {
    "Model I": ((0.83, 0.82, 0.83, 0.84), (0.78, 0.86, 0.70, 0.73)),
    "Model II": ((0.84, 0.84, 0.84, 0.84), (0.79, 0.87, 0.71, 0.75)),
    "BCM (S=4, alpha=0.01)": ((0.80, 0.86, 0.74, 0.78), (0.76, 0.93, 0.60, 0.69)),
    "BCM (S=4, alpha=1)": ((0.82, 0.85, 0.80, 0.81), (0.75, 0.82, 0.68, 0.72)),
    "BCM (S=8, alpha=0.01)": ((0.63, 0.53, 0.75, 0.64), (0.68, 0.97, 0.40, 0.62)),
    "BCM (S=8, alpha=1)": ((0.78, 0.80, 0.77, 0.78), (0.77, 0.84, 0.71, 0.75)),
    "logistic regression": ((0.82, 0.84, 0.80, 0.81), (0.77, 0.89, 0.66, 0.72)),
    "KNN (30)": ((0.83, 0.85, 0.82, 0.83), (0.76, 0.99, 0.54, 0.68)),
    "KNN (20)": ((0.82, 0.86, 0.79, 0.80), (0.76, 0.96, 0.56, 0.69)),
    "KNN (10)": ((0.81, 0.82, 0.80, 0.81), (0.75, 0.99, 0.53, 0.68)),
    "KNN (5)": ((0.81, 0.82, 0.81, 0.81), (0.73, 0.90, 0.57, 0.67)),
    "KNN (1)": ((0.76, 0.74, 0.78, 0.77), (0.68, 0.70, 0.65, 0.66)),
    "random forest (5)": ((0.78, 0.79, 0.77, 0.78), (0.78, 0.85, 0.72, 0.75)),
    "random forest (10)": ((0.80, 0.81, 0.79, 0.80), (0.74, 0.80, 0.68, 0.71)),
    "random forest (100)": ((0.83, 0.84, 0.82, 0.83), (0.78, 0.87, 0.70, 0.74)),
    "decision tree": ((0.75, 0.77, 0.72, 0.76), (0.73, 0.70, 0.75, 0.73)),
    "SVM": ((0.81, 0.85, 0.76, 0.79), (0.79, 1.00, 0.59, 0.71)),
    "AdaBoost (100, trees)": ((0.82, 0.80, 0.84, 0.83), (0.77, 0.90, 0.65, 0.72)),
    "AdaBoost (50, trees)": ((0.82, 0.81, 0.84, 0.84), (0.79, 0.93, 0.65, 0.73)),
    "AdaBoost (10, trees)": ((0.83, 0.81, 0.84, 0.84), (0.79, 0.99, 0.60, 0.71)),
    "AdaBoost (5, trees)": ((0.80, 0.81, 0.78, 0.80), (0.76, 0.91, 0.62, 0.70)),
    "AdaBoost (100, discriminants)": ((0.81, 0.85, 0.77, 0.79), (0.77, 0.90, 0.65, 0.72)),
    "AdaBoost (50, discriminants)": ((0.81, 0.85, 0.77, 0.79), (0.77, 0.90, 0.65, 0.72)),
    "AdaBoost (10, discriminants)": ((0.81, 0.85, 0.77, 0.79), (0.78, 0.91, 0.66, 0.73)),
    "AdaBoost (5, discriminants)": ((0.81, 0.85, 0.77, 0.79), (0.78, 0.91, 0.65, 0.72)),
}

# tab:readres: method -> accuracy, sensitivity, specificity, precision, F-measure in percent (recall is sensitivity).
READMISSION: dict[str, tuple[float, float, float, float, float]] = {
    "Model I": (74.50, 84.97, 64.05, 70.58, 79.26),
    "Model II": (75.4, 82.7, 68.0, 72.6, 79.1),
    "BCM (S=4, alpha=1)": (76.80, 85.99, 67.73, 72.73, 78.74),
    "BCM (S=8, alpha=1)": (77.30, 87.40, 67.30, 72.79, 79.36),
    "logistic regression": (75.9, 78.5, 73.2, 74.5, 76.4),
    "KNN (30)": (62.3, 96.1, 28.7, 57.5, 71.8),
    "KNN (20)": (63.1, 96.5, 29.8, 58.0, 72.4),
    "KNN (10)": (64.1, 95.4, 32.9, 59.0, 72.7),
    "KNN (5)": (67.3, 92.7, 42.3, 61.8, 73.9),
    "KNN (1)": (66.9, 88.0, 45.9, 62.0, 72.6),
    "random forest (5)": (78.8, 83.2, 74.4, 76.7, 79.6),
    "random forest (10)": (80.6, 84.6, 76.5, 78.5, 81.4),
    "random forest (100)": (83.1, 85.7, 80.5, 81.7, 83.6),
    "decision tree": (77.9, 78.9, 76.9, 77.5, 78.1),
    "SVM": (67.0, 88.2, 45.6, 65.6, 73.6),
    "AdaBoost (100, trees)": (79.3, 82.4, 75.9, 77.9, 80.0),
    "AdaBoost (50, trees)": (78.7, 83.0, 74.2, 76.7, 79.6),
    "AdaBoost (10, trees)": (75.0, 82.6, 67.5, 72.3, 76.7),
    "AdaBoost (5, trees)": (72.4, 84.7, 60.0, 68.5, 75.3),
    "AdaBoost (100, discriminants)": (74.3, 79.7, 68.7, 72.1, 75.5),
    "AdaBoost (50, discriminants)": (74.3, 79.7, 68.7, 72.1, 75.5),
    "AdaBoost (10, discriminants)": (74.3, 79.7, 68.7, 72.1, 75.5),
    "AdaBoost (5, discriminants)": (74.3, 79.7, 68.7, 72.1, 75.5),
}

# fig:sample1 (a table): the patient in the paper's codes, numbered from 1 in the order of tab:heart.
SAMPLE_PATIENT = (2, 1, 3, 2, 3, 1, 1, 3, 2, 2, 2, 1, 2)
SAMPLE_PATIENT_IS_ILL = True  # "True Health" 2


def measures_of(cohort: str, method: str) -> dict[str, float]:
    """The paper's results for a method, as fractions; empty if there are none.

    >>> measures_of("heart", "Model II")["accuracy"], measures_of("heart", "naive Bayes")
    (0.84, {})
    """
    if cohort.startswith("readmission"):
        row = READMISSION.get(method, ())
        return {name: round(value / 100.0, 4) for name, value in zip(MEASURES, row, strict=False)}
    pair = COMPARISON.get(method)
    if pair is None or cohort not in ("heart", "breast"):
        return {}
    return dict(zip(MEASURES, pair[cohort == "breast"], strict=False))


def results_of(cohort: str, supervised: bool, model: str) -> dict[str, float]:
    """The means in the paper's tables of results, as fractions; empty if there are none (Model III)."""
    means, _ = PRINTED.get((cohort, supervised, model), ((), ()))
    return {name: round(value / 100.0, 4) for name, value in zip(MEASURES, means, strict=False)}
