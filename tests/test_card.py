"""The printable card for clinicians says what its page says."""

import runpy
from pathlib import Path

ROOT = Path(__file__).parents[1]
GENERATOR = runpy.run_path(str(ROOT / "generators" / "card.py"))
CARD, DOCS, PAGES, card = (GENERATOR[name] for name in ("CARD", "DOCS", "PAGES", "card"))
TEXT = (DOCS / "clinicians.md").read_text(encoding="utf-8")


def test_the_card_is_current():
    assert CARD.read_text(encoding="utf-8") == card(TEXT), "run make pages GENERATORS=card"


def test_the_card_has_two_pages_with_every_section_and_no_links():
    page = card(TEXT)
    assert page.count('<section class="page">') == len(PAGES) == 2
    assert [name for names in PAGES for name in names if f"<h2>{name}</h2>" not in page] == []
    assert "<a " not in page
    assert "40% risk of heart disease" in page
    assert (DOCS / "figures" / "answer.png").is_file()


def test_a_changed_page_changes_the_card():
    assert card(TEXT.replace("40% risk", "41% risk")) != card(TEXT)
