import copy
import json
import os
import pickle
import signal
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import fields, replace

import numpy as np
import pytest

import bayespatch
from bayespatch import PatchworkClassifier, load
from bayespatch.estimator.learning import ConstantColumnWarning
from bayespatch.persistence import atomic
from bayespatch.persistence.atomic import StorageError
from bayespatch.persistence.model_file import MissingCases, read_manifest
from bayespatch.persistence.registry import LOADABLE
from tests.persistence.damage import put_together, refused_all, taken_apart
from tests.persistence.fitted import FRAMES, REGRESSORS, SHORT, X, Y, fit, table, tiny, tiny_regressor

NEW = table(9, seed=7)
N_DAMAGED = 1500  # the slow tests damage 10,000


@pytest.fixture(scope="module")
def small():
    return tiny()


@pytest.fixture(scope="module")
def on_frame():
    return fit(PatchworkClassifier(**SHORT), X, Y)


@pytest.fixture
def blob(small, tmp_path):
    small.save(tmp_path / "whole.bpatch")
    return (tmp_path / "whole.bpatch").read_bytes()


def same(a, b):
    """Equal to the last bit, types included."""
    a, b = np.asarray(a), np.asarray(b)
    if a.dtype == object:
        return a.dtype == b.dtype and [(type(v), v) for v in a] == [(type(v), v) for v in b]
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


# There and back


@pytest.mark.parametrize("name", [*FRAMES, *REGRESSORS])
def test_a_loaded_model_is_the_saved_one(name, tmp_path, recwarn):
    estimator, X, y = {**FRAMES, **REGRESSORS}[name]
    saved = fit(estimator, X, y)
    numbers = name in REGRESSORS
    saved.save(tmp_path / "a.bpatch")
    loaded = load(tmp_path / "a.bpatch")

    new = NEW if hasattr(X, "columns") else X[:7]
    for method in ("predict", "predict_quantiles" if numbers else "predict_proba", "predict_interval"):
        assert same(getattr(loaded, method)(new), getattr(saved, method)(new))
    assert all(same(getattr(loaded.neighbors(new), k), v) for k, v in vars(saved.neighbors(new)).items())

    assert set(vars(loaded)) == set(vars(saved)), "a fitted attribute is not stored"
    assert type(loaded) is type(saved)
    assert loaded.schema_ == saved.schema_
    assert loaded.hyper_ == saved.hyper_
    assert loaded.calibration_ == saved.calibration_
    assert not numbers or loaded.kernel_density_ == saved.kernel_density_
    outcome = ("edges_", "outcomes_") if numbers else ("classes_",)
    for name in (*outcome, "parents_", "cases_", "x_", "y_", "feature_importances_"):
        assert same(getattr(loaded, name), getattr(saved, name))
    assert loaded.n_features_in_ == saved.n_features_in_
    if hasattr(saved, "feature_names_in_"):
        assert same(loaded.feature_names_in_, saved.feature_names_in_)
    for field in fields(saved.posterior_):
        value, kept = getattr(saved.posterior_, field.name), getattr(loaded.posterior_, field.name)
        assert same(kept, value) if isinstance(value, np.ndarray) else kept == value
    assert str(loaded.diagnostics_) == str(saved.diagnostics_)
    assert repr(loaded) == repr(saved)
    for name, value in saved.get_params().items():
        assert type(getattr(loaded, name)) is type(value)
        assert np.array_equal(getattr(loaded, name), value)

    loaded.save(tmp_path / "b.bpatch")
    assert (tmp_path / "a.bpatch").read_bytes() == (tmp_path / "b.bpatch").read_bytes()


def test_a_loaded_model_can_be_fitted_again(on_frame, tmp_path):
    on_frame.save(tmp_path / "a.bpatch")
    again = fit(load(tmp_path / "a.bpatch").set_params(warm_start=True), X, Y)
    assert again.posterior_.q.shape == on_frame.posterior_.q.shape


def test_what_was_kept_on_request_is_stored(on_frame, tmp_path):
    kept = copy.copy(on_frame)
    (n, s), p, m = on_frame.posterior_.z_mean.shape, 5, 2
    w, votes = np.full((n, s, p), 0.25, np.float32), np.full((2, 6, n, m), 0.5, np.float32)
    posterior = replace(on_frame.posterior_, kept_w_mean=w, kept_votes=votes)
    kept.fitted_ = replace(on_frame.fitted_, posterior=posterior)
    kept.save(tmp_path / "a.bpatch")
    loaded = load(tmp_path / "a.bpatch").posterior_
    assert same(loaded.w_mean, w)
    assert same(loaded.votes, votes)


def test_what_json_has_no_word_for_follows_the_rules(small, tmp_path):
    other = copy.copy(small).set_params(random_state=np.random.RandomState(3), progress=print)
    other.save(tmp_path / "a.bpatch")
    loaded = load(tmp_path / "a.bpatch")
    assert loaded.random_state is None
    assert loaded.progress is False
    assert same(loaded.predict_proba([["yes", 58]]), small.predict_proba([["yes", 58]]))
    with pytest.raises(StorageError, match=r"a\.bpatch.*parameter categorical=.*cannot be stored.*save again"):
        copy.copy(small).set_params(categorical=object()).save(tmp_path / "a.bpatch", overwrite=True)


def test_the_same_model_gives_the_same_bytes(small, blob, tmp_path):
    small.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == blob


def test_another_process_predicts_the_same(small, tmp_path):
    small.save(tmp_path / "a.bpatch")
    code = "import sys, bayespatch; print(bayespatch.load(sys.argv[1]).predict_proba([['yes', 58]]).tobytes().hex())"
    told = subprocess.run([sys.executable, "-c", code, tmp_path / "a.bpatch"], capture_output=True, check=True)
    assert told.stdout.decode().strip() == small.predict_proba([["yes", 58]]).tobytes().hex()


def test_the_manifest_can_be_read_by_itself(small, blob, tmp_path):
    manifest = read_manifest(tmp_path / "whole.bpatch")
    assert manifest == taken_apart(blob)[0]
    assert manifest["package"] == bayespatch.__version__
    assert manifest["sizes"]["S"] == 8
    assert json.dumps(manifest)


def test_what_can_be_loaded_is_registered():
    NAMES = ("PatchworkClassifier", "PatchworkRegressor", "PatchworkSurvival")
    assert {name: getattr(bayespatch, name) for name in NAMES} == LOADABLE


# Without the cases


def test_without_its_cases_a_model_says_that_it_cannot_predict(on_frame, tmp_path):
    on_frame.save(tmp_path / "model.bpatch", with_cases=False)
    on_frame.save(tmp_path / "whole.bpatch")
    loaded = load(tmp_path / "model.bpatch")
    assert same(loaded.posterior_.q, on_frame.posterior_.q)
    for ask in (loaded.predict, loaded.predict_proba, loaded.neighbors, loaded.predict_interval):
        with pytest.raises(StorageError, match=r"model\.bpatch.*without its past cases.*load\(path, cases=\.\.\.\)"):
            ask(NEW)
    with pytest.raises(StorageError, match="loaded without them"):
        loaded.save(tmp_path / "again.bpatch")
    loaded.save(tmp_path / "again.bpatch", with_cases=False)
    assert (tmp_path / "again.bpatch").read_bytes() == (tmp_path / "model.bpatch").read_bytes()
    assert same(load(tmp_path / "again.bpatch", cases=tmp_path / "whole.bpatch").predict(NEW), on_frame.predict(NEW))


def test_no_value_of_a_case_is_left_in_the_file(on_frame, tmp_path):
    on_frame.save(tmp_path / "model.bpatch", with_cases=False)
    manifest, parts = taken_apart((tmp_path / "model.bpatch").read_bytes())
    assert list(parts) == ["arrays"]
    assert [entry["name"] for entry in manifest["parts"]] == ["arrays"]
    for row in on_frame.x_:
        assert row.tobytes() not in parts["arrays"]


def test_the_outcomes_of_a_regressor_are_among_its_cases(tmp_path):
    saved = fit(*REGRESSORS["numbers"])
    saved.save(tmp_path / "model", cases_path=tmp_path / "cases")
    loaded = load(tmp_path / "model")
    assert isinstance(loaded.outcomes_, MissingCases)
    for ask in (loaded.predict, loaded.predict_quantiles, loaded.predict_interval):
        with pytest.raises(StorageError, match="without its past cases"):
            ask(NEW)
    assert same(load(tmp_path / "model", cases=tmp_path / "cases").predict(NEW), saved.predict(NEW))


def test_cases_can_be_stored_apart(on_frame, tmp_path):
    on_frame.save(tmp_path / "model.bpatch", cases_path=tmp_path / "cases.bpatch")
    whole = load(tmp_path / "model.bpatch", cases=tmp_path / "cases.bpatch")
    assert same(whole.predict_proba(NEW), on_frame.predict_proba(NEW))
    assert isinstance(load(tmp_path / "model.bpatch").x_, MissingCases)
    with pytest.raises(StorageError, match=r"cases\.bpatch.*contains the past cases.*as cases="):
        load(tmp_path / "cases.bpatch")
    with pytest.raises(StorageError, match=r"model\.bpatch.*contains no past cases"):
        load(tmp_path / "model.bpatch", cases=tmp_path / "model.bpatch")
    with pytest.raises(StorageError, match="no such file"):
        load(tmp_path / "model.bpatch", cases=tmp_path / "elsewhere.bpatch")


def test_a_folder_is_not_offered_to_be_replaced(small, tmp_path):
    with pytest.raises(StorageError, match="is a folder; pass the name of a file in it"):
        small.save(tmp_path)


@pytest.mark.parametrize("there", [False, True])
@pytest.mark.parametrize("step", ["open", "write", "fsync", "replace:1", "replace:2"])
def test_both_files_are_replaced_or_none(on_frame, small, tmp_path, monkeypatch, there, step):
    """A disk that is full at any step, the last included: the pair that was there, or none, can be loaded."""
    model, cases = tmp_path / "model.bpatch", tmp_path / "cases.bpatch"
    if there:
        small.save(model, cases_path=cases)
    fail_at(monkeypatch, step, cases.name)
    with pytest.raises(StorageError, match="No space left on device"):
        on_frame.save(model, cases_path=cases, overwrite=True)
    monkeypatch.undo()
    assert sorted(path.name for path in tmp_path.iterdir()) == (["cases.bpatch", "model.bpatch"] if there else [])
    if there:
        assert same(load(model, cases=cases).predict_proba([["yes", 58]]), small.predict_proba([["yes", 58]]))


def fail_at(monkeypatch, step, name):
    """No space is left when this step is taken for the file of this name."""
    step, _, call = step.partition(":")
    real, calls = getattr(os, "replace" if step == "replace" else "open" if step == "open" else "fsync"), []

    def full(*args, **kwargs):
        calls.append(args)
        if (step != "open" or name in str(args[0])) and (not call or len(calls) == int(call)):
            raise OSError(28, "No space left on device")
        return real(*args, **kwargs)

    if step == "write":
        real_created = atomic._created

        @contextmanager
        def created(path, *mode):
            with real_created(path, *mode) as file:
                yield FullDisk(file) if name in path else file

        monkeypatch.setattr(atomic, "_created", created)
    else:
        monkeypatch.setattr(os, step, full)


class FullDisk:
    """A file that takes a few bytes and no more."""

    def __init__(self, file):
        self.file = file

    def __getattr__(self, name):
        return getattr(self.file, name)

    def write(self, chunk):
        self.file.write(chunk[:100])
        raise OSError(28, "No space left on device")


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_killed_between_the_two_moves(on_frame, small, tmp_path):
    """The model has its name and the cases do not: they are found beside it, and the next save tidies up."""
    model, cases = tmp_path / "model.bpatch", tmp_path / "cases.bpatch"
    small.save(model, cases_path=cases)
    on_frame.save(tmp_path / "whole.bpatch")
    code = (
        "import os, signal, sys, bayespatch\n"
        "real, calls = os.replace, []\n"
        "def die(*args):\n"
        "    real(*args)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "model = bayespatch.load(sys.argv[1])\n"
        "os.replace = die\n"
        "model.save(sys.argv[2], cases_path=sys.argv[3], overwrite=True)\n"
    )
    killed = subprocess.run([sys.executable, "-c", code, tmp_path / "whole.bpatch", model, cases], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert same(load(model, cases=cases).predict(NEW), on_frame.predict(NEW))
    on_frame.save(model, cases_path=cases, overwrite=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cases.bpatch", "model.bpatch", "whole.bpatch"]
    assert same(load(model, cases=cases).predict(NEW), on_frame.predict(NEW))


def test_the_cases_of_another_model_are_refused(on_frame, small, tmp_path):
    on_frame.save(tmp_path / "model.bpatch", with_cases=False)
    small.save(tmp_path / "other.bpatch", cases_path=tmp_path / "cases.bpatch")
    with pytest.raises(StorageError, match=r"cases\.bpatch.*past cases of another model"):
        load(tmp_path / "model.bpatch", cases=tmp_path / "cases.bpatch")


def test_contradictory_wishes_are_refused(small, tmp_path):
    with pytest.raises(StorageError, match="contradict each other"):
        small.save(tmp_path / "a", with_cases=False, cases_path=tmp_path / "b")
    with pytest.raises(StorageError, match="choose different names"):
        small.save(tmp_path / "a", cases_path=tmp_path / "x" / ".." / "a")
    with pytest.raises(StorageError, match="with_cases='no'"):
        small.save(tmp_path / "a", with_cases="no")
    assert list(tmp_path.iterdir()) == []


def test_what_stands_for_the_cases_can_be_copied(small, tmp_path):
    small.save(tmp_path / "a", with_cases=False)
    loaded = load(tmp_path / "a")
    for other in (copy.deepcopy(loaded), pickle.loads(pickle.dumps(loaded))):
        with pytest.raises(StorageError, match="without its past cases"):
            other.predict([["yes", 58]])
    assert repr(loaded.x_) == "<past cases, left out>"
    with pytest.raises(StorageError):
        loaded.x_.shape
    with pytest.raises(StorageError):
        np.asarray(loaded.y_)


# What is refused


def test_damaged_files_are_refused(blob, tmp_path):
    assert refused_all(load, StorageError, tmp_path / "damaged", blob, N_DAMAGED, seed=1) == []


def test_damaged_files_of_regressors_are_refused(tmp_path):
    tiny_regressor().save(tmp_path / "whole")
    blob = (tmp_path / "whole").read_bytes()
    assert refused_all(load, StorageError, tmp_path / "damaged", blob, N_DAMAGED // 2, seed=2) == []


def test_a_classifier_is_not_taken_for_a_regressor(blob, tmp_path):
    tiny_regressor().save(tmp_path / "regressor")
    for whole, name in ((blob, "PatchworkRegressor"), ((tmp_path / "regressor").read_bytes(), "PatchworkClassifier")):
        manifest, parts = taken_apart(whole)
        (tmp_path / "forged").write_bytes(put_together({**manifest, "estimator": name}, parts))
        with pytest.raises(
            StorageError, match=r"not a valid model: (only classifiers have classes|the format of an array)"
        ):
            load(tmp_path / "forged")


def test_the_forger_of_these_tests_can_also_write_a_good_file(blob, tmp_path):
    (tmp_path / "good").write_bytes(put_together(*taken_apart(blob)))
    assert (tmp_path / "good").read_bytes() == blob


def test_what_is_not_fitted_is_not_saved(tmp_path):
    with pytest.raises(StorageError, match="call fit first"):
        PatchworkClassifier().save(tmp_path / "a")


def test_a_model_that_could_not_be_loaded_is_not_saved(small, tmp_path):
    broken = copy.copy(small)
    broken.fitted_ = replace(small.fitted_, y=small.y_ + 5)
    with pytest.raises(StorageError, match="cannot be saved: y holds"):
        broken.save(tmp_path / "a")
    broken = copy.copy(small).set_params(chains=-1)
    with pytest.raises(StorageError, match="chains=-1"):
        broken.save(tmp_path / "a")
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_executed_and_nothing_imported_that_the_file_names(blob, tmp_path):
    manifest, parts = taken_apart(blob)
    for name in ("os:system", "Pipeline", "LabelEncoder", "__init__"):
        (tmp_path / "forged").write_bytes(put_together({**manifest, "estimator": name}, parts))
        with pytest.raises(StorageError, match="choose one of 'PatchworkClassifier'"):
            load(tmp_path / "forged")
    (tmp_path / "pickle").write_bytes(pickle.dumps(os.getcwd))
    with pytest.raises(StorageError, match="not a bayespatch file"):
        load(tmp_path / "pickle")


def test_a_parameter_that_came_later_has_its_default(blob, tmp_path):
    manifest, parts = taken_apart(blob)
    del manifest["parameters"]["warm_start"]
    (tmp_path / "older").write_bytes(put_together(manifest, parts))
    assert load(tmp_path / "older").warm_start is False
    manifest["parameters"]["new_in_3000"] = 1
    (tmp_path / "newer").write_bytes(put_together(manifest, parts))
    with pytest.raises(StorageError, match="has no parameters new_in_3000"):
        load(tmp_path / "newer")


@pytest.mark.parametrize(
    ("missing", "gaps"), [("auto", True), ("category", True), ("category", False), ("error", False)]
)
def test_a_model_with_constant_columns_is_saved_and_loaded(tmp_path, missing, gaps):
    """No second-opinion terms are learned from columns that are not compared, and they have no codes."""
    rng = np.random.default_rng(0)
    number = rng.normal(size=(40, 1))
    X = np.column_stack([number, np.full(40, 3.0), [1.0] * 39 + [2.0], number])
    X[:12, 3] = np.nan if gaps else 0.0
    clf = PatchworkClassifier(random_state=0, chains=2, draws=20, missing=missing)
    with pytest.warns(ConstantColumnWarning):
        clf.fit(X, number[:, 0] + rng.normal(size=40) > 0)
    clf.save(tmp_path / "model.bpatch")
    np.testing.assert_array_equal(load(tmp_path / "model.bpatch").predict_proba(X), clf.predict_proba(X))
