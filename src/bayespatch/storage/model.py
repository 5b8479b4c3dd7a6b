"""A fitted estimator as a file, and back.

A model file (`container` says how it is laid out) has a manifest with the keys of `_KEYS`, a part "arrays" (the
posterior, and who is a parent and who a case) and a part "cases" (the training table: its coded values ``x``, the
``values`` themselves, the classes ``y``, of a regressor the ``outcomes`` and, where they have any, the names ``ids`` of
its rows), both safetensors. The cases are other people's data: they can be left out, or stored in a file of their own.
The manifest has their checksum in any case, so that no other cases can be put in their place. What stays without them
is the schema (categories, bins, the lowest and highest number of columns with a window, up to 101 quantiles of ranked
ones), of a regressor the edges of the classes of outcomes and their mean, and numbers about the training table's rows
(importances, who is whose neighbor, how these vote), but no row's values.

`save` puts a model through the same checks (`believe`) as `load` before it writes a byte: what is written can be read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from importlib import import_module
from os import PathLike
from typing import Any, NoReturn

import numpy as np

from bayespatch.check import check_choice, check_flag
from bayespatch.container import File, Part, StorageError, digest, package_version, read, refuse, write
from bayespatch.diagnostics import Diagnostics
from bayespatch.posterior import Posterior
from bayespatch.storage.arrays import (
    ARRAYS,
    CASES_OF_REGRESSORS,
    POSTERIOR,
    SIZES,
    Arrays,
    as_bytes,
    in_their_types,
    packed,
    unpacked,
)
from bayespatch.storage.believe import believed, parameters_of
from bayespatch.storage.plain import plain_array, plain_hyper, plain_parameters
from bayespatch.tune import Tuning

Path = str | PathLike[str]

# Where to find them, by name as engines are: this room comes before the estimators and does not know them.
ESTIMATORS = dict.fromkeys(("PatchworkClassifier", "PatchworkRegressor"), "bayespatch.estimator")

_KEYS = (
    "format",
    "package",  # the version of bayespatch that wrote the file
    "holds",  # "model"; a file with nothing but cases says "cases"
    "estimator",
    "parameters",
    "classes",  # null where the outcome is a number
    "edges",  # of the classes into which a number is cut; null where there are classes anyway
    "names",  # what outcome and classes are called
    "feature_names",  # null where the training table had none
    "schema",
    "model",
    "settings",
    "timing",
    "sizes",
    "diagnostics",
    "calibration",
    "dressing",  # null where the outcome is a class
    "tuning",  # null where the hyperparameters were given
    "cases_sha256",
    "parts",
)
_CASES_KEYS = ("format", "package", "holds", "parts")
_WRONG = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)  # said by any check


class LeftOut:
    """Stands where the past cases would be of a model that was loaded without them; every use says so."""

    def __init__(self, path: str, sha256: str, n_rows: int) -> None:
        self.path, self.sha256, self.n_rows = path, sha256, n_rows

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise refuse(
            self.path,
            "the model was loaded without its past cases and cannot predict until it has them",
            "load it together with the file that holds them: load(path, cases=...)",
        )

    __array__ = __getitem__ = __len__ = __iter__ = _refuse

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "path" not in vars(self):  # copying looks for such names
            raise AttributeError(name)
        self._refuse()

    def __repr__(self) -> str:
        return "<past cases, left out>"


class Storable:
    """Gives an estimator its method `save`."""

    def save(self, path: Path, *, with_cases: bool = True, cases_path: Path | None = None) -> None:
        """Write the fitted model to one file, which `bayespatch.load` reads; nothing in it is ever executed.

        Parameters
        ----------
        path : path
            Where to; an existing file is replaced, once the new one is complete. The suffix ``.bpatch`` is usual.
        with_cases : bool
            False leaves the values of the past cases out: the model can be loaded, but not predict.
        cases_path : path, optional
            A file of their own for the past cases; ``load(path, cases=cases_path)`` brings them together again.

        Examples
        --------
        >>> from bayespatch import PatchworkClassifier
        >>> X, y = [["yes", 61], ["yes", 58], ["no", 40], ["no", 44]] * 5, ["sick", "sick", "well", "well"] * 5
        >>> clf = PatchworkClassifier(draws=50, warmup=50, random_state=0).fit(X, y)
        >>> import os, tempfile, bayespatch
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     model, cases = os.path.join(folder, "model.bpatch"), os.path.join(folder, "cases.bpatch")
        ...     clf.save(model, cases_path=cases)
        ...     bayespatch.load(model, cases=cases).predict([["yes", 60]])
        array(['sick'], dtype='<U4')
        """
        save(self, path, with_cases=with_cases, cases_path=cases_path)


# Saving


def save(estimator: Any, path: Path, *, with_cases: bool = True, cases_path: Path | None = None) -> None:
    """Write a fitted estimator to a file; see `Storable.save`."""
    if not hasattr(estimator, "posterior_"):
        raise refuse(path, "there is no model to save", "call fit first")
    try:
        check_flag("with_cases", with_cases)
        if not with_cases and cases_path is not None:
            raise ValueError("cases_path says where the past cases go, with_cases=False that they go nowhere")
        arrays, past = _arrays(estimator)
        cases = None if past is None else packed(past)
        manifest = _manifest(estimator, cases)
        believed(manifest, arrays, past)
    except _WRONG as error:
        if isinstance(error, StorageError):
            raise
        raise refuse(path, f"the model cannot be saved: {error}", "correct this and save again") from error
    parts: dict[str, Part] = {"arrays": packed(arrays)}
    if not with_cases:
        write([(path, File(manifest, parts))])
    elif cases is None:
        raise refuse(
            path,
            "the model cannot be saved with its past cases, it was loaded without them",
            "load it with load(path, cases=...), or pass with_cases=False",
        )
    elif cases_path is None:
        write([(path, File(manifest, {**parts, "cases": cases}))])
    else:
        apart = File({"package": manifest["package"], "holds": "cases"}, {"cases": cases})
        write([(cases_path, apart), (path, File(manifest, parts))])


def _arrays(estimator: Any) -> tuple[Arrays, Arrays | None]:
    """The arrays of the model, and those of its past cases, where they are there."""
    found = {name: getattr(estimator.posterior_, name) for name in POSTERIOR}
    found |= {"parents": estimator.parents_, "cases": estimator.cases_}
    found |= {f"review_{name}": array for name, array in estimator.review_._asdict().items()}
    if isinstance(estimator.x_, LeftOut):
        return in_their_types(found, ARRAYS), None
    past = {name: getattr(estimator, f"{name}_", None) for name in CASES_OF_REGRESSORS}
    ids = {} if estimator.ids_ is None else {"ids": as_bytes(estimator.ids_)}
    return in_their_types(found, ARRAYS), in_their_types(past, CASES_OF_REGRESSORS) | ids


def _manifest(estimator: Any, cases: Part | None) -> dict[str, Any]:
    """Everything but the arrays; the file adds its format and the list of parts."""
    posterior: Posterior = estimator.posterior_
    names = getattr(estimator, "feature_names_in_", None)
    classes, edges, dressing = (getattr(estimator, name, None) for name in ("classes_", "edges_", "dressing_"))
    sizes = (
        estimator.x_.n_rows if cases is None else len(estimator.x_),
        len(posterior.z_mean),
        len(estimator.parents_),
        len(estimator.schema_.columns),
        posterior.votes_mean.shape[1],
        posterior.n_chains,
        posterior.n_draws,
        len(estimator.review_.rows),
    )
    return {
        "package": package_version(),
        "holds": "model",
        "estimator": type(estimator).__name__,
        "parameters": plain_parameters(estimator.get_params(deep=False)),
        "classes": None if classes is None else plain_array(classes),
        "edges": None if edges is None else edges.tolist(),
        "names": {"target": estimator.target_, "names": list(estimator.class_names_)},
        "feature_names": None if names is None else [str(name) for name in names],
        "schema": estimator.schema_.to_dict(),
        "model": {
            "kind": posterior.model.kind,
            "likelihood": posterior.model.likelihood,
            "hyper": plain_hyper(posterior.hyper),
        },
        "settings": {name: np.asarray(value).item() for name, value in posterior.settings._asdict().items()},
        "timing": {name: np.asarray(value).item() for name, value in posterior.timing._asdict().items()},
        "sizes": dict(zip(SIZES, sizes, strict=True)),
        "diagnostics": _summary(estimator.diagnostics_),
        "calibration": {
            "slope": estimator.calibration_.slope,
            "intercepts": list(estimator.calibration_.intercepts),
        },
        "dressing": None if dressing is None else asdict(dressing),
        "tuning": _trials(estimator.tuning_),
        "cases_sha256": estimator.x_.sha256 if cases is None else digest(cases),
    }


def _summary(table: Diagnostics) -> dict[str, Any]:
    """Whether the chains have mixed; null where there is nothing to judge."""
    rhat, ess = table.rhat[np.isfinite(table.rhat)], table.ess[np.isfinite(table.ess)]
    return {
        "converged": bool(table.converged),
        "max_rhat": float(rhat.max()) if rhat.size else None,
        "min_ess": float(ess.min()) if ess.size else None,
    }


def _trials(tuning: Tuning | None) -> dict[str, Any] | None:
    """What was tried; the constants that were chosen are the model's."""
    return None if tuning is None else {"coding": tuning.coding, "trials": [list(trial) for trial in tuning.trials]}


# Loading


def load(path: Path, *, cases: Path | None = None) -> Any:
    """Read a model that its method `save` has written. Nothing is executed, everything is checked.

    Parameters
    ----------
    path : path
        The model file.
    cases : path, optional
        The file that holds the past cases, where the model file does not: the one that was `cases_path` when it was
        saved, or a complete file of the same model.

    Returns
    -------
    PatchworkClassifier or PatchworkRegressor
        Fitted; it predicts exactly as the one that was saved.

    Raises
    ------
    StorageError
        Where the file is not what `save` wrote: damaged, cut short, changed, or written by a newer version.

    Examples
    --------
    >>> import os, tempfile
    >>> from bayespatch import PatchworkClassifier, load
    >>> clf = PatchworkClassifier(draws=50, warmup=50, random_state=0).fit([[0], [1]] * 9, [0, 1] * 9)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "model.bpatch")
    ...     clf.save(path)
    ...     load(path).predict([[1]])
    array([1])
    """
    file = read(path)
    manifest, parts = file.manifest, dict(file.parts)
    if manifest.get("holds") == "cases":
        raise refuse(
            path, "holds the past cases of a model, and not the model", "pass the model's file, and this one as cases="
        )
    if cases is not None:
        parts["cases"] = _cases_of(path, manifest, cases)
    try:
        if tuple(manifest) != _KEYS or manifest["holds"] != "model" or set(parts) - {"cases"} != {"arrays"}:
            raise ValueError("it does not have the keys or the parts of a model")
        if "cases" in parts and digest(parts["cases"]) != manifest["cases_sha256"]:
            raise ValueError("its cases are not those that the manifest names")
        past = unpacked(parts["cases"]) if "cases" in parts else None
        fitted = believed(manifest, unpacked(parts["arrays"]), past)
        estimator = _made(manifest)
    except _WRONG as error:
        raise refuse(path, f"the content is not that of a model: {error}") from error
    if past is None:
        left_out = LeftOut(str(path), manifest["cases_sha256"], manifest["sizes"]["n"])
        names = (
            ("x_", "y_", "values_", "ids_")
            if manifest["edges"] is None
            else ("x_", "y_", "values_", "ids_", "outcomes_")
        )
        fitted |= dict.fromkeys(names, left_out)
    for name, value in fitted.items():
        setattr(estimator, name, value)
    return estimator


def _cases_of(path: Path, manifest: Mapping[str, Any], cases: Path) -> Part:
    """The part with the cases of this model, from another file."""
    file = read(cases)
    if "cases" not in file.parts or (file.manifest.get("holds") == "cases" and tuple(file.manifest) != _CASES_KEYS):
        raise refuse(cases, "holds no past cases", "pass the file that was cases_path when the model was saved")
    if digest(file.parts["cases"]) != manifest.get("cases_sha256"):
        raise refuse(cases, f"holds the past cases of another model than {path}", "pass the file that belongs to it")
    return file.parts["cases"]


def _made(manifest: Mapping[str, Any]) -> Any:
    """An estimator with its parameters, not fitted yet."""
    name = check_choice("estimator", manifest["estimator"], ESTIMATORS)
    estimator = getattr(import_module(ESTIMATORS[name]), name)
    parameters = parameters_of(manifest["parameters"])
    unknown = sorted(set(parameters) - set(estimator().get_params(deep=False)))
    if unknown:
        raise ValueError(f"{name} has no parameters {', '.join(unknown)}")
    return estimator(**parameters)
