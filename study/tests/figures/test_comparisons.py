import numpy as np
import pytest

from study.figures import PICTURES, comparisons
from study.figures.canvas import to_png
from study.tests.tiny import tables_of


@pytest.mark.parametrize("name", ["parents", "alpha", "shape", "rest"])
def test_sensitivity_shows_both_models_over_all_values(name):
    tables = tables_of(f"sensitivity-{name}")
    figure = comparisons.sensitivity_to(name, "label")(tables)
    values = list(dict.fromkeys(tables[f"sensitivity-{name}"].column("value")))
    for ax in figure.axes:
        assert len(ax.containers) == 2
        heights = ax.containers[0][0].get_ydata()
        assert len(heights) == len(values)
        assert np.isfinite(np.asarray(heights, dtype=float)).all()


def test_our_models_stand_above_the_case_model_in_reading_order():
    tables = tables_of("sensitivity-parents") | tables_of("others")
    figure = comparisons.bcm(tables)
    for ax in figure.axes:
        assert ax.yaxis_inverted()
    names = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert names[0] == "Model I, S=20"
    assert sum(name.startswith("BCM") for name in names) == 4


def test_knn_has_five_methods():
    figure = comparisons.knn(tables_of("knn"))
    assert [len(ax.containers) for ax in figure.axes] == [5, 5, 5, 5]


def test_trees():
    tables = tables_of("trees")
    ranking, knn = comparisons.tree_ranking(tables), comparisons.tree_knn(tables)
    assert len(ranking.axes[0].patches) == 26
    assert len(knn.axes[1].patches) == 10


def test_time_has_a_line_for_each_method():
    figure = comparisons.time_per_sweep(tables_of("time"))
    assert [line.get_label() for line in figure.axes[0].lines] == ["Model I", "Model II", "Model III", "BCM"]


def test_every_picture_can_be_drawn_from_the_tables_it_names():
    parts = ["heart", "breast", "patients", "importance", "ranked-features", "others", "knn", "sample-patient", "trees"]
    parts += ["time", *(f"sensitivity-{name}" for name in ("parents", "alpha", "shape", "rest"))]
    tables = {name: table for part in parts for name, table in tables_of(part).items()}
    assert len({picture.name for picture in PICTURES}) == len(PICTURES) == 15
    for picture in PICTURES:
        assert to_png(picture.draw({name: tables[name] for name in picture.needs}), "").startswith(b"\x89PNG")
