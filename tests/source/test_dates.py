import datetime

import pandas as pd
import pytest

from bayespatch.source.dates import Interval, dates_of, holds_dates, remade


@pytest.mark.parametrize(
    "texts",
    [["2024-02-01", "2023-12-31"], ["1.2.2024", "31.12.2023"], ["2/1/2024", "12/31/2023"], ["1/2/2024", "31/12/2023"]],
)
def test_dates_are_read_where_the_column_says_which_number_is_the_day(texts):
    found = dates_of(pd.Series([*texts, None]))
    assert [time.date() for time in found[:2]] == [datetime.date(2024, 2, 1), datetime.date(2023, 12, 31)]
    assert pd.isna(found[2])


def test_what_may_be_read_two_ways_is_refused():
    with pytest.raises(ValueError, match=r"column 'seen': '1/2/2024' could be day first or month first"):
        dates_of(pd.Series(["1/2/2024", "3/4/2024"], name="seen"))
    with pytest.raises(ValueError, match="dates in several formats"):
        dates_of(pd.Series(["2024-02-01", "31.12.2023"]))
    with pytest.raises(ValueError, match="contains no dates, such as 'soon'"):
        dates_of(pd.Series(["soon"]))


def test_days_up_to_a_date_and_to_today():
    frame = pd.DataFrame({"seen": ["2024-01-01", "2024-01-31"]})
    assert Interval("days", "seen", "2024-02-01").values(frame).tolist() == [31, 1]
    assert (Interval("years", "seen", "today").values(frame) > 0).all()


def test_an_interval_is_made_again_by_its_name():
    frame = pd.DataFrame({"born": ["1960-05-01"], "seen": ["2020-05-01"], "x": [1]})
    name = Interval("years", "born", "seen").name
    assert Interval.named(name) == ("years", "born", "seen")
    assert remade(frame, ["x", name])[name].tolist() == [60.0]
    assert list(remade(frame, ["x", "years from nobody to seen"]).columns) == ["born", "seen", "x"]
    assert Interval.named("age") is None


def test_versions_and_numbers_are_no_dates():
    assert not holds_dates(pd.Series(["1.2", "2.0"]))
    assert not holds_dates(pd.Series([20240101, 20240102]))
    assert not holds_dates(pd.Series([None, None], dtype=object))
