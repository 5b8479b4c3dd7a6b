"""The Python of the pages that need a case base, a server, a cluster or censored times; the others: test_readme.py."""

import random
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

from bayespatch import PatchworkClassifier
from bayespatch.casebase import CaseBase
from bayespatch.dictionary import Dictionary
from tests.test_pages import blocks
from tests.test_readme import CONTINUE, RUN, SHOWN

pd = pytest.importorskip("pandas")
ROOT = Path(__file__).parents[2]
HOST = "http://127.0.0.1:8000"


def run(page, names, address=None):
    """Run the blocks of a page; the address replaces that of the cluster."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for k, block in enumerate(blocks(page, "python")):
            code = block if address is None else block.replace("tcp://10.0.0.1:8786", address)
            exec(compile(code, f"{page}, block {k}", "exec"), names)
    return names


def visits(n, seed=0):
    """Patients whose pain at rest means that they are sick."""
    rng = random.Random(seed)
    rows = [{"age": rng.randint(30, 80), "pain": rng.choice(["rest", "none"])} for _ in range(n)]
    return pd.DataFrame([{"patient": f"P-{i}", **row, "outcome": outcome(row)} for i, row in enumerate(rows)])


def outcome(row):
    return "sick" if row["pain"] == "rest" else "well"


@pytest.fixture
def clinic(tmp_path, monkeypatch):
    """A folder with the files that the page about the case base reads."""
    monkeypatch.chdir(tmp_path)
    visits(40).to_csv("patients.csv", index=False)
    Path("columns.csv").write_text("name,kind,levels\nage,number,\npain,text,rest;none\noutcome,text,well;sick\n")
    return tmp_path


def test_all_pages_that_are_shown_are_run_here():
    assert {f"docs/{name}.md" for name in ("casebase", "serve", "dask", "follow-up", "survival")} == set(SHOWN)
    assert not set(SHOWN) & {*RUN, *CONTINUE}


def test_the_case_base_and_the_service(clinic, monkeypatch):
    names = run("casebase", {})
    assert names["seen"].explanation["prediction"]["class"] == "sick"
    with CaseBase.open("sqlite:///clinic.db") as base:
        assert base.case(names["seen"].case_id, by="test").state == "withdrawn"
    _the_service(monkeypatch)


def _the_service(monkeypatch):
    httpx = pytest.importorskip("httpx")
    from starlette.testclient import TestClient

    from bayespatch.web import Settings, create_app

    app = create_app(Settings("sqlite:///clinic.db"))
    people = app.state.service.base.people
    people.accept(people.invite("Dr. Roe", "clinician", by="test"), "$argon2id$")
    token = people.new_token("Dr. Roe", label="test", scope="clinician", days=1, by="Dr. Roe")

    def client(base_url, headers):
        return TestClient(app, base_url=base_url.replace("https://clinic.example", HOST), headers=headers)

    monkeypatch.setattr(httpx, "Client", client)
    try:
        names = run("serve", {"token": token, "values": {"age": 61, "pain": "rest"}})
    finally:
        app.state.service.close()
    assert names["why"]["prediction"]["class"] == "sick"
    page = names["page"].json()
    assert page["total"] == len(page["items"]) > 0


def test_the_guide_for_clinicians_describes_the_answer_in_its_figure(tmp_path):
    from bayespatch.explain import words
    from bayespatch.web import demo

    with CaseBase.open(tmp_path / "heart.db") as base:
        why = base.consultation(demo.fill(base, "test"), by="test")[0].explanation
    text = " ".join((ROOT / "docs" / "clinicians.md").read_text(encoding="utf-8").split())
    assert f"**{words.answer(why)}**" in text
    assert f"{words.interval(why['prediction']['intervals'][words.focus(why)])}: it contains their mean risk" in text
    assert any(f"*{': '.join(words.group(why, part))}.*" in text for part in why["groups"])
    like = why["prediction"]["like_this"]
    assert f"of {like['n']} past patients for whom this share was similar" in text


def test_follow_up(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    table = visits(60).assign(
        horTh=rng.choice(["no", "yes"], 60), stay=rng.integers(1, 9, 60), days=rng.integers(1, 900, 60), relapse=1
    )
    X, y = table.drop(columns=["patient", "outcome"]), table["outcome"]
    [described] = [text for text in blocks("follow-up", "text") if text.startswith("name,")]
    Path("columns.csv").write_text(described)
    kinds = Dictionary.read("columns.csv").follow_up
    assert kinds == {"horTh": "treatment", "stay": None, "days": ("time", "relapse")}
    clf = PatchworkClassifier(chains=2, draws=8, random_state=0)
    with CaseBase.open("sqlite:///clinic.db") as base:
        base.import_cases(table, by="test", target="outcome", id_column="patient", dictionary="columns.csv")
        names = {"clf": clf, "X": X, "y": y, "row": {"age": 61, "pain": "rest"}, "base": base}
        run("follow-up", names)
        assert base.follow_up(3, by="test")[-1].values["stay"] == 4
    assert clf.explain(names["row"]).to_dict()["follow_up"]["stay"]["median"]["value"] > 0


def test_survival(monkeypatch):
    datasets = pytest.importorskip("lifelines.datasets")
    pytest.importorskip("matplotlib").use("Agg")
    whole = datasets.load_gbsg2()
    monkeypatch.setattr(datasets, "load_gbsg2", lambda: whole.iloc[-150:])
    names = run("survival", {})
    assert 0.5 < names["model"].score(names["X"], names["y"]) < 1
    assert names["why"].to_dict()["prediction"]["time"] == 730


@pytest.mark.skipif(sys.platform == "win32", reason="needs the workers of a local cluster")
def test_dask(scheduler, tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    monkeypatch.chdir(tmp_path)
    for name, n in (("registry", 60), ("new", 10)):
        Path(name).mkdir()
        table = visits(n).drop(columns="patient").drop(columns=[] if name == "registry" else "outcome")
        for k in range(2):
            table[k * n // 2 : (k + 1) * n // 2].to_parquet(f"{name}/{k}.parquet")
    past, new = pd.read_parquet("registry"), pd.read_parquet("new")
    clf = PatchworkClassifier(chains=2, draws=8, random_state=0).fit(past.drop(columns="outcome"), past["outcome"])
    weights = clf.posterior_.log_weights
    names = {
        "PatchworkClassifier": PatchworkClassifier,
        "schema": clf.schema_,
        "classes": list(clf.classes_),
        "new": new,
        "log_weights": weights.reshape(-1, weights.shape[-1]),
        "heard": np.ones(2),
    }
    run("dask", names, scheduler)
    assert names["clf"].score(past.drop(columns="outcome"), past["outcome"]) > 0.9
    assert names["largest"].shares.shape == (10, 20)
