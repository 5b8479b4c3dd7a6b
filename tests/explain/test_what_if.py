import json

import pytest

from bayespatch.explain import words
from tests.explain.fitted import BAD, fitted, table

NEW, _ = table(20, seed=9)
ROW = {"age": 40.5, "pain": "none", BAD: "red", "pulse": 70}


def test_both_explanations_and_what_changed():
    clf = fitted()
    found = clf.what_if(ROW, {"pain": "severe & lasting", "age": 63})
    assert found.changes == {"age": ("40.5", "63"), "pain": ("none", "severe & lasting")}
    assert found.before.to_dict() == clf.explain(ROW).to_dict()
    assert found.after.to_dict() == clf.explain({**ROW, "pain": 1, "age": 63}).to_dict()
    assert found.shift["sick <i>"] > 0.2
    assert sum(found.shift.values()) == pytest.approx(0, abs=1e-12)
    was, now = ([part.id for part in why.neighbors] for why in (found.before, found.after))
    (moves,) = [text for text in found.sentences() if text.startswith("Closest patients")]
    assert all((f"#{id}" in moves.partition("added")[2]) == (id not in was) for id in now)


def test_the_precedents_of_both_are_stated():
    texts = fitted().what_if(NEW.iloc[[2]], {"age": 30}).sentences()
    assert [text.partition(":")[0] for text in texts if "recedent" in text] == ["Precedent before", "Precedent after"]


def test_it_is_data_text_and_html():
    found = fitted().what_if(NEW.iloc[[2]], {"age": 30})
    data = found.to_dict()
    assert json.loads(json.dumps(data)) == data
    text = found.to_text()
    assert words.points(found.shift["well"]) in text
    assert str(found) == text
    assert "<script" not in found._repr_html_()


def test_wrong_wishes_are_refused():
    clf = fitted()
    with pytest.raises(ValueError, match="changes nothing"):
        clf.what_if(ROW, {})
    with pytest.raises(ValueError, match="no feature 'agee'"):
        clf.what_if(ROW, {"agee": 5})
    with pytest.raises(ValueError, match="'age' held number"):
        clf.what_if(ROW, {"age": "old"})
