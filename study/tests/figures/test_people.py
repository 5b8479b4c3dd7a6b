import numpy as np

from study.figures import people
from study.tests.tiny import N_PATIENTS, tables_of


def texts(ax):
    return [text.get_text() for text in ax.texts]


def test_every_test_case_is_a_point():
    tables = tables_of("heart") | tables_of("breast")
    figure = people.probabilities(tables)
    points = sum(len(c.get_offsets()) for ax in figure.axes[:3] for c in ax.collections)
    assert points == 3 * N_PATIENTS
    for ax in figure.axes:
        heights = np.concatenate([c.get_offsets()[:, 1] for c in ax.collections])
        assert ((heights >= 0) & (heights <= 1)).all()


def test_patients_are_shown_with_four_parents_in_codes():
    figures = {cohort: people.patients_of(cohort)(tables_of("patients")) for cohort in ("heart", "breast")}
    for figure, n_features in ((figures["heart"], 13), (figures["breast"], 9)):
        assert len(figure.axes) == 4
        for ax in figure.axes:
            assert [label.get_text() for label in ax.get_yticklabels()] == [
                "patient",
                *(f"parent {k}" for k in range(1, 5)),
            ]
            assert len(texts(ax)) == 5 * (2 * n_features + 1)  # codes, names, and the outcome
    outcomes = [texts(ax)[26] for ax in figures["heart"].axes]
    assert outcomes == ["ill", "ill", "well", "well"]


def test_one_patient_in_three_models():
    (ax,) = people.sample_patient(tables_of("sample-patient")).axes
    names = [label.get_text() for label in ax.get_yticklabels()]
    assert names[0] == "patient"
    assert names[-4:] == [f"Model II: parent {k}" for k in range(1, 5)]
    assert any(name.startswith("sparse BCM") and "prototype 1" in name for name in names)


def test_importance_says_whether_the_chains_have_mixed():
    figure = people.importance(tables_of("importance"))
    assert len(figure.axes) == 4
    assert all("R-hat" in ax.get_title() for ax in figure.axes)
    assert [label.get_text() for label in figure.axes[0].get_xticklabels()][:2] == ["age", "sex"]


def test_ranked_features_in_four_groups():
    figure = people.ranked_features(tables_of("ranked-features"))
    groups = [label.get_text() for label in figure.axes[0].get_xticklabels()]
    assert groups == ["top 3", "next 3", "3 after these", "all"]
    assert len(figure.axes[0].patches) == 8
