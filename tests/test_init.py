import subprocess
import sys
from pathlib import Path

import pytest

import bayespatch

OPTIONAL = (
    "sqlalchemy",
    "alembic",
    "pandas",
    "polars",
    "matplotlib",
    "jinja2",
    "typer",
    "rich",
    "arviz_base",
    "xarray",
)
SLOW = ("numpy", "scipy", "numba", "sklearn", "arviz_stats", "narwhals")


def python(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()


def test_every_public_name_is_there():
    for name in bayespatch.__all__:
        assert getattr(bayespatch, name) is not None
        assert name in dir(bayespatch)


def test_plots_and_reports_need_no_import_of_their_own():
    code = "import bayespatch; print(bayespatch.plot.patchwork.__name__, bayespatch.report.case_report.__name__)"
    assert python(code) == ["patchwork", "case_report"]


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="has no attribute 'patchwork'"):
        bayespatch.patchwork


def test_importing_loads_nothing_slow_and_nothing_optional():
    loaded = set(python("import sys, bayespatch; print(*{name.split('.')[0] for name in sys.modules})"))
    assert not loaded & {*OPTIONAL, *SLOW}


def test_the_library_does_not_load_the_program():
    code = "import sys, bayespatch; [getattr(bayespatch, name) for name in bayespatch.__all__]; print(*sys.modules)"
    loaded = python(code)
    assert "bayespatch.estimator" in loaded
    assert not [name for name in loaded if name.startswith("bayespatch.cli")]


def test_importing_takes_less_than_half_a_second():
    code = "import time; began = time.perf_counter(); import bayespatch; print(time.perf_counter() - began)"
    assert min(float(python(code)[0]) for _ in range(3)) < 0.5  # the quickest: other programs may be in the way


def test_type_information_is_shipped():
    assert (Path(bayespatch.__file__).parent / "py.typed").exists()


def test_the_core_does_without_optional_packages():
    block = f"import sys; sys.modules.update(dict.fromkeys({OPTIONAL!r}))"
    run = (
        "import warnings; warnings.simplefilter('ignore'); import bayespatch;"
        "p = bayespatch.sample([[0], [1]], [0, 1], [[0], [1]], [0, 1], n_values=[2], n_classes=2, engine='paper',"
        " chains=1, draws=4, warmup=1); print(*p.q.shape)"
    )
    assert python(f"{block}; {run}") == ["1", "4", "1"]


def test_sample_is_the_function_whatever_was_imported_first():
    """In one process, from which the package is taken out again each time: what it needs takes longest to load."""
    firsts = (
        "from bayespatch.sampling.sampler import sample",
        "import bayespatch.sampling.sampler",
        "import bayespatch; bayespatch.sample",
        "import bayespatch.sampling.posterior, bayespatch.model",
    )
    thens = ("import bayespatch; found = bayespatch.sample", "from bayespatch import sample as found")
    code = (
        "import sys\n"
        f"for first in {firsts!r}:\n"
        f"    for then in {thens!r}:\n"
        "        for name in [name for name in sys.modules if name.split('.')[0] == 'bayespatch']:\n"
        "            del sys.modules[name]\n"
        "        names = {}\n"
        "        exec(f'{first}; {then}', names)\n"
        "        print(type(names['found']).__name__)\n"
    )
    assert python(code) == ["function"] * 8
