"""The blocks of the documentation: commands have the documented options, and files have the documented format."""

import json
import re
import shlex
from pathlib import Path

import pytest
import yaml

from bayespatch.dictionary import Dictionary

ROOT = Path(__file__).parents[1]
PAGES = [
    *(ROOT / name for name in ("README.md", "SECURITY.md", "CONTRIBUTING.md")),
    *(path for path in sorted((ROOT / "docs").glob("*.md")) if path.stem != "cli-transcripts"),  # some of those fail
]
BLOCK = re.compile(r"^( *)```(\w*)\n(.*?)^\1```", re.DOTALL | re.MULTILINE)
KINDS = {"console", "python", "text", "yaml", "toml", "ini", "nginx"}
BENCHMARK = re.compile(r"`python (benchmarks/\w+\.py)([^`]*)`")


def blocks(page, kind):
    text = (ROOT / "docs" / f"{page}.md" if isinstance(page, str) else page).read_text(encoding="utf-8")
    return [body for _, found, body in BLOCK.findall(text) if found == kind]


def simple_commands(line):
    """The commands of a line for the shell, as lists of words."""
    lexer = shlex.shlex(re.sub(r"\$\([^)]*\)", "X", line), posix=True, punctuation_chars="|&;<>")
    lexer.wordchars += "$*?=:{}[]%,@+"
    words: list[str] = []
    for word in [*lexer, ";"]:
        if set(word) <= set("|&;<>"):
            if words:
                yield words
            words = []
        else:
            words.append(word)


def commands():
    """Page and words of every command in a console block or a systemd unit."""
    for page in PAGES:
        for block in blocks(page, "console"):
            for line in re.findall(r"^ *\$ ((?:.*\\\n)*.*)$", block, re.MULTILINE):
                for words in simple_commands(line.replace("\\\n", "")):
                    yield page.name, words
        for block in blocks(page, "ini"):
            for line in re.findall(r"^ExecStart=(.*)$", block, re.MULTILINE):
                yield page.name, shlex.split(line)


def of_the_program():
    for page, words in commands():
        if words[0].endswith("bayespatch"):
            yield page, words[1:]
        elif words[:2] == ["docker", "compose"] and "app" in words:
            yield page, words[words.index("app") + 1 :]


def parse(words):
    """Parse the words as the program does, without running the command; wrong ones raise an error."""
    from typer.main import get_command

    from bayespatch.cli.commands import app

    command, words = get_command(app), list(words)
    if words == ["--version"]:
        return
    while hasattr(command, "commands"):
        command = command.commands[words.pop(0)]
    command.make_context("bayespatch", words)


def test_every_block_has_a_known_kind():
    unknown = {
        (page.name, kind)
        for page in PAGES
        for _, kind, _ in BLOCK.findall(page.read_text(encoding="utf-8"))
        if kind not in KINDS
    }
    assert unknown <= {("cli.md", ""), ("CONTRIBUTING.md", "")}  # generated from docstrings; checked by test_layers.py


@pytest.mark.parametrize(("page", "words"), list(of_the_program()), ids=lambda part: " ".join(part)[:60])
def test_a_command_has_the_documented_options(page, words):
    parse(words)


@pytest.mark.parametrize(
    ("words", "wrong"),
    [
        (["fit", "a.csv", "--targets", "x"], "No such option"),
        (["casebase", "ini", "a.db"], "ini"),
        (["explain"], "Missing parameter: model"),
    ],
)
def test_a_wrong_command_is_found(words, wrong):
    with pytest.raises(Exception, match=wrong):
        parse(words)


def test_the_targets_of_make_exist():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    named = {words[1] for _, words in commands() if words[0] == "make"}
    assert {"demo", "test", "catalogs", "audit"} <= named
    assert not [name for name in named if not re.search(rf"^{name}:", makefile, re.MULTILINE)]


@pytest.mark.parametrize("page", [*PAGES, ROOT / "benchmarks" / "README.md"], ids=lambda page: page.name)
def test_the_benchmarks_that_pages_name_exist(page):
    for path, options in BENCHMARK.findall(" ".join(page.read_text(encoding="utf-8").split())):
        source = (ROOT / path).read_text(encoding="utf-8")
        assert not [option for option in re.findall(r"--[a-z-]+", options) if f'"{option}"' not in source], path


# Files


def test_the_documented_mapping_can_be_read():
    pytest.importorskip("fhirpathpy")
    from bayespatch.fhir.rules import read_rules

    whole, column = blocks("fhir", "yaml")
    rules = read_rules(whole)
    assert {rule.column for rule in rules.all} >= {"age", "chol", "infarction"}
    assert [rule.column for rule in read_rules(f"fhir: R4\ncolumns:\n{column}").all] == ["hba1c"]


def test_the_documented_record_systems_can_be_read(tmp_path):
    pytest.importorskip("fhirpathpy")
    from joserfc.jwk import ECKey

    from bayespatch.web.record_systems import RecordSystems

    (tmp_path / "mapping.yaml").write_text(blocks("fhir", "yaml")[0])
    key = ECKey.generate_key("P-256", {"kid": "1"})
    (tmp_path / "ehr-keys.json").write_text(json.dumps({"keys": [key.as_dict(private=False)]}))
    (tmp_path / "ehr-secret").write_text("secret")
    (tmp_path / "record-systems.toml").write_text("\n".join(blocks("fhir", "toml")))
    found = RecordSystems.read(str(tmp_path / "record-systems.toml"))
    assert [client.name for client in found.clients] == ["ehr"]
    assert [server.client_id for server in found.servers] == ["bayespatch"]


def test_the_documented_single_sign_on_can_be_read(tmp_path):
    pytest.importorskip("joserfc")
    from bayespatch.web.single_sign_on import SingleSignOn

    [text] = blocks("serve", "toml")
    (tmp_path / "provider.toml").write_text(text)
    assert SingleSignOn.read(str(tmp_path / "provider.toml")).role_of({"groups": ["cardiology"]}) == "clinician"


@pytest.mark.parametrize(("page", "columns"), [("casebase", ["age", "cp", "mrn"]), ("follow-up", ["horTh", "stay"])])
def test_the_documented_data_dictionary_can_be_read(page, columns, tmp_path):
    [text] = [block for block in blocks(page, "text") if block.startswith("name,")]
    (tmp_path / "columns.csv").write_text(text)
    assert list(Dictionary.read(tmp_path / "columns.csv").names)[: len(columns)] == columns


def test_the_documented_alerts_name_gauges_that_exist():
    [text] = blocks("monitoring", "yaml")
    rules = yaml.safe_load(text)["groups"][0]["rules"]
    named = {name for rule in rules for name in re.findall(r"bayespatch_\w+", rule["expr"])}
    assert named
    sources = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "src/bayespatch/web").rglob("*.py"))
    assert not [name for name in named if f'"{name.removeprefix("bayespatch_")}"' not in sources]


def test_the_shares_of_treated_women_are_those_of_the_table():
    pytest.importorskip("lifelines")
    from lifelines.datasets import load_gbsg2

    table = load_gbsg2()
    given = (table["horTh"] == "yes").groupby(table["menostat"]).mean()
    text = (ROOT / "docs" / "follow-up.md").read_text(encoding="utf-8")
    assert f"{given['Post']:.0%} of the women after menopause and {given['Pre']:.0%} of those before" in text
