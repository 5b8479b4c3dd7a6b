"""Write docs/card.html, the two-page card "How to read an answer", from docs/clinicians.md.

``make pages GENERATORS=card``
"""

from __future__ import annotations

import re
from pathlib import Path

from markdown_it import MarkdownIt

DOCS = Path(__file__).parents[1] / "docs"
CARD = DOCS / "card.html"
PAGES = (
    ("How likely?", "Why?"),
    ("How far can I trust it?", "What it does not say", "Before you rely on it"),
)
STYLE = """
@page { size: A4; margin: 12mm 14mm; }
* { box-sizing: border-box; }
body { margin: 0; color: #1a1a1a; font: 9.8pt/1.4 system-ui, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
.page { break-after: page; }
.page:last-child { break-after: auto; }
header { display: flex; justify-content: space-between; border-bottom: 1.5pt solid #00796b; margin-bottom: 3mm; }
h1 { font-size: 17pt; margin: 0 0 1mm; }
header p { margin: 0; align-self: end; color: #555; }
h2 { font-size: 12pt; color: #00695c; margin: 3mm 0 1mm; break-after: avoid; }
p { margin: 0 0 1.6mm; }
img { display: block; width: 100%; max-height: 108mm; object-fit: contain; border: 0.5pt solid #bbb; }
.columns { columns: 2; column-gap: 7mm; }
table { width: 100%; border-collapse: collapse; }
th, td { text-align: left; vertical-align: top; padding: 1.3mm 2mm; border: 0.5pt solid #999; }
th:first-child, td:first-child { width: 32%; font-weight: 600; }
ul, ol { margin: 0; padding-left: 5mm; }
li { margin-bottom: 1.4mm; }
@media screen {
  body { background: #ddd; }
  .page { width: 210mm; min-height: 297mm; margin: 6mm auto; padding: 12mm 14mm; background: #fff; }
}
""".strip()


def main() -> None:
    """Write the card."""
    CARD.write_text(card((DOCS / "clinicians.md").read_text(encoding="utf-8")), encoding="utf-8")


def card(text: str) -> str:
    """Convert the text of clinicians.md to the card, an HTML page."""
    sections = dict(re.findall(r"^## (.+)\n((?:(?!## ).*\n?)*)", text, re.MULTILINE))
    title = re.search(r"^# (.+)$", text, re.MULTILINE)
    assert title is not None
    sheets = []
    for number, names in enumerate(PAGES, 1):
        body = "".join(f"<h2>{name}</h2>\n{_html(sections[name])}" for name in names)
        body = f'<div class="columns">\n{body}</div>\n' if number == 1 else body
        picture = '<img src="figures/answer.png" alt="The answer about a patient">\n' if number == 1 else ""
        head = f"<header><h1>{title[1]}</h1><p>bayespatch, page {number} of {len(PAGES)}</p></header>\n"
        sheets.append(f'<section class="page">\n{head}{picture}{body}</section>\n')
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{title[1]}</title>\n'
        f"<style>\n{STYLE}\n</style>\n</head>\n<body>\n{''.join(sheets)}</body>\n</html>\n"
    )


def _html(markdown: str) -> str:
    """Render a section as HTML, without its links and figures (which are useless on paper)."""
    plain = re.sub(r"!\[[^]]*\]\([^)]*\)(\{[^}]*\})?", "", markdown)
    plain = re.sub(r" \(\[[^]]*\]\([^)]*\)\)", "", plain)
    plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", plain)
    return MarkdownIt("commonmark").enable("table").render(plain.strip())


if __name__ == "__main__":
    main()
