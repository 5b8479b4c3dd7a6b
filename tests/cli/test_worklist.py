import csv
import io

from tests.cli.program import call, document


def test_a_worklist_has_the_highest_risk_first(clinic):
    words = ["predict", clinic / "model.bpatch", clinic / "new.csv", "--id", "patient no.", "--worklist"]
    found = document(*words, "--json")["worklist"]
    assert len(found) == 5
    ratios = [line["risk"]["ratio"] for line in found]
    assert ratios == sorted(ratios, reverse=True)
    one = found[0]
    assert one["interval"][0] <= one["probability"] <= one["interval"][1]
    assert set(one["opinions"]) == {"precedents", "additive"}
    assert one["closest"]["id"].startswith("P-")
    rows = list(csv.DictReader(io.StringIO(call(*words).stdout)))
    assert [row["patient no."] for row in rows] == [line["id"] for line in found]
    assert {"low", "high", "by_past_cases", "by_risk_factors", "closest", "attention", "warnings"} <= set(rows[0])


def test_it_has_intervals_already(clinic):
    words = ["predict", clinic / "model.bpatch", clinic / "new.csv", "--worklist"]
    assert call(*words, "--intervals").exit_code == 2
