import pytest

from tests.cli.clinic import write_csv
from tests.cli.program import FIT, call


@pytest.fixture(scope="session")
def clinic(tmp_path_factory):
    """A folder with a table, new cases and a model of it, made once."""
    folder = tmp_path_factory.mktemp("clinic")
    write_csv(folder / "patients.csv")
    write_csv(folder / "new.csv", 5, seed=9)
    result = call("fit", folder / "patients.csv", *FIT, "--out", folder / "model.bpatch")
    assert result.exit_code == 0, result.stderr
    return folder
