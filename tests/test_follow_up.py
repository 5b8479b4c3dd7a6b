"""Follow-up columns: reading, summaries among voters, suppression."""

import json

import numpy as np
import pandas as pd
import pytest

from bayespatch.encode.table import read_table, split_columns
from bayespatch.follow_up import (
    LEAST_CASES,
    LEAST_EFFECTIVE,
    N_TIMES,
    FollowUp,
    FollowUpColumn,
    columns_of,
    follow_up_roles,
)
from bayespatch.survival import frequencies, kaplan_meier, weighted_quantiles

KINDS = {"drug": "treatment", "stay": "number", "days": ("time", "died"), "complication": None}


def frame(n=120, seed=0):
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "age": rng.integers(30, 80, n),
            "drug": rng.choice(["b", "a", "c"], n, p=[0.6, 0.36, 0.04]),
            "stay": rng.integers(1, 20, n).astype(float),
            "days": rng.exponential(300.0, n).round(),
            "died": rng.random(n) < 0.6,
            "complication": rng.choice(["none", "bleeding"], n),
        }
    )
    table.loc[[3, 7], "stay"] = np.nan
    table.loc[5, ["days", "died"]] = np.nan, False
    return table


def learn(table=None, kinds=KINDS):
    table = frame() if table is None else table
    roles = follow_up_roles(kinds)
    _, recorded = split_columns(table, columns_of(roles, list(table.columns)))
    return FollowUp.learn(read_table(recorded), roles)


def outcome(n=120):
    y = np.random.default_rng(1).integers(0, 2, n).astype(float)
    return FollowUpColumn("outcome", "category", "", "", "", ("well", "sick"), y, np.empty(0, np.int64))


def weights(n=120, seed=2):
    share = np.random.default_rng(seed).exponential(size=n)
    share[:20] = 0.0
    return share / share.sum()


def test_summaries_are_those_of_the_survival_module():
    table, w = frame(), weights()
    found = learn(table).summaries(w, 0.9)
    stay, known = table.stay.to_numpy(), table.stay.notna().to_numpy()
    q = weighted_quantiles(stay[known], [0.25, 0.5, 0.75], w[known], 0.9)
    assert found["stay"]["median"] == {"value": q.value[1], "low": q.lower[1], "high": q.upper[1]}
    assert found["stay"]["quartiles"] == [q.value[0], q.value[2]]
    assert found["stay"]["population"]["median"] == np.nanmedian(stay)
    assert found["stay"]["n"] == (known & (w > 0)).sum()
    codes = (table.complication == "none").to_numpy().astype(int)
    shares = frequencies(codes, 2, w, 0.9)
    rows = found["complication"]["shares"]
    assert [row["value"] for row in rows] == ["bleeding", "none"]
    np.testing.assert_allclose([row["share"] for row in rows], shares.share)
    np.testing.assert_allclose([row["low"] for row in rows], shares.lower)
    followed = table.days.notna().to_numpy()
    curve = kaplan_meier(table.days.to_numpy()[followed], table.died.to_numpy()[followed] > 0, w[followed], 0.9)
    times = found["days"]["curve"]["times"]
    np.testing.assert_allclose(found["days"]["curve"]["survival"], curve.at(times)[:, 0])
    np.testing.assert_allclose(found["days"]["curve"]["low"], curve.at(times)[:, 1])
    assert found["days"]["median"]["value"] == curve.median()[0]
    assert len(times) == N_TIMES
    assert found["days"]["n_events"] == (table.died & followed & (w > 0)).sum()
    assert list(found) == list(KINDS)
    json.dumps(found, allow_nan=False)


def test_curves_end_where_too_few_are_at_risk():
    table, w = frame(), weights()
    curve = learn(table).summaries(w, 0.9)["days"]["curve"]
    followed = (w > 0) & table.days.notna().to_numpy()
    days = table.days.to_numpy()
    assert (days[followed] >= curve["times"][-1]).sum() >= LEAST_CASES
    later = days[followed & (days > curve["times"][-1])].min()
    share = w[followed & (days >= later)]
    assert len(share) < LEAST_CASES or share.sum() ** 2 / (share @ share) < LEAST_EFFECTIVE
    assert curve["at_risk"][-1] >= LEAST_EFFECTIVE


def test_treatments_are_listed_by_name_with_what_became_of_each():
    table, w, result = frame(), weights(), outcome()
    found = learn(table).summaries(w, 0.9, result)["drug"]
    assert [row["treatment"] for row in found["treatments"]] == ["a", "b", "c"]
    assert "not assigned at random" in found["note"]
    np.testing.assert_allclose(sum(row["share"] for row in found["treatments"]), 1.0)
    a, b, c = found["treatments"]
    had = (table.drug == "a").to_numpy()
    shares = frequencies(result.values[had].astype(int), 2, w[had], 0.9)
    np.testing.assert_allclose([row["share"] for row in a["outcome"]["shares"]], shares.share)
    assert set(a["follow_up"]) == {"stay", "days", "complication"}
    assert b["n"] == ((table.drug == "b") & (w > 0)).sum()
    assert (c["n"], c["effective"], c["outcome"], c["follow_up"]) == (None, None, None, {})
    assert c["suppressed"] == "fewer than 10 past cases"
    # The total minus the sizes of a and b would be the size of c.
    assert (a["n"], a["effective"], a["population"]) == (None, None, None)


def test_sizes_of_treatments_are_shown_if_all_are_large():
    table = frame().assign(drug=np.where(np.arange(120) % 3 > 0, "a", "b"))
    rows = learn(table).summaries(np.ones(120), 0.9)["drug"]["treatments"]
    assert [(row["n"], row["population"]) for row in rows] == [(80, 2 / 3), (40, 1 / 3)]


@pytest.mark.parametrize(("n", "heavy", "why"), [(9, 1.0, "fewer than 10 past"), (60, 500.0, "fewer than 5 effective")])
def test_what_rests_on_few_past_cases_is_suppressed(n, heavy, why):
    w = np.zeros(120)
    w[30 : 30 + n] = 1.0
    w[30] = heavy
    found = learn().summaries(w, 0.9)
    for one in found.values():
        assert why in one["suppressed"]
        assert not {"median", "shares", "curve", "treatments", "note"} & set(one)


def test_competing_events_have_a_cumulative_incidence_each():
    table = frame()
    table["died"] = np.random.default_rng(3).integers(0, 3, len(table)).astype(float)
    table.loc[5, "died"] = 0.0
    table.attrs["labels"] = {"died": {1: "relapse", 2: "death"}}
    found = learn(table).summaries(weights(), 0.9)["days"]
    assert [one["event"] for one in found["incidence"]] == ["relapse", "death"]
    total = np.sum([one["incidence"] for one in found["incidence"]], axis=0)
    np.testing.assert_allclose(total, 1.0 - np.array(found["curve"]["survival"]), atol=1e-10)


def test_labels_units_and_order_come_from_the_table():
    table = frame()
    table["grade"] = np.random.default_rng(4).integers(1, 4, len(table))
    table["size"] = pd.Categorical(["large", "small"] * 60, ["small", "large"], ordered=True)
    table.attrs = {
        "labels": {"grade": {1: "low", 2: "middle", 3: "high"}},
        "descriptions": {"stay": "length of stay"},
        "units": {"stay": "days"},
    }
    found = learn(table, ["grade", "size", "stay"]).summaries(weights(), 0.9)
    assert [row["value"] for row in found["grade"]["shares"]] == ["low", "middle", "high"]
    assert [row["value"] for row in found["size"]["shares"]] == ["small", "large"]
    assert (found["stay"]["label"], found["stay"]["unit"]) == ("length of stay", "days")


def test_event_columns_are_not_summarized_by_themselves():
    assert [role.name for role in follow_up_roles(["died", "stay"])] == ["died", "stay"]
    roles = follow_up_roles({"days": ("time", "died"), "died": None})
    assert [role.name for role in roles] == ["days"]
    assert columns_of(roles, ["age", "days", "died"]) == ["days", "died"]


@pytest.mark.parametrize(
    ("change", "kinds", "complaint"),
    [
        ({}, {"drog": None}, "'drog', which is not in the table; did you mean 'drug'"),
        ({}, "drug", r"is a string; pass a list of columns, such as \['drug'\]"),
        ({}, {"days": "time"}, "is a time without an event"),
        ({}, {"drug": "therapy"}, "is not valid; choose one of"),
        ({}, {"drug": "number"}, "'drug' contains text, but its kind is 'number'"),
        ({"days": -1.0}, KINDS, "'days' has negative times: -1 in row 0"),
        ({"died": 0.5}, KINDS, "'died' has 0.5 in row 0"),
        ({"died": 0.0}, KINDS, "'died' has no event"),
        ({"died": "no"}, KINDS, "'died' contains text, such as 'no'"),
        ({"days": np.nan, "died": 1.0}, KINDS, "no finite time in row 0 although the event happened"),
        ({"stay": np.nan}, ["stay"], "'stay' is empty; drop it"),
        ({"drug": [str(k) for k in range(120)]}, KINDS, "'drug' has 120 different values"),
    ],
)
def test_bad_columns_are_refused_with_a_remedy(change, kinds, complaint):
    with pytest.raises(ValueError, match=complaint):
        learn(frame().assign(**change), kinds)


def test_stored_columns_come_back_and_a_row_can_be_removed():
    follow_up = learn()
    stored = json.loads(json.dumps(follow_up.to_dict()))
    again = FollowUp.from_stored(stored, follow_up.to_array(), 120)
    assert again.summaries(weights(), 0.8) == follow_up.summaries(weights(), 0.8)
    without, w = follow_up.without(40), weights()
    w[40] = 0.0
    one, other = without.summaries(np.delete(w, 40), 0.9), follow_up.summaries(w, 0.9)
    assert one["stay"]["median"] == other["stay"]["median"]
    assert one["drug"]["treatments"][0]["follow_up"]["days"]["median"] is not None


def test_names_that_only_the_removed_row_had_are_gone():
    table = frame().astype({"died": int})
    table.loc[7, ["drug", "days", "died"]] = ["experimental", 3.0, 2]
    follow_up = learn(table)
    assert "experimental" in json.dumps(follow_up.to_dict())
    assert "died 2" in json.dumps(follow_up.to_dict())
    rest = follow_up.without(7)
    assert "experimental" not in json.dumps(rest.to_dict())
    assert "died 2" not in json.dumps(rest.to_dict())
    again = FollowUp.from_stored(json.loads(json.dumps(rest.to_dict())), rest.to_array(), 119)

    def names(columns, place):
        drug = next(column for column in columns.columns if column.name == "drug")
        return [None if np.isnan(value) else drug.levels[int(value)] for value in np.delete(drug.values, place)]

    assert names(again, []) == names(follow_up, 7)


@pytest.mark.parametrize(
    "damage",
    [
        lambda d, v: (d[:-1], v),
        lambda d, v: (d, v[:-1]),
        lambda d, v: (d, v.astype(np.float32)),
        lambda d, v: ([{**d[0], "kind": "dose"}, *d[1:]], v),
        lambda d, v: ([{**d[0], "levels": ["a"]}, *d[1:]], v),
        lambda d, v: ([{**d[0], "levels": [1, 2, 3]}, *d[1:]], v),
        lambda d, v: ([{"name": "x"}, *d[1:]], v),
        lambda d, v: (d, np.where(np.arange(v.shape[1]) == 2, -1.0, v)),
        lambda d, v: (d, np.where(np.arange(v.shape[1]) == 4, 7.0, v)),
        lambda d, v: (d, np.where(np.arange(v.shape[1]) == 1, np.inf, v)),
        lambda d, v: ("drug", v),
    ],
)
def test_damaged_columns_are_refused(damage):
    follow_up = learn()
    described, values = damage(follow_up.to_dict(), follow_up.to_array())
    with pytest.raises(ValueError):
        FollowUp.from_stored(described, values, 120)
