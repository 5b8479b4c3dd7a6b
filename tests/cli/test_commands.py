import runpy
from pathlib import Path

from bayespatch.cli.commands import app
from tests.cli.program import call

NAMES = (
    *("demo", "describe", "fit", "predict", "explain", "what-if", "counterfactual"),
    *("report", "governance", "validate", "info", "compare", "serve"),
)


def test_the_commands_in_their_order():
    text = call("--help").stdout
    places = [text.index(f"│ {name} ") for name in NAMES]
    assert places == sorted(places)
    assert len(app.registered_commands) == len(NAMES)


def test_every_command_has_help_with_examples():
    for name in NAMES:
        result = call(name, "--help")
        assert result.exit_code == 0
        assert f"$ bayespatch {name}" in result.stdout


def test_nothing_said_is_a_request_for_help():
    result = call()
    assert "Usage" in result.stdout + result.stderr
    assert result.exit_code in (0, 2)  # versions of typer differ


def test_the_page_about_the_commands_is_not_stale():
    maker = runpy.run_path(str(Path(__file__).parents[2] / "generators" / "cli_page.py"))
    assert maker["PAGE"].read_text(encoding="utf-8") == maker["page"](), "run make pages GENERATORS=cli_page"
