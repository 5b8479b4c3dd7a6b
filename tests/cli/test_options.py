import inspect
from typing import Annotated, get_args, get_origin

import pytest

from bayespatch.cli import options
from bayespatch.encode.schema import MISSING_RULES
from bayespatch.estimator import PatchworkClassifier
from bayespatch.model import KINDS
from bayespatch.parents import WAYS

TYPES = {name: kind for name, kind in vars(options).items() if get_origin(kind) is Annotated}


@pytest.mark.parametrize("name", TYPES)
def test_every_option_says_what_it_is(name):
    assert TYPES[name].__metadata__[0].help.endswith(".")


def test_choices_are_those_of_the_library():
    assert get_args(options.ModelKind) == KINDS
    assert set(get_args(options.Missing)) == {"auto", *MISSING_RULES}
    assert set(get_args(options.ParentsWay)) == {"auto", *WAYS}


def test_defaults_are_those_of_the_classifier():
    from bayespatch.cli.fit import fit

    ours, theirs = inspect.signature(fit).parameters, inspect.signature(PatchworkClassifier).parameters
    for name in ("model", "parents", "n_parents", "hyper", "missing", "engine", "chains", "draws", "warmup"):
        assert ours[name].default == theirs[name].default
