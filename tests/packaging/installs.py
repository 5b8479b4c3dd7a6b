"""Builds wheel and sdist, and installs them in empty environments, with each extra alone; ``make package-check``.

It needs an index to install from, and minutes. Extras that are given as arguments are tried instead of all. What an
installation with all extras consists of is written to build/sbom.cdx.json (CycloneDX).
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SBOM = ROOT / "build" / "sbom.cdx.json"
SHIPPED = (
    "py.typed",
    "datasets/data/heart.csv",
    "datasets/data/breast.csv",
    "datasets/data/ATTRIBUTION.md",
    "report/templates/case.html",
    "report/templates/style.css",
    "casebase/migrations/env.py",
    "casebase/migrations/versions/v0001_case_base.py",
    "web/templates/consult.html",
    "web/static/web.js",
)
IN_SDIST = ("README.md", "LICENSE", "Makefile", "mkdocs.yml", "tests/test_layers.py", "examples/heart.py")

# With the core alone a model is fitted, saved, loaded and explained.
CORE = """
import pickle, time, warnings
warnings.simplefilter("ignore")
began = time.perf_counter()
import bayespatch
assert time.perf_counter() - began < 0.5, "import bayespatch takes half a second or more"
rows = [["yes", 61], ["yes", 58], ["no", 40], ["no", 44]] * 5
clf = bayespatch.PatchworkClassifier(chains=1, draws=10, warmup=10, random_state=0)
clf.fit(rows, ["sick", "sick", "well", "well"] * 5).save("model.bpatch")
clf = bayespatch.load("model.bpatch")
assert clf.predict(rows[:1])[0] == "sick"
why = clf.explain(rows[0])
print(why)
pickle.dump(why, open("why.pickle", "wb"))
"""
# With an extra, what needs it works on that model (which saves compiling the engine once for each).
LOADED = """
import os, pickle, subprocess, sys
import bayespatch
clf, why = bayespatch.load("model.bpatch"), pickle.load(open("why.pickle", "rb"))
"""
# The program that the wheel brings, from someone's first call to the pages of the demo.
PROGRAM = """
program = os.path.join(os.path.dirname(sys.executable), "bayespatch")
def call(*words):
    return subprocess.run([program, *words], check=True, capture_output=True, text=True).stdout
assert call("--version").strip() == bayespatch.__version__
assert "explain" in call("--help")
assert "20, 20 of them vote" in call("info", "model.bpatch")
open("new.csv", "w").write("x0,x1\\nyes,60\\n")
assert call("predict", "model.bpatch", "new.csv").startswith("row,predicted,")
call("demo", "--hyper", "default", "--draws", "10", "--warmup", "10", "--out", "pages")
assert sorted(os.listdir("pages")) == ["model.html", "patient-20.html"]
"""
# Extra -> its code, and packages that only other extras bring.
EXTRAS = {
    "plot": ("from bayespatch import plot\nplot.patchwork(why).figure.savefig('why.png')", ("pandas", "typer")),
    "report": ("from bayespatch.report import case_report\ncase_report(why, 'why.html')", ("pandas", "matplotlib")),
    "cli": (PROGRAM, ("matplotlib", "pyarrow")),
    "parquet": (
        "import pandas\nfrom bayespatch.source import read\n"
        "pandas.DataFrame({'a': [1, 2]}).to_parquet('t.parquet')\nassert read('t.parquet').shape == (2, 1)",
        ("matplotlib", "typer"),
    ),
    "sql": (
        "import psycopg\nfrom bayespatch.source import read\n"
        "assert read('duckdb://', 'SELECT 1 AS a, 2 AS b').shape == (1, 2)",
        ("matplotlib", "typer", "pyarrow"),
    ),
    "arviz": ("assert 'posterior' in clf.posterior_.to_arviz().children", ("matplotlib", "typer")),
    "datasets": ("assert bayespatch.datasets.load_heart()[0].shape == (303, 13)", ("matplotlib", "typer")),
    "casebase": (
        "with bayespatch.CaseBase.demo() as base:\n"
        "    assert base.consult({'age': 58, 'pain': 'rest'}, by='someone').predicted == 'sick'",
        ("matplotlib", "typer", "pyarrow"),
    ),
    "web": (
        "from bayespatch.web import Settings, create_app\n"
        "with bayespatch.CaseBase.demo() as base:\n"
        "    app = create_app(Settings(str(base._database.path), sign_in=False))\n"
        "    assert app.state.service.health()['status'] == 'ok'\n"
        "    app.state.service.close()",
        ("matplotlib", "typer", "pyarrow"),
    ),
    "excel": (
        "import pandas\nfrom bayespatch.source import read\n"
        "pandas.DataFrame({'a': [1, 2]}).to_excel('t.xlsx', index=False)\nassert read('t.xlsx').shape == (2, 1)",
        ("matplotlib", "pyarrow"),
    ),
    "dask": (
        "from bayespatch.workers import computed\nassert computed(pow, [(2, 3)], None) == [8]",
        ("matplotlib", "typer"),
    ),
    "all": ("from bayespatch import plot\nassert bayespatch.datasets.load_breast()[0].shape == (286, 9)", ()),
}
NOT_TRIED = ("test", "browser", "contract", "audit", "docs", "dev")  # for developers
CORE_IS_WITHOUT = ("pandas", "matplotlib", "typer", "rich", "arviz_base")


def main() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = sys.argv[1:] or [extra for extra in project["optional-dependencies"] if extra not in NOT_TRIED]
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        wheel, sdist = build(home)
        check(home, wheel, "", without(CORE_IS_WITHOUT) + CORE)
        for extra in wanted:
            code, absent = EXTRAS[extra]
            python = check(home, wheel, extra, without(absent) + LOADED + code)
            if extra == "all":
                bill_of_materials(home, python)
        check(home, sdist, "", LOADED)
        if not sys.argv[1:] or "web" in wanted:
            check_lock(home, wheel)
    print("wheel, sdist and extras are in order")


def build(home: Path) -> tuple[Path, Path]:
    """The sdist, and the wheel that is made from it; what has to be in them is."""
    run([sys.executable, "-m", "build", "--outdir", str(home / "dist"), str(ROOT)], home)
    (wheel,), (sdist,) = ((home / "dist").glob(kind) for kind in ("*.whl", "*.tar.gz"))
    with zipfile.ZipFile(wheel) as file:
        names = set(file.namelist())
    missing = [name for name in SHIPPED if f"bayespatch/{name}" not in names]
    strangers = sorted({name.split("/")[0] for name in names if not name.startswith("bayespatch")})
    if missing or strangers:
        sys.exit(f"{wheel.name} lacks {missing}, and has {strangers} beside the package")
    with tarfile.open(sdist) as file:
        names = {name.partition("/")[2] for name in file.getnames()}
    missing = [name for name in IN_SDIST if name not in names]
    if missing:
        sys.exit(f"{sdist.name} lacks {missing}")
    print(f"built {wheel.name} and {sdist.name}", flush=True)
    return wheel, sdist


def without(packages: tuple[str, ...]) -> str:
    """Code that sees that the environment is as bare as it should be."""
    find = "import importlib.util\n"
    return find + "".join(f"assert importlib.util.find_spec({name!r}) is None, {name!r}\n" for name in packages)


def bill_of_materials(home: Path, python: str, sbom: Path = SBOM) -> None:
    """What an installation with all extras consists of, as CycloneDX."""
    sbom.parent.mkdir(parents=True, exist_ok=True)
    about = ["--pyproject", str(ROOT / "pyproject.toml"), "--mc-type", "library", "--output-reproducible"]
    command = [sys.executable, "-m", "cyclonedx_py", "environment", *about, "--of", "JSON", "-o", str(sbom), python]
    run(command, home)
    found = json.loads(sbom.read_text(encoding="utf-8"))
    names = {component["name"].lower() for component in found["components"]}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    missing = {re.split(r"[^\w.-]", wish)[0].lower() for wish in project["dependencies"]} - names
    if found["bomFormat"] != "CycloneDX" or missing:
        sys.exit(f"{sbom} is no CycloneDX document, or lacks {sorted(missing)}")
    print(f"{sbom} lists {len(names)} packages", flush=True)


def check(home: Path, package: Path, extra: str, code: str) -> str:
    """Install the package in an empty environment and run the code there; returns the environment's Python."""
    place = home / "environment"
    run([sys.executable, "-m", "venv", "--clear", "--without-pip", str(place)], home)
    python = str(place / "bin" / "python")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", python]
    run([*pip, "install", "--quiet", "--no-compile", f"{package}[{extra}]" if extra else str(package)], home)
    run([*pip, "check"], home)
    run([python, "-c", code], home)
    print(f"{package.name} with {f'[{extra}]' if extra else 'nothing else'}: in order", flush=True)
    return python


def check_lock(home: Path, wheel: Path) -> None:
    """Install what the lock file pins, by its hashes, and the wheel; nothing is missing, and the service starts."""
    place = home / "locked"
    run([sys.executable, "-m", "venv", "--clear", "--without-pip", str(place)], home)
    python = str(place / "bin" / "python")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", python]
    lock = str(ROOT / "requirements" / "service.txt")
    run([*pip, "install", "--quiet", "--no-compile", "--require-hashes", "-r", lock], home)
    run([*pip, "install", "--quiet", "--no-compile", "--no-deps", str(wheel)], home)
    run([*pip, "check"], home)
    run([python, "-c", "import bayespatch\n" + EXTRAS["web"][0]], home)
    print("requirements/service.txt: in order", flush=True)


def run(command: list[str], home: Path) -> None:
    """In the folder, with nothing of this checkout in the way."""
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, cwd=home, env=clean, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command[:6])} failed:\n{done.stdout[-2000:]}{done.stderr[-4000:]}")


if __name__ == "__main__":
    main()
