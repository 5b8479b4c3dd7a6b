from bayespatch.explain import words
from tests.explain.fitted import explained, fitted, table, without_precedent


def test_percents_are_never_certain_without_being_so():
    shown = [words.percent(p) for p in (0, 0.0099, 0.01, 0.5, 0.99, 0.996, 1)]
    assert shown == ["0%", "<1%", "1%", "50%", "99%", ">99%", "100%"]
    assert words.points(-0.01234) == "-1.2"


def test_every_sentence_has_its_numbers():
    why = explained().to_dict()
    said = why["prediction"]
    name = said["class"]
    for sentence in (words.prediction, words.headline):
        assert words.percent(said["probabilities"][name]) in sentence(why)
        assert words.interval(said["intervals"][name]) in sentence(why)
    assert f"{said['like_this']['n']} past cases" in words.like_this(why)
    assert words.percent(why["precedent"]["percentile"]) in words.precedent(why)
    assert words.percent(why["stability"]["overlap"]) in words.stability(why)
    assert words.percent(why["base_rates"]) in words.vote_shares(why)
    assert any(f"#{part['id']}" in words.reliance(why) for part in why["exemplars"])
    assert words.title(why) == "Case patient-0"
    assert words.opinions(why) is None


def test_votes_and_prediction_that_differ_are_explained():
    why = explained(row=1).to_dict()
    votes, probabilities = why["prediction"]["votes"], why["prediction"]["probabilities"]
    assert max(votes, key=votes.get) == max(probabilities, key=probabilities.get)
    assert "yet" not in words.votes(why)
    one, other = why["prediction"]["votes"]
    why["prediction"]["votes"] = {one: 0.54, other: 0.46}
    why["prediction"]["class"] = other
    assert f"Most votes are for {one}, and yet {other} is more probable" in words.votes(why)


def test_two_opinions_that_differ_are_worth_a_sentence():
    why = explained().to_dict()
    both = {"precedents": {"well": 0.7, "sick <i>": 0.3}, "additive": {"well": 0.4, "sick <i>": 0.6}}
    points = [{"feature": "age", "points": -0.1}, {"feature": "pain", "points": 0.8}]
    why["opinions"] = {**both, "weight": 0.5, "disagreement": 0.3, "points": points, "base": None}
    assert "differ by 30 points" in words.opinions(why)
    assert "pain (+0.8), age in years (-0.1)" in words.strongest_points(why)
    why["opinions"] |= {"disagreement": 0.05, "points": None}
    assert "differ" not in words.opinions(why)
    assert words.strongest_points(why) is None


def test_what_has_no_precedent_is_called_so():
    why = without_precedent().to_dict()
    assert not why["precedent"]["adequate"]
    assert words.precedent(why).startswith(words.NO_PRECEDENT)
    assert words.title(why) == "The case"


def test_a_known_outcome_is_told():
    X, _ = table(20, seed=9)
    assert words.prediction(fitted().explain(X.iloc[0], y=0).to_dict()).startswith("Known outcome: well.")
