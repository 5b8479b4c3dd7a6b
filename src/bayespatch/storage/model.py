"""A fitted estimator as a file, and back: what is stored, and everything that must hold before it is believed.

A model file (`container` says how it is laid out) has a manifest with the keys of `_KEYS`, a part "arrays" (the
posterior, and who is a parent and who a case) and a part "cases" (the coded values ``x`` and classes ``y`` of the
training table), both safetensors. The cases are other people's data: they can be left out, or stored in a file of their
own. The manifest has their checksum in any case, so that no other cases can be put in their place. What stays without
them is the schema (categories, bins, the lowest and highest number of windowed columns) and numbers about the training
table's rows (importances, who is whose neighbor, how these vote), but no row's values.

`save` puts a model through the same checks as `load` before it writes a byte: what is written can be read.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from importlib import import_module
from os import PathLike
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from bayespatch.check import check_choice, check_count, check_data, check_flag, check_model, check_seed
from bayespatch.container import File, Part, StorageError, digest, package_version, read, refuse, write
from bayespatch.diagnostics import Diagnostics
from bayespatch.encode import Schema
from bayespatch.model import KINDS, LIKELIHOODS
from bayespatch.posterior import Posterior, Settings, Timing
from bayespatch.storage.arrays import (
    ARRAYS,
    CASES,
    POSTERIOR,
    SIZES,
    Arrays,
    check_arrays,
    in_their_types,
    packed,
    unpacked,
)
from bayespatch.storage.plain import (
    plain_array,
    plain_hyper,
    plain_parameters,
    restored,
    restored_classes,
    restored_hyper,
)

Path = str | PathLike[str]

# Where to find them, by name as engines are: this room comes before the estimators and does not know them.
ESTIMATORS = {"PatchworkClassifier": "bayespatch.estimator"}

_KEYS = (
    "format",
    "package",  # the version of bayespatch that wrote the file
    "holds",  # "model"; a file with nothing but cases says "cases"
    "estimator",
    "parameters",
    "classes",
    "feature_names",  # null where the training table had none
    "schema",
    "model",
    "settings",
    "timing",
    "sizes",
    "diagnostics",
    "cases_sha256",
    "parts",
)
_SHA256 = re.compile("[0-9a-f]{64}")
_CASES_KEYS = ("format", "package", "holds", "parts")
_WRONG = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)  # said by any check


def _or_none(check: Callable[[str, Any], object]) -> Callable[[str, Any], object]:
    return lambda name, value: None if value is None else check(name, value)


# What the parameters of a fitted estimator must be; those without a line here are looked at by the next fit.
_PARAMETERS: dict[str, Callable[[str, Any], object]] = {
    "model": lambda name, value: check_choice(name, value, KINDS),
    "likelihood": lambda name, value: check_choice(name, value, LIKELIHOODS),
    "missing": lambda name, value: check_choice(name, value, ("category", "ignore", "error")),
    **dict.fromkeys(("supervised", "transductive", "warm_start", "progress"), check_flag),
    **dict.fromkeys(("chains", "draws", "thin"), lambda name, value: check_count(name, value, at_least=1)),
    "warmup": lambda name, value: check_count(name, value, at_least=0),
    "n_jobs": _or_none(lambda name, value: check_count(name, value, at_least=-(2**31))),
    "random_state": _or_none(lambda name, value: check_count(name, value, at_least=0)),
}


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
        _believed(manifest, arrays, past)
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
    past = None if isinstance(estimator.x_, LeftOut) else {"x": estimator.x_, "y": estimator.y_}
    return in_their_types(found, ARRAYS), None if past is None else in_their_types(past, CASES)


def _manifest(estimator: Any, cases: Part | None) -> dict[str, Any]:
    """Everything but the arrays; the file adds its format and the list of parts."""
    posterior: Posterior = estimator.posterior_
    names = getattr(estimator, "feature_names_in_", None)
    sizes = (len(posterior.z_mean), len(estimator.parents_), len(estimator.schema_.columns), len(estimator.classes_))
    n_rows = estimator.x_.n_rows if cases is None else len(estimator.x_)
    return {
        "package": package_version(),
        "holds": "model",
        "estimator": type(estimator).__name__,
        "parameters": plain_parameters(estimator.get_params(deep=False)),
        "classes": plain_array(estimator.classes_),
        "feature_names": None if names is None else [str(name) for name in names],
        "schema": estimator.schema_.to_dict(),
        "model": {
            "kind": posterior.model.kind,
            "likelihood": posterior.model.likelihood,
            "hyper": plain_hyper(posterior.hyper),
        },
        "settings": {name: np.asarray(value).item() for name, value in posterior.settings._asdict().items()},
        "timing": {name: np.asarray(value).item() for name, value in posterior.timing._asdict().items()},
        "sizes": dict(zip(SIZES, (n_rows, *sizes, posterior.n_chains, posterior.n_draws), strict=True)),
        "diagnostics": _summary(estimator.diagnostics_),
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
    PatchworkClassifier
        Fitted; it predicts exactly as the one that was saved.

    Raises
    ------
    StorageError
        Where the file is not what `save` wrote: damaged, cut short, changed, or written by a newer version.
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
        fitted = _believed(manifest, unpacked(parts["arrays"]), past)
        estimator = _made(manifest)
    except _WRONG as error:
        raise refuse(path, f"the content is not that of a model: {error}") from error
    if past is None:
        left_out = LeftOut(str(path), manifest["cases_sha256"], manifest["sizes"]["n"])
        fitted |= {"x_": left_out, "y_": left_out}
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
    parameters = _parameters(manifest["parameters"])
    unknown = sorted(set(parameters) - set(estimator().get_params(deep=False)))
    if unknown:
        raise ValueError(f"{name} has no parameters {', '.join(unknown)}")
    return estimator(**parameters)


# Checking


def _believed(manifest: Mapping[str, Any], arrays: Arrays, past: Arrays | None) -> dict[str, Any]:
    """The fitted attributes that manifest and arrays describe; any contradiction among them is a ValueError."""
    _parameters(manifest["parameters"])
    _check_summary(manifest["diagnostics"])
    schema, classes = Schema.from_dict(manifest["schema"]), restored_classes(manifest["classes"])
    sizes = _sizes(manifest["sizes"])
    if (sizes["P"], sizes["M"]) != (len(schema.columns), len(classes)):
        raise ValueError("schema and classes are not of the sizes that the manifest says")
    names = manifest["feature_names"]
    if names is not None and (not isinstance(names, list) or tuple(names) != schema.names or not schema.named):
        raise ValueError("feature_names are not the columns of the schema")
    if not isinstance(manifest["package"], str) or not _SHA256.fullmatch(manifest["cases_sha256"]):
        raise ValueError("package is not a version, or cases_sha256 not a checksum")
    check_arrays(arrays, ARRAYS, sizes)
    posterior = _posterior(manifest, arrays, sizes)
    fitted: dict[str, Any] = {
        "classes_": classes,
        "n_features_in_": sizes["P"],
        "schema_": schema,
        "hyper_": posterior.hyper,
        "posterior_": posterior,
        "parents_": arrays["parents"],
        "cases_": arrays["cases"],
    }
    if names is not None:
        fitted["feature_names_in_"] = np.array(names, dtype=object)
    if past is not None:
        check_arrays(past, CASES, sizes)
        _check_values(past, arrays["parents"], schema, sizes["M"])
        fitted |= {"x_": past["x"], "y_": past["y"]}
    return fitted


def _parameters(stored: Any) -> dict[str, Any]:
    parameters = {name: restored(value) for name, value in stored.items()}
    for name, value in parameters.items():
        if name in _PARAMETERS:
            _PARAMETERS[name](name, value)
    return parameters


def _sizes(sizes: Any) -> dict[str, int]:
    if not isinstance(sizes, dict) or tuple(sizes) != SIZES:
        raise ValueError("the manifest does not say how large the model is")
    return {name: check_count(name, size, at_least=1) for name, size in sizes.items()}


def _posterior(manifest: Mapping[str, Any], arrays: Arrays, sizes: Mapping[str, int]) -> Posterior:
    described, run, cost = manifest["model"], manifest["settings"], manifest["timing"]
    if tuple(map(tuple, (described, run, cost))) != (("kind", "likelihood", "hyper"), Settings._fields, Timing._fields):
        raise ValueError("model, settings or timing do not have the keys that they should")
    model = check_model(described["kind"], described["likelihood"], restored_hyper(described["hyper"]), sizes["M"])
    settings, timing = _checked_settings(Settings(**run), sizes), _checked_timing(Timing(**cost))
    for rows in (arrays["parents"], arrays["cases"]):
        if rows[-1] >= sizes["n"] or not np.all(rows[1:] > rows[:-1]):
            raise ValueError("parents or cases are not rows of the training table in their order")
    if settings.exclude_self and not np.array_equal(arrays["parents"], arrays["cases"]):
        raise ValueError("exclude_self says that parents and cases are the same rows, and they are not")
    if arrays["n_neighbors"].max() > sizes["S"]:
        raise ValueError("n_neighbors counts more neighbors than there are parents")
    kept: dict[str, Any] = {name: arrays.get(name) for name in POSTERIOR}
    return Posterior(**kept, model=model, settings=settings, timing=timing)


def _checked_settings(settings: Settings, sizes: Mapping[str, int]) -> Settings:
    check_choice("missing", settings.missing, ("error", "ignore"))
    check_flag("supervised", settings.supervised)
    check_flag("exclude_self", settings.exclude_self)
    check_seed(settings.seed)
    check_count("thin", settings.thin, at_least=1)
    check_count("warmup", settings.warmup, at_least=0)
    check_count("draws", settings.draws, at_least=sizes["D"])
    if check_count("chains", settings.chains, at_least=1) != sizes["C"] or not isinstance(settings.engine, str):
        raise ValueError("the settings are not those of the draws")
    return settings


def _checked_timing(timing: Timing) -> Timing:
    check_count("sweeps", timing.sweeps, at_least=0)
    check_count("n_threads", timing.n_threads, at_least=1)
    for seconds in (timing.seconds_warmup, timing.seconds_sampling):
        if type(seconds) is not float or not 0.0 <= seconds < math.inf:
            raise ValueError("the timing is not a number of seconds")
    return timing


def _check_summary(summary: Any) -> None:
    """The diagnostics are there to be read; a loaded model computes them anew from its draws."""
    if not isinstance(summary, dict) or tuple(summary) != ("converged", "max_rhat", "min_ess"):
        raise ValueError("the diagnostics do not have the keys that they should")
    check_flag("converged", summary["converged"])
    for name in ("max_rhat", "min_ess"):
        if summary[name] is not None and not (type(summary[name]) is float and 0.0 <= summary[name] < math.inf):
            raise ValueError(f"the diagnostics' {name} is not a number")


def _check_values(past: Arrays, parents: NDArray[Any], schema: Schema, n_classes: int) -> None:
    """The values of the past cases must be values of the schema."""
    x, y = past["x"], past["y"]
    missing = "ignore" if schema.missing == "ignore" else "error"
    sizes: dict[str, Any] = {"n_values": schema.n_values, "n_classes": n_classes, "windows": schema.windows}
    check_data(x, y, x[parents], y[parents], missing=missing, **sizes)
