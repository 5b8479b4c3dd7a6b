from html.parser import HTMLParser

from bayespatch.explain import words
from tests.explain.fitted import explained, without_precedent


class Reader(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.text = [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)

    def handle_data(self, data):
        self.text.append(data)


def read(page):
    reader = Reader()
    reader.feed(page)
    return reader.tags, " ".join(reader.text)


def test_names_and_values_are_texts_and_no_tags():
    why = explained()
    tags, text = read(why._repr_html_())
    assert not {"script", "b", "i"} & set(tags)
    assert "<script>alert(1)</script>" in text
    assert "sick <i>" in text


def test_the_figures_are_those_of_the_data():
    why = explained()
    _, text = read(why._repr_html_())
    for part in why.exemplars:
        assert part.id in text
        assert words.points(part.reliance) in text
    for feature in why.features:
        assert f"{feature.importance:.2f}" in text
    assert words.prediction(why.to_dict()) in text


def test_no_precedent_is_an_alert():
    page = without_precedent()._repr_html_()
    assert 'role="alert"' in page
    assert words.NO_PRECEDENT in page
    assert words.NO_PRECEDENT not in explained()._repr_html_()
