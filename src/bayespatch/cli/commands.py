"""The commands of the program, in the order in which a new user needs them."""

from __future__ import annotations

from bayespatch.cli import casebase
from bayespatch.cli.app import CommandGroup, new_app
from bayespatch.cli.compare import compare
from bayespatch.cli.counterfactual import counterfactual
from bayespatch.cli.demo import demo
from bayespatch.cli.describe import describe
from bayespatch.cli.explain import explain
from bayespatch.cli.fit import fit
from bayespatch.cli.governance import governance
from bayespatch.cli.info import info
from bayespatch.cli.predict import predict
from bayespatch.cli.report import report
from bayespatch.cli.serve import serve
from bayespatch.cli.validate import validate
from bayespatch.cli.what_if import what_if
from bayespatch.version import __version__

ABOUT = "Bayesian Patchworks: predictions from similar past cases, with the reasons. Start with 'bayespatch demo'."

COMMANDS = (
    demo,
    describe,
    fit,
    predict,
    explain,
    what_if,
    counterfactual,
    report,
    governance,
    validate,
    info,
    compare,
    serve,
)

GROUPS = {"casebase": CommandGroup(casebase.ABOUT, casebase.COMMANDS)}

app = new_app(COMMANDS, ABOUT, __version__, GROUPS)
