"""Documents around a model: what the software knows is in them, and what it does not know is left to complete."""

import re
import warnings
from functools import cache

import numpy as np
import pandas as pd
import pytest

from bayespatch import PatchworkClassifier, PatchworkRegressor
from bayespatch.casebase import CaseBase
from bayespatch.persistence.atomic import StorageError
from bayespatch.report.governance import DOCUMENTS, governance_pack
from tests.cli.program import call

ITEMS = "1 2 3a 3b 3c 4 5a 5b 6a 6b 6c 7 8a 8b 8c 9a 9b 9c 10 11 12a 12b 12c 12d 12e 12f 12g 13 14 15 16 17 18a 18b 18c"
ITEMS += " 18d 18e 18f 19 20a 20b 20c 21 22 23a 23b 24 25 26 27a 27b 27c"


@cache
def fitted(number=False):
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a|b <i>": rng.choice(["x|y", "<b>z</b>"], 80), "age": rng.normal(60, 10, 80).round()})
    X.loc[3, "age"] = np.nan
    y = (X.age > 60).to_numpy()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if number:
            return PatchworkRegressor(draws=20, random_state=0).fit(X, X.age.fillna(60) + rng.normal(0, 1, 80))
        return PatchworkClassifier(draws=20, random_state=0).fit(X, np.where(y, "sick", "well"))


def tables(text):
    """Rows of tables, each as its cells."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [re.split(r"(?<!\\)\|", line)[1:-1] for line in lines]


@pytest.mark.parametrize("number", [False, True])
def test_documents_have_the_models_figures_and_ask_for_the_rest(number, tmp_path):
    model = fitted(number)
    paths = governance_pack(model.overview(), tmp_path / "pack", intended_use="Triage.", sha256="ab12")
    texts = {path.stem: path.read_text() for path in paths}
    assert list(texts) == list(DOCUMENTS)
    assert "80" in texts["model-card"]
    assert all("**To complete" in text for text in texts.values())
    assert not any("close if" in text for text in texts.values())  # how values are compared is not their range
    assert all("Triage." in texts[name] for name in ("model-card", "intended-use", "tripod-ai"))
    assert "ab12" in texts["tripod-ai"]
    assert "ab12" in texts["change-log"]
    assert not any("<b>" in text or "<i>" in text or "{{" in text for text in texts.values())
    score, value = next(iter(model.overview().performance.scores.items()))
    assert f"{score} {value:.3g}" in texts["risk-analysis"]
    items = [row[0].strip() for row in tables(texts["tripod-ai"])[2:]]
    assert items == ITEMS.split()
    for name, text in texts.items():
        for block in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
            assert len({len(row) for row in tables(block)}) == 1, (name, block)


def test_entries_of_the_user_are_not_replaced(tmp_path):
    governance_pack(fitted().overview(), tmp_path)
    (tmp_path / "risk-analysis.md").write_text("mine")
    with pytest.raises(StorageError, match=r"already exists; pass overwrite=True"):
        governance_pack(fitted().overview(), tmp_path)
    assert (tmp_path / "risk-analysis.md").read_text() == "mine"


def test_the_change_log_lists_the_versions_of_a_case_base(tmp_path):
    with CaseBase.demo() as base:
        versions = [vars(one) for one in base.models()]
    text = governance_pack(fitted().overview(), tmp_path, history=versions)[-1].read_text()
    assert len(tables(text)) == 2 + len(versions)
    assert versions[0]["sha256"][:16] in text


def test_the_command(tmp_path):
    model = tmp_path / "model.bpatch"
    fitted().save(model)
    assert "wrote 6 documents" in call("governance", model, "--out", tmp_path / "pack").stdout
    again = call("governance", model, "--out", tmp_path / "pack")
    assert again.exit_code == 2
    assert "may contain your entries" in again.stderr
    assert call("governance", model, "--out", tmp_path / "pack", "--force").exit_code == 0
