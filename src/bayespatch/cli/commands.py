"""The program: its commands, in the order in which someone new meets them."""

from __future__ import annotations

from bayespatch.cli import casebase
from bayespatch.cli.app import Group, new_app
from bayespatch.cli.asking import explain, predict
from bayespatch.cli.counterfactual import counterfactual
from bayespatch.cli.describe import describe
from bayespatch.cli.learning import compare, fit
from bayespatch.cli.serve import serve
from bayespatch.cli.showing import demo, info, report, study
from bayespatch.cli.what_if import what_if
from bayespatch.version import __version__

ABOUT = (
    "Bayesian Patchworks: predictions pieced together from past cases, and from those of their features that matter. "
    "Try 'bayespatch demo' first."
)

COMMANDS = (demo, describe, fit, predict, explain, what_if, counterfactual, report, info, compare, serve, study)

GROUPS = {"casebase": Group(casebase.ABOUT, casebase.COMMANDS)}

app = new_app(COMMANDS, ABOUT, __version__, GROUPS)
