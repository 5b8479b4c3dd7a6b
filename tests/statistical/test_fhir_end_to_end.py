"""Synthetic records of 1,000 patients from the export to the decision: import, fit, hook, card, feedback, retention."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime, timedelta

import pytest
from sklearn.metrics import roc_auc_score

from bayespatch.casebase import CaseBase
from bayespatch.casebase.refit import learn
from bayespatch.fhir import Mapping, read_bulk, to_frame
from bayespatch.web import Settings, create_app
from bayespatch.web.demo import QUICK
from tests.fhir import test_malformed
from tests.fhir.synthetic import MAPPING, record, search, write_export
from tests.web.conftest import HOST
from tests.web.record_system import RecordSystem, hook, write_settings
from tests.web.test_cds_hooks import card_of, valid

N, NEW = 1000, 40
RECENT = datetime.now(UTC).date() - timedelta(days=300)  # new patients have findings of the last year


@pytest.fixture(scope="module")
def system(tmp_path_factory):
    """A server on the imported records, and the record system that asks it."""
    folder = tmp_path_factory.mktemp("hospital")
    mapping = Mapping.load(MAPPING)
    write_export(folder / "export", N)
    with CaseBase.open(folder / "clinic.db") as base:
        frame = to_frame(read_bulk(folder / "export", mapping), mapping)
        ids = base.import_cases(
            frame, by="data manager", target="infarction", id_column="patient", group_column="patient"
        )
        assert len(ids) == N
        base.promote(learn(base._database, "data manager", QUICK).version, by="data manager")
    systems = write_settings(folder, mapping=MAPPING)
    app = create_app(Settings(str(folder / "clinic.db"), record_systems=systems, rate=100_000))
    yield RecordSystem(app)
    app.state.service.close()


def patient_of(number: int):
    """A new patient's record, what a hook sends of it, and whether the infarction happens."""
    resources = record(number, seed=1, since=RECENT)
    templates = Mapping.load(MAPPING).prefetch()
    prefetch = {key: search(resources, template) for key, template in templates.items()}
    ill = any(one["code"]["coding"][0]["code"] == "22298006" for one in resources if "code" in one)
    return prefetch, ill


def fire(system, number, prefetch):
    return card_of(system.fire(who=f"p{number}", prefetch=prefetch, encounterId=f"e{number}"))


def test_from_the_export_to_the_decision(system):
    base = system.app.state.service.base
    services = valid(system.get("/cds-services").json(), "discovery")["services"]
    assert set(services[0]["prefetch"]) == {"patient", "observation", "condition", "medicationstatement"}
    predicted, happened = [], []
    for number in range(N, N + NEW):
        prefetch, ill = patient_of(number)
        card = fire(system, number, prefetch)
        seen, _, case = base.consultation(base.audit(action="consult", limit=1)[0].number, by="tester")
        assert case.external_id == f"ehr Encounter/e{number}"
        assert card["links"][0]["url"] == f"{HOST}/consultations/{seen.id}"
        predicted.append(seen.explanation["prediction"]["probabilities"]["yes"])
        happened.append(ill)
        agrees = (predicted[-1] > 0.5) == ill
        why = (
            {}
            if agrees
            else {"overrideReason": {"reason": card["overrideReasons"][0], "userComment": "seen at the bed"}}
        )
        assert system.feedback(card, "accepted" if agrees else "overridden", **why).status_code == 200
        _, decision, _ = base.consultation(seen.id, by="tester")
        assert (decision.agrees, decision.decided) == (agrees, "yes" if ill else "no")
        assert decision.reason == ("" if agrees else "seen at the bed")
        base.outcome(case.id, "yes" if ill else "no", by="registry")
    assert roc_auc_score(happened, predicted) > 0.7
    assert len(base.retain(by="registry")) == NEW
    assert base.search(state="past", by="tester").total == N + NEW
    prefetch, _ = patient_of(N)
    assert system.fire(who=f"p{N}", prefetch=prefetch, encounterId=f"e{N}").json() == {"cards": []}
    assert base.verify_audit().intact


def test_the_record_of_a_past_patient_has_no_vote_of_its_own(system):
    base = system.app.state.service.base
    prefetch = {
        key: search(record(3, since=RECENT), template) for key, template in Mapping.load(MAPPING).prefetch().items()
    }
    fire(system, 3, prefetch)
    seen, _, case = base.consultation(base.audit(action="consult", limit=1)[0].number, by="tester")
    assert case.patient == "p3"
    [past] = [one for one in base.search(state="past", limit=1000, by="tester").items if one.patient == "p3"]
    assert str(past.id) not in {part["id"] for part in seen.explanation["neighbors"]}


def test_malformed_bundles_are_refused_with_a_pointer(system):
    base = system.app.state.service.base
    before = len(base.audit(action="consult", limit=10_000))
    chosen = random.Random(0).sample(list(test_malformed.variations()), 500)
    prefetch = {key: {"resourceType": "Bundle", "type": "searchset"} for key in Mapping.load(MAPPING).prefetch()}
    name = next(
        entry["resource"]["id"]
        for entry in test_malformed.WHOLE["entry"]
        if entry["resource"]["resourceType"] == "Patient"
    )
    wrong = []
    for pointer, text in chosen:
        body = hook(who=name, prefetch={**prefetch, "patient": json.loads(text)})
        response = system.ask("/cds-services/patient-view", body)
        named = response.json().get("detail", "").partition(": ")[0].replace("prefetch.patient", "Bundle", 1)
        if response.status_code not in (412, 422) or not (pointer.startswith(named) or named.startswith(pointer)):
            wrong.append((pointer, response.status_code, response.text[:200]))
        elif not named.startswith("Bundle.entry"):
            wrong.append((pointer, named))
    assert wrong == []
    assert len(base.audit(action="consult", limit=10_000)) == before
