"""MkDocs hook that adds pages from outside docs/ and notebooks, and skips pages that do not exist yet."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
# Page of the site -> its path in the repository.
ELSEWHERE = {
    "benchmarks.md": "benchmarks/README.md",
    "contributing.md": "CONTRIBUTING.md",
    "changelog.md": "CHANGELOG.md",
}
_LINK = re.compile(r"(\]\()(?!https?:|#)([^)#]+)")

log = logging.getLogger("mkdocs.hooks.pages")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Remove missing pages from the navigation."""
    config.nav = _there(config.nav, Path(config.docs_dir))
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages from elsewhere and their figures."""
    homes = {source: page for page, source in ELSEWHERE.items()}
    for page, source in ELSEWHERE.items():
        folder = (ROOT / source).parent

        def moved(link: re.Match[str], folder: Path = folder) -> str:
            target = (folder / link[2]).resolve()
            name = target.relative_to(ROOT).as_posix()
            if name in homes:
                return link[1] + homes[name]
            if target.is_relative_to(config.docs_dir):
                return link[1] + target.relative_to(config.docs_dir).as_posix()
            if target.suffix == ".png" and files.get_file_from_path(name) is None:
                files.append(File.generated(config, name, abs_src_path=str(target)))
            return link[1] + name

        text = _LINK.sub(moved, (ROOT / source).read_text(encoding="utf-8"))
        files.append(File.generated(config, page, content=text))
    for path in sorted((Path(config.docs_dir) / "notebooks").glob("*.ipynb")):
        text = notebook_page(json.loads(path.read_text(encoding="utf-8")), path.name)
        files.append(File.generated(config, f"notebooks/{path.stem}.md", content=text))
    return files


def on_page_markdown(markdown: str, **_: object) -> str:
    """Let links to files outside docs, which work in the repository, lead to their pages on the site."""
    for page, source in ELSEWHERE.items():
        markdown = markdown.replace(f"](../{source}", f"]({page}")
    return markdown


def notebook_page(notebook: dict[str, Any], name: str) -> str:
    """A notebook with its outputs as Markdown, and a link to the file."""
    parts = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source.replace(".ipynb)", ".md)"))
        else:
            parts += [f"```python\n{source}\n```", *_outputs(cell["outputs"])]
    title, _, rest = "\n\n".join(parts).partition("\n")
    return f"---\nhide: [toc]\n---\n{title}\n\n[Download the notebook]({name})\n{rest}\n"


def _outputs(outputs: list[dict[str, Any]]) -> Iterator[str]:
    """HTML of a cell's outputs, without blank lines, which would end the block."""
    for output in outputs:
        data = output.get("data", {})
        if "text/html" in data:
            body = "".join(data["text/html"])
        elif "image/png" in data:
            body = f'<img alt="Figure" src="data:image/png;base64,{"".join(data["image/png"]).strip()}">'
        else:
            body = f"<pre>{escape(''.join(output.get('text') or data.get('text/plain', '')))}</pre>"
        lines = (line for line in body.splitlines() if line.strip())
        yield '<div class="notebook-output">\n' + "\n".join(lines) + "\n</div>"


def _there(nav: list[Any], docs: Path) -> list[Any]:
    """Keep the entries whose pages exist, and drop empty sections."""
    kept = []
    for entry in nav:
        ((title, target),) = entry.items()
        if isinstance(target, list):
            inside = _there(target, docs)
            kept += [{title: inside}] if inside else []
        elif target in ELSEWHERE or (docs / target).exists() or (docs / target).with_suffix(".ipynb").exists():
            kept.append(entry)
        else:
            log.info("page %s does not exist yet and is omitted", target)
    return kept
