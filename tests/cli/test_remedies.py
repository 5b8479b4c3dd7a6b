"""What messages tell people to do: commands, options, functions and parameters that exist."""

import ast
import inspect
import re
from pathlib import Path

import pytest
import typer

import bayespatch
from bayespatch.cli.commands import app
from bayespatch.estimator import PatchworkClassifier, PatchworkRegressor

SOURCE = Path(bayespatch.__file__).parent
COMMAND = typer.main.get_command(app)
FOREIGN = {"--no-sandbox"}  # options of other programs


def commands():
    """Every command by its words, with its options."""
    found = {}
    for name, command in COMMAND.commands.items():
        inner = getattr(command, "commands", {})
        for words, one in ({f"{name} {k}": v for k, v in inner.items()} or {name: command}).items():
            found[words] = {option for param in one.params for option in param.opts}
    return found


def parameters():
    """The parameters of all functions and classes of the package."""
    names = {field for cls in (PatchworkClassifier, PatchworkRegressor) for field in inspect.signature(cls).parameters}
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef):
                names |= {arg.arg for arg in (*node.args.args, *node.args.kwonlyargs)}
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                names.add(node.target.id)
    return names


def texts():
    """All texts of the source, those with values in them with {} there; and where they are."""
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            where = f"{path.relative_to(SOURCE)}:{getattr(node, 'lineno', 0)}"
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield where, node.value
            elif isinstance(node, ast.JoinedStr):
                parts = (part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)
                yield where, "".join(map(str, parts))


def unknown(where_and_text, known_commands, known_parameters):
    """Every remedy in a text that does not exist."""
    where, text = where_and_text
    options = {"--help", "--version", "--traceback", *FOREIGN} | set().union(*known_commands.values())
    wrong = [option for option in re.findall(r"(?<![\w-])--[a-z][a-z-]+", text) if option not in options]
    for words in re.findall(r"(?<![\w/.-])bayespatch ([a-z]+(?:-[a-z]+)*(?: [a-z]+(?:-[a-z]+)*)?)", text):
        first, _, rest = words.partition(" ")
        is_command = first in known_commands or f"{first} {rest}" in known_commands
        if re.search(rf"(\$|'|: |with|run|and) ?'?bayespatch {first}", text) and not is_command:
            wrong.append(f"bayespatch {words}")
    for word in re.findall(r"\b(?:change|make|do|repair) it with ([a-z]+)(?:[;,.)]|$)", text):
        wrong += [word] if word not in {words.split()[-1] for words in known_commands} else []
    for remedy in re.findall(r"(?<!-)\b(?:pass|with|set|by|or) ([a-z_]+)=", text):
        wrong += [f"{remedy}="] if remedy not in known_parameters else []
    for owner, attribute in re.findall(r"\b(CaseBase|clf)\.([a-z_]+)\b", text):
        cls = PatchworkClassifier if owner == "clf" else bayespatch.CaseBase
        if not attribute.endswith("_") and not hasattr(cls, attribute):
            wrong.append(f"{owner}.{attribute}")
    return [f"{where}: {one}" for one in wrong]


def test_remedies_exist():
    known, names = commands(), parameters()
    assert len(known) > 30
    wrong = [one for text in texts() for one in unknown(text, known, names)]
    assert not wrong, "\n".join(["", *wrong])


@pytest.mark.parametrize(
    "text",
    [
        "pass --allow-everything",
        "make one: bayespatch casebase begin",
        "change it with 'bayespatch define'",
        "the case base has a data dictionary already; change it with define",
        "pass anything_at_all=True",
        "use CaseBase.redefine for it",
    ],
)
def test_a_remedy_that_does_not_exist_is_found(text):
    assert unknown(("here", text), commands(), parameters())
