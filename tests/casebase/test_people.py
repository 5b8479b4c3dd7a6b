"""People, sessions, tokens, keys and the worklist, on both databases."""

from __future__ import annotations

import json
import random
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict

import pytest
from sqlalchemy import text

from bayespatch.casebase.errors import CaseBaseError, ConflictError, NotFoundError
from bayespatch.casebase.people import hash_of
from tests.casebase.clinic import BY, patient


@pytest.fixture
def someone():
    return patient(random.Random(5))


def test_people_sessions_and_tokens(base):
    people = base.people
    link = people.invite("Sam", "steward", by=BY)
    assert people.invited(link) == "Sam"
    assert people.invited("forged") is None
    assert people.accept(link, "hash").may("steward")
    with pytest.raises(NotFoundError, match="has been used"):
        people.accept(link, "hash")
    people.accept(people.invite("Roe", "clinician", by="Sam"), "hash")
    session = people.sign_in("Roe")
    assert people.of_session(session).name == "Roe"
    assert not people.of_session(session).may("steward")
    token = people.new_token("Roe", label="ward", scope="viewer", days=3, by="Roe")
    assert people.of_token(token).role == "viewer"
    with pytest.raises(CaseBaseError, match="cannot have a token"):
        people.new_token("Roe", label="ward", scope="steward", days=3, by="Roe")
    [known] = people.tokens("Roe")
    with pytest.raises(NotFoundError):
        people.revoke(known.id, by="x", of="Sam")
    people.revoke(known.id, by="Roe", of="Roe")
    assert people.of_token(token) is None
    people.set_role("Roe", "viewer", by="Sam")
    assert people.of_session(session).role == "viewer"
    people.accept(people.invite("Roe", "viewer", by="Sam"), "another hash")
    assert people.of_session(session) is None, "a new password ends what was begun with the old one"
    people.disable("Roe", by="Sam")
    people.enable("Roe", by="Sam")
    for change in (lambda: people.disable("Sam", by="Sam"), lambda: people.set_role("Sam", "viewer", by="Sam")):
        with pytest.raises(ConflictError, match="only steward"):
            change()
    people.sign_out(people.sign_in("Sam"))
    assert base.verify_audit().intact
    said = str([asdict(entry) for entry in base.audit(limit=1000)])
    assert all(secret not in said for secret in (link, session, token))


def test_whoever_is_disabled_does_not_return_through_a_link(base):
    people = base.people
    people.accept(people.invite("Sam", "steward", by=BY), "hash")
    people.accept(people.invite("Roe", "clinician", by="Sam"), "hash")
    link = people.invite("Roe", "clinician", by="Sam")
    people.disable("Roe", by="Sam")
    assert people.invited(link) is None
    with pytest.raises(NotFoundError, match="has been used"):
        people.accept(link, "another hash")
    with pytest.raises(ConflictError, match="disabled"):
        people.invite("Roe", "clinician", by="Sam")
    with pytest.raises(ConflictError, match="disabled"):
        people.sign_in("Roe")
    assert people.find("Roe").disabled_at is not None
    people.enable("Roe", by="Sam")
    assert people.invited(link) is None, "the link ended with the account"


def test_a_link_made_before_disabling_is_refused_even_if_it_is_still_there(base, monkeypatch):
    """As after a restore, or a race between the two."""
    people = base.people
    people.accept(people.invite("Sam", "steward", by=BY), "hash")
    people.accept(people.invite("Roe", "clinician", by="Sam"), "hash")
    link = people.invite("Roe", "clinician", by="Sam")
    with base._database.unaudited() as connection:
        connection.execute(text("UPDATE users SET disabled_at = '2026-01-01T00:00:00.000000Z' WHERE name = 'Roe'"))
    assert people.invited(link) is None
    with pytest.raises(NotFoundError):
        people.accept(link, "another hash")


def test_invitations_are_listed_and_withdrawn(base):
    people = base.people
    link = people.invite("Roe", "clinician", by=BY)
    [pending] = people.invitations()
    assert (pending.user, pending.role) == ("Roe", "clinician")
    assert link not in str(pending)
    people.withdraw("Roe", by=BY)
    assert people.invitations() == []
    assert people.invited(link) is None
    with pytest.raises(NotFoundError, match="no pending invitation"):
        people.withdraw("Roe", by=BY)
    assert base.audit(limit=1)[0].details == {"person": "Roe", "invitation": True}


def test_a_new_password_ends_sessions_and_tokens(base):
    people = base.people
    people.accept(people.invite("Roe", "clinician", by=BY), "hash")
    session, token = people.sign_in("Roe"), people.new_token("Roe", label="x", scope="viewer", days=3, by="Roe")
    people.accept(people.invite("Roe", "clinician", by=BY), "another hash")
    assert people.of_session(session) is None
    assert people.of_token(token) is None


@pytest.mark.parametrize("name", ["", " ", "bayespatch", " Roe", "x" * 300, "a\nb"])
def test_names_that_nobody_has(base, name):
    with pytest.raises(CaseBaseError):
        base.people.invite(name, "viewer", by=BY)


def test_the_worklist(base, someone):
    first, second, third = (base.consult(someone, by=BY) for _ in range(3))
    base.decide(second.id, second.predicted, by=BY)
    base.outcome(third.case_id, "sick", by=BY)
    found = base.worklist(by=BY)
    assert [item.id for item in found.items] == [third.id, second.id, first.id]
    assert [item.waiting_for for item in found.items] == ["retention", "outcome", "decision"]
    assert found.items[2].predicted == first.predicted
    assert found.items[2].probabilities == pytest.approx(first.explanation["prediction"]["probabilities"])
    for waiting, seen in (("decision", first), ("outcome", second), ("retention", third)):
        assert [item.id for item in base.worklist(by=BY, waiting_for=waiting).items] == [seen.id]
    again = base.consult(someone, by=BY, case=first.case_id)
    assert [item.id for item in base.worklist(by=BY, limit=1).items] == [again.id]
    assert base.worklist(by=BY, limit=1).total == 3
    base.retain(by=BY)
    assert base.worklist(by=BY).total == 2
    with pytest.raises(CaseBaseError, match="waiting_for"):
        base.worklist(by=BY, waiting_for="godot")


def test_a_key_does_it_once(base, someone):
    one, two = (base.consult(someone, by=BY, key="k") for _ in range(2))
    assert one == two
    assert base.search(state="open", by=BY).total == 1
    with pytest.raises(ConflictError, match="a different request"):
        base.consult({**someone, "age": 3}, by=BY, key="k")
    assert base.consult(someone, by="other", key="k").id != one.id
    assert base.decide(one.id, "well", by=BY, reason="r", key="k") == base.decide(
        one.id, "well", by=BY, reason="r", key="k"
    )
    assert base.outcome(one.case_id, "well", by=BY, key="k") == base.outcome(one.case_id, "well", by=BY, key="k")
    with pytest.raises(CaseBaseError, match="a key has"):
        base.consult(someone, by=BY, key="")
    base.forget(one.case_id, "asked for it", by=BY)
    with pytest.raises(NotFoundError):
        base.consult(someone, by=BY, key="k")
    assert base.verify_audit().intact


def test_states_and_tokens_count_once_at_the_same_moment(base):
    for round_ in range(10):
        state, _ = base.identities.begin("browser", "/", "sign in")
        with ThreadPoolExecutor(8) as pool:
            taken = list(pool.map(lambda _, state=state: base.identities.take(state, "browser"), range(8)))
            used = list(pool.map(lambda _, k=round_: base.identities.first_use("issuer", f"token {k}"), range(8)))
        assert sum(one is not None for one in taken) == 1
        assert used.count(True) == 1


def test_an_id_of_a_token_counts_once(base):
    """Also after expired ids were deleted, which happens once in 256 times."""
    first_use, issuer = base.identities.first_use, "https://ehr.example"
    assert first_use(issuer, "one")
    assert first_use("https://other.example", "one")
    names = (f"token {k}" for k in range(100_000))
    cleaning = next(name for name in names if hash_of(json.dumps(["token", issuer, name])).startswith("00"))
    assert first_use(issuer, cleaning)
    assert not first_use(issuer, cleaning)
    assert not first_use(issuer, "one")


def test_explain_names_who_was_shown(base, someone):
    version, why = base.ask(someone, by=BY)
    entry = base.audit(action="ask")[0]
    assert entry.details["version"] == version
    assert set(entry.details["shown"]) >= {int(part["id"]) for part in why["neighbors"]}
    past = base.explain_past(3, by=BY)
    assert past["case"]["id"] == "3"
    assert base.neighbor_of(3, by=BY, most=3)
