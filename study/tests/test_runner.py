import pytest

from study import run, runner
from study.parts import PARTS
from study.results import Results


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The quick study's part on decision trees, run twice into two folders; what was told the first time."""
    folders = [tmp_path_factory.mktemp("study") for _ in range(2)]
    told = []
    for folder in folders:
        run(folder, quick=True, only=["trees"], seed=5, tell=told.append)
    return folders, told


def test_the_same_seed_gives_the_same_tables(finished):
    (one, two), _ = finished
    names = sorted(path.name for path in (one / "tables").glob("*.csv"))
    assert names == ["tree-knn.csv", "tree-ranking.csv"]
    for name in names:
        assert (one / "tables" / name).read_bytes() == (two / "tables" / name).read_bytes()


def test_another_seed_gives_others(finished, tmp_path):
    (one, _), _ = finished
    run(tmp_path, quick=True, only=["trees"], seed=6, tell=lambda line: None)
    assert (one / "tables" / "tree-knn.csv").read_bytes() != (tmp_path / "tables" / "tree-knn.csv").read_bytes()


def test_tables_pictures_and_the_page_are_there(finished):
    (one, _), told = finished
    assert sorted(path.name for path in (one / "figures").iterdir()) == ["tree-knn.png", "tree-ranking.png"]
    page = (one / "README.md").read_text()
    assert "These are results of the quick study" in page
    assert "figures/tree-knn.png" in page
    assert any("[1/1] trees: Decision trees" in line for line in told)


def test_a_finished_part_is_not_run_again(finished, monkeypatch):
    (one, _), _ = finished
    calls = []
    part = next(found for found in PARTS if found.name == "trees")
    lazy = [type(part)(part.name, part.title, part.labels, lambda context: calls.append(1) or [], 1.0)]
    monkeypatch.setattr(runner, "PARTS", lazy)
    before = (one / "figures" / "tree-knn.png").stat().st_mtime_ns
    told = []
    run(one, quick=True, only=["trees"], seed=5, tell=told.append)
    assert calls == []
    assert told[0] == "1 of 1 parts are already finished"
    assert (one / "figures" / "tree-knn.png").stat().st_mtime_ns == before


def test_parts_before_an_interruption_are_kept(tmp_path, monkeypatch):
    from study.parts import Part
    from study.tables import Table

    def interrupted(context):
        raise KeyboardInterrupt

    good = Part("knn", "t", "l", lambda context: [Table("one", "", ("a",), [(1,)])], 1.0)
    monkeypatch.setattr(runner, "PARTS", (good, Part("trees", "t", "l", interrupted, 1.0)))
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, quick=True, tell=lambda line: None)
    assert Results(tmp_path).record(good) is not None
    assert Results(tmp_path)["one"].rows == [(1,)]


def test_readmission_without_its_table_is_skipped_with_a_message(tmp_path):
    told = []
    page = run(tmp_path, quick=True, only=["readmission"], tell=told.append)
    assert told[0] == "readmission: skipped because it needs the readmission table (pass its path)"
    assert "Not run: this part needs UCI's diabetic_data.csv" in page.read_text()


def test_an_estimate_is_given_for_the_full_study(tmp_path, monkeypatch):
    from study.parts import Part

    monkeypatch.setattr(runner, "PARTS", (Part("knn", "t", "l", lambda context: [], 120.0),))
    told = []
    run(tmp_path, tell=told.append)
    assert told[0] == "1 parts to run: about 2 minutes on two idle cores"
    with pytest.raises(ValueError, match="contains results of the full study"):
        run(tmp_path, quick=True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(only=["tree"]), "only='tree' is not valid; choose one of 'heart'"),
        (dict(readmission="nowhere.csv"), "readmission='nowhere.csv' is not a file"),
        (dict(seed=-1), "seed=-1 is too small"),
        (dict(quick=2), "quick=2 is neither True nor False"),
    ],
)
def test_bad_arguments_are_refused_before_any_work(tmp_path, options, message):
    with pytest.raises(ValueError, match=message):
        run(tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "out").write_text("")
    with pytest.raises(ValueError, match="is a file; pass a folder"):
        run(tmp_path / "out")
