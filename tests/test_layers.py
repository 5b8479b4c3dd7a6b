"""Which module may import which: layers, cycles, packages. Imports are read, not run, so that a lazy one counts too."""

import ast
import re
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]

# The path through the code, from a table to a page. A layer (a package, or a module) knows those before it, never those
# after. Four modules of `persistence` come early: they know files, not models, and sampling writes with them.
LAYERS = (
    *(
        "version",
        "types",
        "language",
        "model",
        "simulate",
        "validation",
        "metrics",
        "decisions",
        "survival",
        "duplicates",
        "available_memory",
    ),
    *("encode", "follow_up", "dictionary", "parents"),
    *("engine", "workers", "progress"),
    *("persistence.atomic", "persistence.file_format", "persistence.checkpoint_folder"),
    "persistence.mapped_arrays",
    *("retrieval", "sampling", "importances", "importances_at_scale", "importances_of_times"),
    *("calibrate", "calibrate_times", "predict", "leave_one_out", "kernel_density", "tune", "second_opinion", "pool"),
    *("feature_importance", "subgroups", "fitted", "fitted_times", "explain", "plot", "report"),
    *("persistence", "estimator"),
    *("datasets", "source", "fhir", "compare", "evaluation", "casebase", "web", "cli", "__main__"),
)

# These see arrays and numbers, never tables: they do not know the layers that turn one into the other.
ARRAY_LAYERS = (
    *("version", "model", "simulate", "validation", "survival", "available_memory", "engine", "progress"),
    *("persistence.atomic", "persistence.file_format", "persistence.checkpoint_folder"),
    "persistence.mapped_arrays",
    *(
        "retrieval",
        "sampling",
        "importances",
        "importances_at_scale",
        "calibrate",
        "calibrate_times",
        "predict",
        "leave_one_out",
    ),
)
TABLE_LAYERS = ("encode", "parents", "datasets", "source")

# Package -> the only layers (or modules) that may import it.
KEEPERS = {
    "pandas": ("encode", "datasets", "source", "second_opinion.cox"),
    "polars": ("encode", "datasets", "source"),
    "pyarrow": ("encode", "datasets", "source"),
    "duckdb": ("source",),
    "openpyxl": ("source",),
    "psycopg": ("source",),
    "sqlite3": ("source", "casebase"),
    "sqlalchemy": ("casebase",),
    "alembic": ("casebase",),
    "yaml": ("dictionary", "fhir"),
    "fhirpathpy": ("fhir",),
    "pint": ("fhir",),
    "ucumvert": ("fhir",),
    "filelock": ("casebase",),
    "narwhals": ("encode",),
    "numba": ("engine", "retrieval"),
    "dask": ("workers",),
    "distributed": ("workers",),
    "matplotlib": ("plot",),
    "jinja2": ("explain.html", "report", "web"),
    "starlette": ("web",),
    "fastapi": ("web",),
    "uvicorn": ("web",),
    "argon2": ("web",),
    "zxcvbn": ("web",),
    "pyotp": ("web",),
    "joserfc": ("web",),
    "babel": ("language",),
    "typer": ("cli",),
    "rich": ("progress", "cli"),
    "safetensors": ("persistence",),
    "arviz_stats": ("sampling",),
    "lifelines": ("second_opinion",),
    "arviz": ("sampling",),
    "xarray": ("sampling",),
    "sklearn": (*("metrics", "encode", "parents", "second_opinion", "explain", "estimator", "datasets", "compare"),),
}
WITHOUT_NUMBA = ("engine.base", "engine.paper")  # the contract, and the oracle that is to be read
HANDS_OUT = {
    "pandas": "to_frame"
}  # a function of this name may import the package anywhere: it gives, and takes nothing

# Not among the core dependencies: imported inside a function, or in a try that names the install command.
OPTIONAL = (
    *("pandas", "polars", "pyarrow", "duckdb", "psycopg", "matplotlib", "jinja2"),
    *("typer", "rich", "arviz", "xarray", "lifelines", "fhirpathpy", "pint", "ucumvert", "babel"),
)

UNWANTED_NAMES = ("utils", "util", "helpers", "helper", "common", "misc")


class Import(NamedTuple):
    """One imported module, and the circumstances."""

    target: str
    line: int
    function: str | None  # the innermost function around it
    guarded: bool  # inside a function, a try, or TYPE_CHECKING


def imports_of(source: str, package: str) -> list[Import]:
    """All imports of a module's source; `package` is the package it lies in, for relative imports."""
    found: list[Import] = []

    def visit(node: ast.AST, function: str | None, guarded: bool) -> None:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            function, guarded = node.name, True
        elif isinstance(node, ast.Try) or (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)):
            guarded = True
        if isinstance(node, ast.Import):
            found.extend(Import(name.name, node.lineno, function, guarded) for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            parts = package.split(".")[: -(node.level - 1) or None] if node.level else []
            base = ".".join([*parts, *([node.module] if node.module else [])])
            found.extend(Import(f"{base}.{name.name}", node.lineno, function, guarded) for name in node.names)
        for child in ast.iter_child_nodes(node):
            visit(child, function, guarded)

    visit(ast.parse(source), None, False)
    return found


def modules_of(root: Path) -> dict[str, Path]:
    """The modules by their name below ``bayespatch``: "model", "engine.cpu"; "" is the package itself."""
    source = root / "src" / "bayespatch"
    names = {}
    for path in sorted(source.rglob("*.py")):
        parts = path.relative_to(source).with_suffix("").parts
        names[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return names


def is_in(name: str, places: tuple[str, ...]) -> bool:
    """Whether a module is one of the places, or inside one."""
    return any(name == place or name.startswith(f"{place}.") for place in places)


def violations(root: Path) -> list[str]:
    """Every broken rule, as a sentence."""
    modules = modules_of(root)
    broken = []
    knows: dict[str, set[str]] = {}
    for name, path in modules.items():
        where = str(path.relative_to(root))
        layer = layer_of(name)
        text = path.read_text(encoding="utf-8")
        if name and not layer:
            broken.append(f"{where}: {name!r} is in no layer; give it a place in LAYERS")
            continue
        if path.stem in UNWANTED_NAMES:
            broken.append(f"{where}: a file is named after what it is about")
        package = ".".join(["bayespatch", *name.split(".")][: None if path.stem == "__init__" else -1])
        knows[name] = set()
        for found in imports_of(text, package.rstrip(".")):
            top = found.target.split(".")[0]
            if top == "bayespatch":
                target = resolve(found.target, modules)
                knows[name] |= loaded_by(target, name) - {name}
                broken += [f"{where}:{found.line}: {why}" for why in layer_rules(name, layer, target)]
            else:
                broken += [f"{where}:{found.line}: {why}" for why in package_rules(name, top, found)]
    broken += cycles(knows)
    return broken


def loaded_by(target: str, name: str) -> set[str]:
    """The module and the packages around it, whose ``__init__`` runs first; not those around the importing module."""
    parts = target.split(".")
    packages = {".".join(parts[:k]) for k in range(1, len(parts))}
    return {target, *(package for package in packages if not is_in(name, (package,)))}


def resolve(target: str, modules: dict[str, Path]) -> str:
    """The module that an import reaches: ``bayespatch.model.Data`` is in "model"."""
    name = target.removeprefix("bayespatch").removeprefix(".")
    while name and name not in modules:
        name = name.rpartition(".")[0]
    return name


def layer_of(name: str) -> str:
    """The layer that a module is in, the narrowest; "" where it is in none."""
    return max((layer for layer in LAYERS if is_in(name, (layer,))), key=len, default="")


def layer_rules(name: str, layer: str, target: str) -> list[str]:
    """What is wrong with a layer knowing another."""
    other = layer_of(target)
    if not name or other == layer:  # the package itself passes all names on
        return []
    if not target:
        return ["the package's own names are for its users; import from the module itself"]
    if not other:
        return []  # reported where it stands
    if LAYERS.index(other) > LAYERS.index(layer):
        return [f"{layer} knows {other}, which comes after it"]
    if layer in ARRAY_LAYERS and other in TABLE_LAYERS:
        return [f"{layer} sees arrays and numbers, but imports {other}"]
    return []


def package_rules(name: str, top: str, found: Import) -> list[str]:
    """What is wrong with a module importing a package from outside."""
    broken = []
    keepers = KEEPERS.get(top)
    hands_out = top in HANDS_OUT and found.function == HANDS_OUT[top]
    if keepers is not None and not is_in(name, keepers) and not hands_out:
        broken.append(f"{top} is for {', '.join(keepers)} alone")
    if top == "numba" and name in WITHOUT_NUMBA:
        broken.append(f"{name} is without Numba")
    if top in OPTIONAL and not found.guarded:
        broken.append(f"{top} is optional: import it where it is used and name the install command when it is missing")
    return broken


def cycles(knows: dict[str, set[str]]) -> list[str]:
    """Modules that import each other in a circle (the top of the package aside: it only passes names on)."""
    done: set[str] = set()

    def walk(name: str, path: tuple[str, ...]) -> list[str]:
        if name in path:
            return [f"a circle of imports: {' -> '.join([*path[path.index(name) :], name])}"]
        if name in done:
            return []
        found = [line for other in sorted(knows.get(name, ())) for line in walk(other, (*path, name))]
        done.add(name)
        return found

    return [line for name in sorted(knows) if name for line in walk(name, ())]


def test_layers_are_kept_and_there_are_no_cycles():
    broken = violations(ROOT)
    assert not broken, "\n".join(["", *broken])


def test_the_modules_are_found():
    assert {"", "model", "engine.base", "sampling.sampler"} <= set(modules_of(ROOT))


def test_contributing_lists_the_layers_in_their_order_and_describes_each():
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    page = page.partition("## Modules")[2].partition("## How to add a model")[0]
    listed = [name.strip() for name in page.split("```")[1].split("->")]
    expected = [
        "persistence (models)" if layer == "persistence" else re.sub(r"^persistence\..*", "persistence (files)", layer)
        for layer in LAYERS
    ]
    assert listed == list(dict.fromkeys(expected))
    named = re.findall(r"`([a-z_]+)/?`", "".join(line.split("|")[1] for line in page.splitlines() if line[:3] == "| `"))
    assert set(named) == {layer.split(".")[0] for layer in LAYERS}


def build(root: Path, files: dict[str, str]) -> Path:
    """A small package."""
    for name, text in {"__init__.py": "", "engine/__init__.py": "", **files}.items():
        path = root / "src" / "bayespatch" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


@pytest.mark.parametrize(
    ("files", "complaint"),
    [
        (
            {"model.py": "from bayespatch.sampling import sample", "sampling.py": ""},
            "model knows sampling, which comes after",
        ),
        ({"model.py": "from .sampling import sample", "sampling.py": ""}, "model knows sampling"),
        ({"engine/base.py": "from .. import sampling", "sampling.py": ""}, "engine knows sampling"),
        ({"model.py": "def f():\n    import bayespatch.plot", "plot.py": ""}, "model knows plot"),
        ({"engine/cpu.py": "from bayespatch.encode import Schema", "encode.py": ""}, "engine sees arrays"),
        ({"tune.py": "import bayespatch"}, "are for its users"),
        ({"model.py": "import numba"}, "numba is for engine, retrieval alone"),
        ({"engine/paper.py": "from numba import njit"}, "engine.paper is without Numba"),
        ({"explain.py": "def f():\n    from matplotlib import pyplot"}, "matplotlib is for plot alone"),
        ({"plot.py": "import matplotlib.pyplot as plt"}, "matplotlib is optional"),
        (
            {"sampling.py": "def f():\n    import pandas"},
            "pandas is for encode, datasets, source, sec",
        ),
        ({"explain.py": "import narwhals as nw"}, "narwhals is for encode alone"),
        ({"predict.py": "from sklearn.base import BaseEstimator"}, "sklearn is for"),
        ({"attic.py": ""}, "'attic' is in no layer"),
        ({"engine/utils.py": ""}, "named after what it is about"),
        (
            {"engine/cpu.py": "from .kernels import f", "engine/kernels.py": "from bayespatch.engine.cpu import g"},
            "a circle of imports: engine.cpu -> engine.kernels -> engine.cpu",
        ),
        (
            {
                "engine/base.py": "def f():\n    from bayespatch.engine.cpu.voting import g",
                "engine/cpu/__init__.py": "from bayespatch.engine.base import Engine",
                "engine/cpu/voting.py": "",
            },
            "a circle of imports: engine.base -> engine.cpu -> engine.base",
        ),
    ],
)
def test_a_planted_violation_is_found(tmp_path, files, complaint):
    found = violations(build(tmp_path, files))
    assert len(found) == 1
    assert complaint in found[0]


@pytest.mark.parametrize(
    "files",
    [
        {
            "__init__.py": "from bayespatch.sampling import sample",
            "sampling.py": "from bayespatch.model import Data",
            "model.py": "",
        },
        {"metrics.py": "class D:\n    def to_frame(self):\n        import pandas"},
        {"plot.py": "def axes():\n    import matplotlib.pyplot"},
        {"plot.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from matplotlib.axes import Axes"},
        {"engine/cpu.py": "from bayespatch.engine import kernels", "engine/kernels.py": "from numba import njit"},
    ],
)
def test_what_is_allowed_is_not_complained_about(tmp_path, files):
    assert violations(build(tmp_path, files)) == []
