"""README.md and the pages of docs/: their Python runs, their links lead somewhere, their figures are measured."""

import importlib
import importlib.util
import json
import re
import warnings
from pathlib import Path

import pytest

import bayespatch
from bayespatch import PatchworkClassifier, PatchworkRegressor

ROOT = Path(__file__).parents[1]
PAGES = ["README.md", *(str(path.relative_to(ROOT)) for path in sorted((ROOT / "docs").rglob("*.md")))]
RUN = ["README.md", *(f"docs/{name}.md" for name in ("guide", "explanations", "tutorial-first-prediction"))]
# These need a case base, a server, a cluster or censored times: tests/statistical/test_page_code.py runs them.
SHOWN = [f"docs/{name}.md" for name in ("casebase", "serve", "dask", "follow-up", "survival")]
CONTINUE = ["docs/chains.md", "docs/privacy.md"]  # with a fitted clf at hand
SHORT = {"chains": 2, "draws": 8, "warmup": 8}

_BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
_CONSOLE = re.compile(r"^\$ make ([a-z-]+)", re.MULTILINE)
_LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(#[^)\s]*)?\)")


@pytest.fixture
def short_chains(monkeypatch, tmp_path, few_patients):
    """Estimators whose chains are short unless a page says otherwise, few patients, and a folder to write to."""
    monkeypatch.chdir(tmp_path)
    for kind in (PatchworkClassifier, PatchworkRegressor):
        for name, value in SHORT.items():
            monkeypatch.setitem(kind.__init__.__kwdefaults__, name, value)
    pytest.importorskip("matplotlib").use("Agg")


def run(page, names):
    """Run the blocks of a page one after the other, as a reader would."""
    blocks = _BLOCK.findall((ROOT / page).read_text(encoding="utf-8"))
    assert blocks
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # so few draws cannot have mixed
        for k, block in enumerate(blocks):
            exec(compile(block, f"{page}, block {k}", "exec"), names)
    return names


@pytest.mark.parametrize("page", RUN)
def test_the_python_of_a_page_runs(page, short_chains):
    names = run(page, {})
    assert names["clf"].posterior_.n_draws in (8, 50)


@pytest.mark.parametrize("page", CONTINUE)
def test_the_python_of_a_page_runs_with_a_model(page, short_chains):
    clf = PatchworkClassifier(random_state=0).fit([["yes", 61], ["no", 40]] * 8, ["sick", "well"] * 8)
    run(page, {"bayespatch": bayespatch, "clf": clf})


def test_every_page_with_python_is_run():
    with_python = {page for page in PAGES if _BLOCK.search((ROOT / page).read_text(encoding="utf-8"))}
    assert with_python == {*RUN, *CONTINUE, *SHOWN}


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    path = ROOT / page
    generated = {"benchmarks.md", "contributing.md", "changelog.md"} if page != "README.md" else set()
    targets = [target for target, _ in _LINK.findall(path.read_text(encoding="utf-8")) if target]
    assert not [target for target in targets if target not in generated and not (path.parent / target).exists()]


def test_the_commands_are_there():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    said = _CONSOLE.findall((ROOT / "README.md").read_text(encoding="utf-8"))
    assert said[:2] == ["demo", "test"]
    assert not [target for target in said if not re.search(rf"^{target}:", makefile, re.MULTILINE)]


def test_the_names_of_the_api_page_are_there():
    names = re.findall(r"^::: ([\w.]+)$", (ROOT / "docs" / "api.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert len(names) > 40
    for name in names:
        module, _, attribute = name.rpartition(".")
        try:
            importlib.import_module(name)
        except ModuleNotFoundError:
            assert hasattr(importlib.import_module(module), attribute), name


# The figures


def filler(name="readme"):
    spec = importlib.util.spec_from_file_location(name, ROOT / "generators" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_figures_are_those_measured():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    again = filler().filled(readme, ROOT / "benchmarks" / "results")
    assert readme == again, "README.md is stale: run make pages GENERATORS=readme"


def test_the_figures_of_survival_models_are_those_measured():
    page, results = (ROOT / "docs" / "survival.md").read_text(encoding="utf-8"), ROOT / "benchmarks" / "results"
    assert page == filler("survival_page").filled(page, results), "run make pages GENERATORS=survival_page"


def test_survival_models_are_never_far_behind_the_cox_model():
    found = json.loads((ROOT / "benchmarks" / "results" / "survival.json").read_text(encoding="utf-8"))
    assert list(found) == ["GBSG2", "WHAS500", "veterans", "FLCHAIN"]
    ahead = {
        name: one["scores"]["patchwork"]["concordance"] - one["scores"]["ridge Cox"]["concordance"]
        for name, one in found.items()
    }
    assert min(ahead.values()) > -0.01, ahead
    assert sum(ahead.values()) >= 0, ahead


def test_figures_come_from_the_results(tmp_path):
    fill = filler()
    row = {"table": "heart"} | {name: f"0.{k}" for k, name in enumerate(fill.NAMES, 1)}
    (tmp_path / "second_opinion.json").write_text(json.dumps({"tables": {"log loss": [row]}}))
    text = fill.filled(f"before {fill.BEGIN} yesterday {fill.END} after", tmp_path)
    assert text.startswith("before ")
    assert text.endswith(" after")
    assert "yesterday" not in text
    assert "| heart | 0.100 | 0.200 | 0.300 | 0.400 |" in text
    (tmp_path / "second_opinion.json").unlink()
    assert "has not been run" in fill.filled(f"{fill.BEGIN}{fill.END}", tmp_path)
