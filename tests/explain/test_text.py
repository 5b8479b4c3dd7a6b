import pytest

from bayespatch.explain import words
from tests.explain.fitted import explained, fitted, table, without_precedent


def test_everything_is_there():
    why = explained()
    text = why.to_text()
    assert str(why) == text
    for part in why.exemplars:
        assert f"#{part.id}" in text
        assert words.points(part.reliance) in text
    for feature in why.features:
        assert feature.name[:12] in text
        assert feature.value in text
        assert f"{feature.importance:.2f}".removeprefix("0") in text
    for name, p in why.probabilities.items():
        line = next(line for line in text.splitlines() if line.strip().startswith(name))
        assert words.percent(p) in line
        assert words.percent(why.votes[name]) in line
    assert words.NO_PRECEDENT not in text


def test_agreeing_values_that_matter_are_marked():
    why = explained()
    text = why.to_text()
    marked = [p for part in why.exemplars for p in part.features.values() if p.marked]
    assert marked
    assert text.count("●") == len(marked) + 1  # and the legend


@pytest.mark.parametrize("width", [60, 80, 100, 160])
def test_it_fits_the_terminal(width):
    why = fitted().explain(table(20, seed=9)[0].iloc[3].rename("x"), top=9)
    lines = why.to_text(width).splitlines()
    assert max(map(len, lines)) <= width
    assert all(f"#{part.id}" in why.to_text(width) for part in why.exemplars)


def test_a_terminal_can_be_too_narrow():
    with pytest.raises(ValueError, match="width=20"):
        explained().to_text(width=20)


def test_a_case_without_precedent_says_so_first():
    text = without_precedent().to_text()
    assert words.NO_PRECEDENT in text
    assert text.index(words.NO_PRECEDENT) < text.index("Exemplars:")
