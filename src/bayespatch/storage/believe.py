"""Everything that must hold before a model file is believed; any contradiction in it is a ValueError."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import fields
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayespatch.calibrate import Calibration
from bayespatch.check import check_choice, check_count, check_data, check_flag, check_model, check_seed
from bayespatch.dressing import Dressing
from bayespatch.encode import Schema, codes_of
from bayespatch.model import KINDS, LIKELIHOODS, Hyperparameters
from bayespatch.posterior import Posterior, Settings, Timing
from bayespatch.predict import Review
from bayespatch.storage.arrays import (
    ARRAYS,
    CASES,
    CASES_OF_REGRESSORS,
    POSTERIOR,
    SIZES,
    Arrays,
    as_texts,
    check_arrays,
)
from bayespatch.storage.plain import restored, restored_classes, restored_hyper
from bayespatch.tune import Trial, Tuning

_SHA256 = re.compile("[0-9a-f]{64}")


def _or_none(check: Callable[[str, Any], object]) -> Callable[[str, Any], object]:
    return lambda name, value: None if value is None else check(name, value)


# What the parameters of a fitted estimator must be; those without a line here are looked at by the next fit.
_PARAMETERS: dict[str, Callable[[str, Any], object]] = {
    "model": lambda name, value: check_choice(name, value, KINDS),
    "likelihood": lambda name, value: check_choice(name, value, LIKELIHOODS),
    "missing": lambda name, value: check_choice(name, value, ("category", "ignore", "error")),
    **dict.fromkeys(("supervised", "transductive", "warm_start", "progress", "calibrate"), check_flag),
    **dict.fromkeys(("chains", "draws", "thin"), lambda name, value: check_count(name, value, at_least=1)),
    "warmup": lambda name, value: check_count(name, value, at_least=0),
    "n_outcome_bins": lambda name, value: check_count(name, value, at_least=2),
    "n_jobs": _or_none(lambda name, value: check_count(name, value, at_least=-(2**31))),
    "random_state": _or_none(lambda name, value: check_count(name, value, at_least=0)),
}


def believed(manifest: Mapping[str, Any], arrays: Arrays, past: Arrays | None) -> dict[str, Any]:
    """The fitted attributes that manifest and arrays describe; any contradiction among them is a ValueError."""
    parameters_of(manifest["parameters"])
    _check_summary(manifest["diagnostics"])
    schema, outcome = Schema.from_dict(manifest["schema"]), _outcome(manifest)
    sizes = _sizes(manifest["sizes"])
    n_classes = len(outcome["classes_"]) if "classes_" in outcome else len(outcome["edges_"]) + 1
    if (sizes["P"], sizes["M"]) != (len(schema.columns), n_classes):
        raise ValueError("schema and classes are not of the sizes that the manifest says")
    names = manifest["feature_names"]
    if names is not None and (not isinstance(names, list) or tuple(names) != schema.names or not schema.named):
        raise ValueError("feature_names are not the columns of the schema")
    if not isinstance(manifest["package"], str) or not _SHA256.fullmatch(manifest["cases_sha256"]):
        raise ValueError("package is not a version, or cases_sha256 not a checksum")
    check_arrays(arrays, ARRAYS, sizes)
    posterior = _posterior(manifest, arrays, sizes)
    fitted: dict[str, Any] = {
        **outcome,
        "n_features_in_": sizes["P"],
        "schema_": schema,
        "hyper_": posterior.hyper,
        "posterior_": posterior,
        "parents_": arrays["parents"],
        "cases_": arrays["cases"],
        "review_": _review(arrays, sizes["n"]),
        "calibration_": _calibration(manifest["calibration"], sizes["M"]),
        "tuning_": _tuning(manifest["tuning"], posterior.hyper),
        **_names(manifest["names"], sizes["M"]),
    }
    if names is not None:
        fitted["feature_names_in_"] = np.array(names, dtype=object)
    if past is not None:
        ids = as_texts(past["ids"], sizes["n"]) if "ids" in past else None
        past = {name: array for name, array in past.items() if name != "ids"}
        check_arrays(past, CASES_OF_REGRESSORS if "edges_" in outcome else CASES, sizes)
        _check_values(past, arrays["parents"], schema, sizes["M"])
        if "edges_" in outcome and np.any(np.searchsorted(outcome["edges_"], past["outcomes"], "right") != past["y"]):
            raise ValueError("the outcomes are not in the classes that they should be")
        fitted |= {f"{name}_": array for name, array in past.items()} | {"ids_": ids}
    return fitted


def parameters_of(stored: Any) -> dict[str, Any]:
    """The parameters of an estimator, each of them looked at."""
    parameters = {name: restored(value) for name, value in stored.items()}
    for name, value in parameters.items():
        if name in _PARAMETERS:
            _PARAMETERS[name](name, value)
    return parameters


def _outcome(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """What the outcome is: classes, or a number that is cut into classes and dressed."""
    classes, edges, dressing = (manifest[name] for name in ("classes", "edges", "dressing"))
    if manifest["estimator"] != "PatchworkRegressor":
        if edges is not None or dressing is not None:
            raise ValueError("only the outcomes of a regressor have edges and a dressing")
        return {"classes_": restored_classes(classes)}
    if classes is not None:
        raise ValueError("the outcomes of a regressor are numbers, and not classes")
    if not isinstance(edges, list) or not all(type(edge) is float and math.isfinite(edge) for edge in edges):
        raise ValueError("the edges of the outcome's classes are not finite numbers")
    if not all(low < high for low, high in pairwise(edges)):
        raise ValueError("the edges of the outcome's classes are not in order, each once")
    if not isinstance(dressing, dict) or tuple(dressing) != tuple(part.name for part in fields(Dressing)):
        raise ValueError("the dressing does not have the keys that it should")
    if not all(type(n) is float and math.isfinite(n) for n in dressing.values()):
        raise ValueError("the dressing is not made of finite numbers")
    if min(dressing["slope"], dressing["spread"], dressing["bandwidth"]) <= 0.0:
        raise ValueError("slope, spread and bandwidth of the dressing are not above 0")
    return {"edges_": np.array(edges, dtype=np.float64), "dressing_": Dressing(**dressing)}


def _sizes(sizes: Any) -> dict[str, int]:
    if not isinstance(sizes, dict) or tuple(sizes) != SIZES:
        raise ValueError("the manifest does not say how large the model is")
    return {name: check_count(name, size, at_least=1) for name, size in sizes.items()}


def _posterior(manifest: Mapping[str, Any], arrays: Arrays, sizes: Mapping[str, int]) -> Posterior:
    described, run, cost = manifest["model"], manifest["settings"], manifest["timing"]
    if tuple(map(tuple, (described, run, cost))) != (("kind", "likelihood", "hyper"), Settings._fields, Timing._fields):
        raise ValueError("model, settings or timing do not have the keys that they should")
    hyper = restored_hyper(described["hyper"])
    model = check_model(described["kind"], described["likelihood"], hyper, sizes["M"], sizes["P"])
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


def _review(arrays: Arrays, n_rows: int) -> Review:
    review = Review(*(arrays[f"review_{name}"] for name in Review._fields))
    if review.rows.max() >= n_rows:
        raise ValueError("the review is not of rows of the training table")
    return review


def _calibration(stored: Any, n_classes: int) -> Calibration:
    if not isinstance(stored, dict) or tuple(stored) != ("slope", "intercepts"):
        raise ValueError("the calibration does not have the keys that it should")
    numbers = [stored["slope"], *stored["intercepts"]]
    if len(numbers) != 1 + n_classes or not all(type(n) is float and math.isfinite(n) for n in numbers):
        raise ValueError("the calibration is not a finite number and one for each class")
    return Calibration(stored["slope"], tuple(stored["intercepts"]))


def _names(stored: Any, n_classes: int) -> dict[str, Any]:
    """What outcome and classes are called."""
    if not isinstance(stored, dict) or tuple(stored) != ("target", "names"):
        raise ValueError("the names do not have the keys that they should")
    target, names = stored["target"], stored["names"]
    if type(target) is not str or not isinstance(names, list) or not all(type(name) is str for name in names):
        raise ValueError("the names of the outcome are not texts")
    if len(names) != n_classes or len(set(names)) < len(names):
        raise ValueError("the classes do not have names of their own")
    return {"target_": target, "class_names_": tuple(names)}


def _tuning(stored: Any, hyper: Hyperparameters) -> Tuning | None:
    if stored is None:
        return None
    if not isinstance(stored, dict) or tuple(stored) != ("coding", "trials") or not isinstance(stored["trials"], list):
        raise ValueError("the tuning does not have the keys that it should")
    kinds = (str, str, float, float, float)
    for trial in stored["trials"]:
        if not isinstance(trial, list) or tuple(map(type, trial)) != kinds or not all(map(math.isfinite, trial[2:])):
            raise ValueError("a trial of the tuning is not two words and three numbers")
    if not isinstance(stored["coding"], str):
        raise ValueError("the coding of the tuning is not a word")
    return Tuning(stored["coding"], hyper, tuple(Trial(*trial) for trial in stored["trials"]))


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
    if not np.array_equal(codes_of(schema, past["values"]), x, equal_nan=True):
        raise ValueError("values and codes of the past cases contradict each other")
