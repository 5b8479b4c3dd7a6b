"""What a file without its past cases tells about them: what docs/privacy.md says, and nothing else."""

import copy
import json
from dataclasses import fields, is_dataclass, replace

import numpy as np
import pandas
import pytest
from safetensors.numpy import load as unpack

from bayespatch import PatchworkClassifier, PatchworkRegressor, PatchworkSurvival, load
from bayespatch.leave_one_out import LeaveOneOutVotes
from bayespatch.persistence.atomic import StorageError
from bayespatch.persistence.contents import STORED, Stored
from bayespatch.persistence.model_file import MissingCases
from bayespatch.sampling.posterior import Posterior
from tests.persistence.damage import taken_apart
from tests.persistence.fitted import SHORT, fit

N = 23  # a prime, and no other size of the model


def patients(stretch=1.0, words=("keine", "starke", "wenige"), name="P"):
    """Numbers that nobody else has, texts, identifiers; `stretch` changes every number and the order of none."""
    rng = np.random.default_rng(3)
    age, dose = rng.normal(60, 10, N), rng.lognormal(0, 1, N)
    return pandas.DataFrame(
        {
            "age": stretch * age + 0.1 * (stretch - 1) * age**3,
            "dose": stretch * dose**stretch,
            "pain": [sorted(words)[k] for k in rng.integers(0, 3, N)],
            "count": np.round(stretch * rng.integers(0, 3, N)) + 0.0,
        },
        index=pandas.Index([f"{name}-{k}" for k in range(N)], name="patient"),
    )


def outcomes(stretch=1.0):
    return stretch * np.random.default_rng(4).normal(7.0, 1.0, N)


CLASSES = pandas.Series(np.random.default_rng(4).integers(0, 2, N), name="sick")


@pytest.fixture(scope="module")
def models():
    classifier = fit(PatchworkClassifier(parents=7, **SHORT), patients(), CLASSES.to_numpy())
    survival = PatchworkSurvival(chains=2, draws=6, random_state=0, n_jobs=1)
    times = np.array([(k % 3 > 0, 7.0 + k) for k in range(N)], dtype=[("died", bool), ("days", float)])
    return {
        "classifier": classifier,
        "regressor": fit(PatchworkRegressor(**SHORT), patients(), outcomes()),
        "survival": fit(survival, patients(), times),
    }


def without_cases(model, path):
    model.save(path, with_cases=False)
    manifest, parts = taken_apart(path.read_bytes())
    return manifest, parts


# The table


def names_of(model):
    """Every field of the fitted model; of objects that hold arrays, every field of theirs."""
    for part in fields(model.fitted_):
        value = getattr(model.fitted_, part.name)
        if isinstance(value, Posterior | LeaveOneOutVotes):
            inner = [field.name for field in fields(value)] if is_dataclass(value) else value._fields
            yield from (f"{part.name}.{name}" for name in inner)
        else:
            yield part.name


def test_the_table_lists_every_field_of_a_fitted_model_and_no_other(models):
    assert set().union(*map(names_of, models.values())) == set(STORED)


def test_fields_stored_without_the_cases_are_named_here():
    """A new field is private unless someone decides otherwise, here too."""
    always = {name for name, place in STORED.items() if place is Stored.ALWAYS}
    assert always == {
        *("calibration", "classes", "feature_names", "pool", "target", "tuning"),
        *(
            "posterior.compares_missing",
            "posterior.efficiency",
            "posterior.log_weights",
            "posterior.model",
            "posterior.q",
        ),
        *("posterior.settings", "posterior.steps", "posterior.timing"),
    }


def test_a_loaded_model_without_its_cases_has_only_what_the_table_says(models, tmp_path):
    for name, model in models.items():
        model.save(tmp_path / name, with_cases=False)
        loaded = load(tmp_path / name)
        for attribute, kept in STORED.items():
            first, _, rest = attribute.partition(".")
            if hasattr(loaded.fitted_, first):
                value = getattr(loaded.fitted_, first)
                value = getattr(value, rest) if rest else value
                assert isinstance(value, MissingCases) == (kept is Stored.WITH_CASES), attribute
        assert np.array_equal(loaded.posterior_.q, model.posterior_.q)


# The statement of docs/privacy.md


def test_nothing_in_the_file_belongs_to_a_row(models, tmp_path):
    """No array has a place for each row, each case, each parent or each case left out."""
    for name, model in models.items():
        manifest, parts = without_cases(model, tmp_path / name)
        assert list(parts) == ["arrays"]
        shapes = {array: values.shape for array, values in unpack(parts["arrays"]).items()}
        sizes = manifest["sizes"]
        closed = {"posterior.log_weights": (sizes["C"], sizes["D"], sizes["K"])} if sizes["K"] else {}
        closed |= {"posterior.compares_missing": (sizes["P"],), "posterior.efficiency": (1,)} if sizes["K"] else {}
        assert shapes == {
            "posterior.q": (sizes["C"], sizes["D"], sizes["P"]),
            "posterior.steps": (sizes["C"], sizes["T"], sizes["P"] + 2),
            **closed,
        }
        per_row = {sizes[letter] for letter in "nNSR"}
        lengths = []

        def walk(value, lengths=lengths):
            if isinstance(value, list):
                lengths.append(len(value))
            for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
                walk(part)

        walk({key: value for key, value in manifest.items() if key != "tuning"})  # a list of trials
        assert per_row.isdisjoint(lengths)


@pytest.mark.parametrize("estimator", [PatchworkClassifier, PatchworkRegressor])
def test_of_the_values_nothing_but_what_predictions_depend_on_is_in_the_file(estimator, tmp_path):
    """Every number another (in the same order), every word another, every identifier: the very same file.

    The model compares ranks, so its predictions of rows changed in the same way are the same. An attacker who knows the
    file and all of a row but one value therefore learns nothing about that value that these predictions do not tell.
    Only the checksum differs, which depends on random bytes as well, the seconds that the fit took, and the five
    numbers of the pool: how well the second opinion, which sees the numbers themselves, has predicted on average.
    """
    found = []
    tables = [(1.0, ("keine", "starke", "wenige"), "P"), (1.7, ("aqua", "bora", "cyan"), "Q")]
    for k, (stretch, words, name) in enumerate(tables):
        X = patients(stretch, words, name)
        y = CLASSES.to_numpy() if estimator is PatchworkClassifier else outcomes(stretch)
        model = fit(estimator(**SHORT), X, y)
        manifest, parts = without_cases(model, tmp_path / str(k))
        pool = None if manifest["pool"] is None else sorted(manifest["pool"])  # five means over all rows
        found.append(({**manifest, "timing": None, "cases_sha256": None, "pool": pool}, parts))
        told = json.dumps(manifest, ensure_ascii=False)
        assert not any(word in told for word in (*X["pain"], *X.index))
    assert found[0] == found[1]


def test_no_value_is_a_number_of_the_file(models, tmp_path):
    X = patients()
    own = np.concatenate([X["age"], X["dose"], outcomes()])
    for name, model in models.items():
        manifest, parts = without_cases(model, tmp_path / name)
        numbers = [np.asarray(array, float).ravel() for array in unpack(parts["arrays"]).values()]

        def walk(value, numbers=numbers):
            if isinstance(value, float):
                numbers.append(np.array([value]))
            for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
                walk(part)

        walk(manifest)
        stored = np.sort(np.concatenate(numbers))
        near = np.abs(stored[np.searchsorted(stored, own).clip(1, len(stored) - 1)[:, None] + [-1, 0]] - own[:, None])
        assert near.min() > 1e-9


def test_the_checksum_cannot_be_guessed(models, tmp_path):
    """Someone who knows every value, every vote and every draw, but not the random bytes, cannot confirm a guess."""
    model = models["classifier"]
    manifest, _ = without_cases(model, tmp_path / "a")
    guess = copy.copy(model)
    guess.fitted_ = replace(model.fitted_, salt=bytes(32))
    assert without_cases(guess, tmp_path / "b")[0]["cases_sha256"] != manifest["cases_sha256"]
    again = fit(PatchworkClassifier(parents=7, **SHORT), patients(), CLASSES.to_numpy())
    assert np.array_equal(again.posterior_.q_tilde, model.posterior_.q_tilde)
    assert without_cases(again, tmp_path / "c")[0]["cases_sha256"] != manifest["cases_sha256"]
    assert len(set(model.fitted_.salt)) > 10
    blob = (tmp_path / "a").read_bytes()
    assert model.fitted_.salt not in blob
    assert model.fitted_.salt.hex().encode() not in blob


def test_cases_of_another_fit_to_the_same_table_are_refused(models, tmp_path):
    models["classifier"].save(tmp_path / "one", cases_path=tmp_path / "cases of one")
    again = fit(PatchworkClassifier(parents=7, **SHORT), patients(), CLASSES.to_numpy())
    again.save(tmp_path / "two", cases_path=tmp_path / "cases of two")
    with pytest.raises(StorageError, match="past cases of another model"):
        load(tmp_path / "one", cases=tmp_path / "cases of two")
