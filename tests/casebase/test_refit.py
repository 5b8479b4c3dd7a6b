"""A refit runs in a process of its own, can be killed, goes on, and never brings back who was forgotten."""

import io
import json
import os
import signal
import time

import numpy as np
import pytest

from bayespatch.casebase import CaseBaseError
from bayespatch.casebase import refit as refitting
from bayespatch.casebase.comparison import LeaveOneOutPredictions, metrics
from bayespatch.sampling.checkpoint import Checkpoint
from tests.casebase.clinic import BY
from tests.casebase.invariants import check
from tests.casebase.test_cycle import refit
from tests.casebase.test_database import in_a_process


def test_a_refit_that_is_killed_goes_on_and_gives_the_same_model(sqlite_places, monkeypatch):
    """Killed at its third checkpoint; the model is the one of a refit that nobody disturbed."""
    with sqlite_places.open(sqlite_places.copy()) as undisturbed:
        refit(undisturbed, draws=16, votes="sampled")
        expected = _version(undisturbed, 2).posterior_
    url = sqlite_places.copy()
    save, n_saved = Checkpoint._save, []

    def killing(self, run):
        save(self, run)
        n_saved.append(run.n_swept[0])
        if len(n_saved) == 3:
            os.kill(os.getpid(), signal.SIGKILL)

    def work():
        Checkpoint.meet = killing
        with sqlite_places.open(url) as base:
            refit(base, draws=16, votes="sampled")

    _, status = os.waitpid(in_a_process(work), 0)
    assert os.WTERMSIG(status) == signal.SIGKILL
    with sqlite_places.open(url) as base:
        assert [model.version for model in base.models()] == [1]
        check(base)
        [folder] = base._database.folder.glob("refit-*")
        resume, resumed = Checkpoint.resume, []

        def spy(self, run):
            resume(self, run)
            resumed.append((self.folder, run.n_swept[0]))

        monkeypatch.setattr(Checkpoint, "resume", spy)
        refit(base, draws=16, votes="sampled")
        assert resumed[0][0] == folder
        assert resumed[0][1] > 0
        assert not list(base._database.folder.glob("refit-*"))
        found = _version(base, 2).posterior_
        assert np.array_equal(found.q, expected.q)
        assert np.array_equal(found.q_tilde, expected.q_tilde)


def test_a_refit_runs_in_a_process_of_its_own_and_can_be_cancelled(sqlite_places):
    with sqlite_places.open(sqlite_places.copy()) as base:
        folder = base._database.folder
        process = base.refit(by=BY, wait=False, draws=10**6)
        try:
            deadline = time.monotonic() + 120
            while not (folder / "refit.lock").exists():
                assert process.running
                assert time.monotonic() < deadline
                time.sleep(0.01)
            with pytest.raises(CaseBaseError, match="another refit is running"):
                refit(base)
            base.forget(3, "asked for it", by=BY)  # what the one that runs has written is left alone
            assert process.running
        finally:
            process.cancel()
        assert not process.running
        with pytest.raises(CaseBaseError, match="ended early"):
            process.wait()
        assert [model.version for model in base.models()] == [1]
        model = base.refit(by="steward")
        assert (model.version, model.state, model.made_by) == (2, "offered", "steward")
        check(base)
        assert [path.name for path in folder.iterdir()] in ([], ["refit.lock"])


def test_checkpoints_are_deleted_unless_a_refit_runs(tmp_path):
    (tmp_path / "refit-checkpoint").mkdir()
    with refitting._alone(tmp_path):
        refitting.drop_checkpoints(tmp_path)
        assert (tmp_path / "refit-checkpoint").exists()
    refitting.drop_checkpoints(tmp_path)
    assert not (tmp_path / "refit-checkpoint").exists()
    refitting.drop_checkpoints(tmp_path / "nowhere")


def _version(base, version):
    from bayespatch.casebase import models

    with base._database.reading() as connection:
        model = models.find(connection, version)
        return models.read_model(connection, version, model.sha256, base._database.folder)


def test_a_refit_begins_where_the_active_model_ended(sqlite_places, monkeypatch):
    with sqlite_places.open(sqlite_places.copy()) as base:
        base.forget(4, "asked for it", by=BY)
        begun = []
        learn = refitting.PatchworkClassifier._beginning

        def spy(self, *args):
            begun.append(learn(self, *args))
            return begun[-1]

        monkeypatch.setattr(refitting.PatchworkClassifier, "_beginning", spy)
        base.promote(refit(base, votes="sampled").version, by=BY)
        last = base.model().posterior_
        refit(base, votes="sampled")
        assert begun[0] is None  # votes in closed form leave no chains to go on with
        assert np.array_equal(begun[1].q[:, 0], last.q[:, -1])
        assert np.array_equal(begun[1].q_tilde[:, 0], last.q_tilde[:, -1])  # each parent keeps its own


def test_who_is_forgotten_while_it_runs_is_not_in_what_it_finds(base, monkeypatch):
    fit = refitting.PatchworkClassifier.fit

    def forgets(self, X, y, **options):
        found = fit(self, X, y, **options)
        monkeypatch.undo()
        base.forget(7, "asked for it", by=BY)
        return found

    monkeypatch.setattr(refitting.PatchworkClassifier, "fit", forgets)
    model = refit(base)
    assert (model.n_cases, model.n_forgotten) == (29, 1)
    base.promote(model.version, by=BY)
    assert "7" not in base.model().ids_
    check(base)


def test_bad_parameters_are_told_in_one_sentence(sqlite_places, monkeypatch, capsys):
    with sqlite_places.open(sqlite_places.copy()) as base:
        with pytest.raises(CaseBaseError, match="must be strings or numbers"):
            base.refit(by=BY, draws=object())
        job = {"url": str(base._database.url), "folder": None, "timeout": 5, "key": None, "by": BY}
        job["parameters"] = {"drawz": 10}
        monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(job)))
        with pytest.raises(SystemExit, match="1"):
            refitting.main()
        said = capsys.readouterr().err.splitlines()
        assert len(said) == 1
        assert said[0].startswith("these are not parameters of the classifier")
        check(base)


def test_the_comparison_by_hand():
    old = LeaveOneOutPredictions(
        (1, 2, 3), np.array([[0.5, 0.5], [0.8, 0.2], [0.4, 0.6]]), np.array([0, 1, 1]), ("a", "b")
    )
    new = LeaveOneOutPredictions(
        (2, 3, 4), np.array([[0.4, 0.6], [0.2, 0.8], [0.9, 0.1]]), np.array([1, 1, 0]), ("a", "b")
    )
    found = metrics(new, old)
    gains = np.log([0.6 / 0.2, 0.8 / 0.6])
    both = found["both"]
    assert both["n"] == 2
    assert both["gain"] == pytest.approx(gains.mean())
    assert both["gain_error"] == pytest.approx(gains.std(ddof=1) / np.sqrt(2))
    assert both["changes"] == [{"case": 2, "old": "a", "new": "b", "outcome": "b"}]
    assert both["old"]["accuracy"] == 0.5
    assert found["new"]["brier"] == pytest.approx((0.4**2 + 0.2**2 + 0.1**2) / 3)
    bins = {row["from"]: row for row in found["new"]["calibration"]}
    assert bins[0.8] == {"from": 0.8, "to": 1.0, "n": 2, "predicted": pytest.approx(0.85), "observed": 1.0}
    assert metrics(new, None)["both"] is None
