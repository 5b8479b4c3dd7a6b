from bayespatch.explain import words
from tests.explain.fitted import explained, fitted, table, without_precedent


def test_percents_are_never_certain_without_being_so():
    shown = [words.percent(p) for p in (0, 0.0099, 0.01, 0.5, 0.99, 0.996, 1)]
    assert shown == ["0%", "<1%", "1%", "50%", "99%", ">99%", "100%"]
    assert words.points(-0.01234) == "-1.2"


def test_every_sentence_has_its_numbers():
    why = explained()
    assert words.percent(why.probabilities[why.predicted]) in words.prediction(why)
    assert words.interval(why.intervals[why.predicted]) in words.prediction(why)
    assert words.percent(why.precedent.percentile) in words.precedent(why)
    assert words.percent(why.stability.overlap) in words.stability(why)
    assert words.percent(why.vote_share_base) in words.vote_shares(why)
    assert any(neighbor.id in words.reliance(why) for neighbor in why.shown)
    assert words.unseen(why) is None
    assert words.title(why) == "Case patient-0"


def test_what_has_no_precedent_is_called_so():
    why = without_precedent()
    assert not why.precedent.adequate
    assert words.precedent(why).startswith(words.NO_PRECEDENT)
    assert "script" in words.unseen(why)
    assert words.title(why) == "The case"


def test_a_known_outcome_is_told():
    X, _ = table(20, seed=9)
    assert words.prediction(fitted().explain(X.iloc[0], y=0)).startswith("Known outcome: well.")
