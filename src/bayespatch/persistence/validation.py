"""Validation of a model file before it is loaded; inconsistent content raises a ValueError.

The checks do not use pydantic or msgspec, because nearly all of them compare parts of the file with each other or are
the checks that `fit` applies to the same arguments.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import fields
from itertools import chain, pairwise

import numpy as np
from numpy.typing import NDArray

from bayespatch.calibrate import Calibration
from bayespatch.calibrate_times import TimesCalibration
from bayespatch.decisions import DecisionThreshold
from bayespatch.encode import Schema, codes_of
from bayespatch.engine.installed import check_engine
from bayespatch.follow_up import FollowUp
from bayespatch.importances_of_times import TimeIntervals
from bayespatch.kernel_density import KernelDensity
from bayespatch.model import KINDS, LIKELIHOODS, Hyperparameters
from bayespatch.persistence.arrays import SIZES, Arrays, as_texts, check_arrays, specs_of
from bayespatch.persistence.contents import Parts, Stored
from bayespatch.persistence.file_format import load_json
from bayespatch.persistence.json_codec import classes_from_json, from_json, hyper_from_json
from bayespatch.persistence.second_opinion import START, opinion_from_arrays
from bayespatch.pool import Pool
from bayespatch.sampling.posterior import SamplingSettings, Timing
from bayespatch.tune import Trial, Tuning
from bayespatch.types import AnyArray, JSONMapping, Parameters
from bayespatch.validation import (
    LARGEST_OUTCOME,
    LEAST_WEIGHT,
    MOST_THREADS,
    check_choice,
    check_count,
    check_data,
    check_flag,
    check_model,
    check_seed,
    check_sweeps,
)

_SHA256 = re.compile("[0-9a-f]{64}")


def _or_none(check: Callable[[str, object], object]) -> Callable[[str, object], object]:
    return lambda name, value: None if value is None else check(name, value)


def _check_hyper(name: str, value: object) -> None:
    if not isinstance(value, Hyperparameters):
        check_choice(name, value, ("auto",))


def _check_weights(name: str, value: object) -> None:
    if value is not None and not isinstance(value, dict):
        check_choice(name, value, ("balanced",))


def _check_share(name: str, value: object) -> None:
    if type(value) is not float or not 0.0 < value < 1.0:
        raise ValueError(f"{name}={value!r} is not a number between 0 and 1")


# Checks of the parameters of a fitted estimator; parameters that are not listed are checked by the next fit.
_PARAMETERS: dict[str, Callable[[str, object], object]] = {
    "model": lambda name, value: check_choice(name, value, KINDS),
    "likelihood": lambda name, value: check_choice(name, value, LIKELIHOODS),
    "missing": lambda name, value: check_choice(name, value, ("auto", "category", "ignore", "error")),
    "engine": lambda name, value: check_engine(value, "auto"),
    "votes": lambda name, value: check_choice(name, value, ("auto", "closed", "sampled")),
    "importances": lambda name, value: check_choice(name, value, ("predictive", "joint")),
    "second_opinion": _or_none(lambda name, value: check_choice(name, value, ("auto", "cox"))),
    "hyper": _check_hyper,
    "class_weight": _check_weights,
    "error": lambda name, value: _check_share(name, value),
    **dict.fromkeys(("supervised", "transductive", "warm_start", "progress", "calibrate"), check_flag),
    **dict.fromkeys(("chains", "draws", "thin"), lambda name, value: check_count(name, value, at_least=1)),
    "warmup": lambda name, value: check_count(name, value, at_least=0),
    "n_outcome_bins": lambda name, value: check_count(name, value, at_least=2),
    "n_intervals": lambda name, value: check_count(name, value, at_least=1),
    "n_jobs": _or_none(lambda name, value: check_count(name, value, at_least=-MOST_THREADS, at_most=MOST_THREADS)),
    "random_state": _or_none(lambda name, value: check_count(name, value, at_least=0)),
}
MANIFEST = (
    "format",
    "package",  # the version of bayespatch that wrote the file
    "holds",  # "model", or "cases" for a file that contains only cases
    "estimator",
    "parameters",
    "classes",  # null if the outcome is a number
    "target",  # name of the outcome
    "named",  # whether the columns of the training table had names
    "columns",  # name, kind, family and description of each; the values are stored with the cases
    "model",
    "settings",
    "timing",
    "sizes",
    "diagnostics",
    "calibration",
    "pool",  # null if there is no second opinion
    "tuning",  # null if the user set the hyperparameters
    "cases_sha256",  # of the part "cases", which contains random bytes so that the checksum does not reveal its content
    "parts",
)
# Keys of the JSON object "metadata" in the part "cases"
CASES_METADATA = (
    "schema",
    "class_names",
    "edges",
    "kernel_density",
    "opinion",
    "follow_up",
    "times",
    "decision",
    "elsewhere",
)
ESTIMATORS = ("PatchworkClassifier", "PatchworkRegressor", "PatchworkSurvival")
COLUMN = ("name", "kind", "family", "description")
_CALIBRATION = ("slope", "base", "anchor", "slope_error", "inflation")
_FARTHEST_TIME = 1e25
_FARTHEST = 1e6  # largest absolute value in a calibration


def check_manifest(manifest: JSONMapping) -> Parts:
    """The fields of `Fitted` in the manifest; inconsistent content raises a ValueError."""
    if tuple(manifest) != MANIFEST or manifest["holds"] != "model":
        raise ValueError("its keys are not those of a model")
    check_choice("estimator", manifest["estimator"], ESTIMATORS)
    parameters = parameters_of(manifest["parameters"])
    _check_summary(manifest["diagnostics"])
    sizes = _sizes(manifest["sizes"])
    columns, named = manifest["columns"], check_flag("named", manifest["named"])
    if not isinstance(columns, list) or len(columns) != sizes["P"] or not all(map(_is_column, columns)):
        raise ValueError("the description of the columns is invalid")
    if type(manifest["target"]) is not str:
        raise ValueError("the name of the outcome is not a string")
    if not isinstance(manifest["package"], str) or not _SHA256.fullmatch(manifest["cases_sha256"]):
        raise ValueError("package is not a version, or cases_sha256 not a checksum")
    described, run, cost = manifest["model"], manifest["settings"], manifest["timing"]
    expected = (("kind", "likelihood", "hyper"), SamplingSettings._fields, Timing._fields)
    if tuple(map(tuple, (described, run, cost))) != expected:
        raise ValueError("model, settings or timing have unexpected or missing keys")
    hyper = hyper_from_json(described["hyper"])
    transductive = parameters.get("transductive", False)
    fitted: Parts = {
        "target": manifest["target"],
        "calibration": _calibration(manifest["calibration"], sizes["M"]),
        "pool": _pool(manifest["pool"], sizes["M"]),
        "tuning": _tuning(manifest["tuning"], hyper),
        "posterior.model": check_model(described["kind"], described["likelihood"], hyper, sizes["M"], sizes["P"]),
        "posterior.settings": _checked_settings(SamplingSettings(**run), sizes, transductive),
        "posterior.timing": _checked_timing(Timing(**cost)),
    }
    fitted["feature_names"] = tuple(column["name"] for column in columns) if named else None
    if manifest["estimator"] != "PatchworkClassifier":
        if manifest["classes"] is not None:
            raise ValueError("only classifiers have classes")
    else:
        fitted["classes"] = classes_from_json(manifest["classes"])
        if len(fitted["classes"]) != sizes["M"]:
            raise ValueError("the number of classes differs from the manifest")
    return fitted


def _is_column(column: object) -> bool:
    return isinstance(column, dict) and tuple(column) == COLUMN and all(type(text) is str for text in column.values())


def validated(manifest: JSONMapping, arrays: Arrays, past: Arrays | None) -> Parts:
    """The fields of `Fitted` in the manifest and the arrays; any contradiction raises a ValueError.

    Without the past cases, the fields that are stored with them are missing. Fields of the posterior and of the
    leave-one-out votes have the names defined in `contents`.
    """
    fitted = check_manifest(manifest)
    sizes, estimator = manifest["sizes"], manifest["estimator"]
    check_arrays(arrays, specs_of(Stored.ALWAYS, estimator), sizes)
    if ("posterior.steps" in arrays) != (sizes["T"] > 0):
        raise ValueError("the number of steps of the importances differs from the manifest")
    closed = "posterior.log_weights" in arrays
    if ("posterior.efficiency" in arrays) != closed:
        raise ValueError("an efficiency of the approximation is stored for closed-form votes only")
    if closed != ("posterior.compares_missing" in arrays):
        raise ValueError("closed-form votes need both the weights of the comparisons and the comparisons")
    if closed != (sizes["K"] > 0) or (sizes["A"], sizes["B"]) != ((0, 0) if closed else (sizes["N"], sizes["S"])):
        raise ValueError("neighbors were either sampled for all cases and parents, or votes are in closed form")
    fitted |= arrays
    if past is not None:
        fitted |= _beside_cases(manifest, fitted, dict(past), sizes, estimator)
    return fitted


def _beside_cases(
    manifest: JSONMapping, fitted: Parts, past: Arrays, sizes: Mapping[str, int], estimator: str
) -> Parts:
    """The fields that are stored with the past cases."""
    metadata = load_json(past.pop("metadata").tobytes())
    if not isinstance(metadata, dict) or tuple(metadata) != CASES_METADATA:
        raise ValueError("the metadata of the past cases has unexpected or missing keys")
    ids = as_texts(past.pop("ids"), past.pop("ids_ends"), sizes["n"]) if "ids" in past else None
    opinion = {name: past.pop(name) for name in list(past) if name.startswith(START)}
    follow_up = _follow_up(metadata["follow_up"], past.pop("follow_up", None), sizes["n"])
    check_arrays(past, specs_of(Stored.WITH_CASES, estimator), sizes)
    schema = Schema.from_dict(metadata["schema"])
    described = [{name: getattr(column, name) for name in COLUMN} for column in schema.columns]
    if described != manifest["columns"] or (manifest["named"] and not schema.named):
        raise ValueError("the columns of the schema are not those that the manifest describes")
    parts: Parts = {
        "groups": None,
        "sample_weight": None,
        "shown": None,
        "rows": None,
        **past,
        "salt": past["salt"].tobytes(),
        "ids": ids,
        "schema": schema,
    }
    parts["follow_up"] = follow_up
    parts["elsewhere"] = _digests(metadata["elsewhere"], past, sizes)
    parts["class_names"] = _class_names(metadata["class_names"], sizes["M"])
    if manifest["estimator"] == "PatchworkClassifier":
        parts["decision"] = _decision(metadata["decision"], parts["class_names"])
    _check_rows(past, fitted["posterior.settings"].exclude_self, sizes)
    _check_values(past, schema, sizes["M"])
    n_comparisons = sum(1 + len(nested) for nested in schema.nested)
    n_comparisons += int(np.sum(fitted.get("posterior.compares_missing", 0)))
    if parts["sample_weight"] is not None:
        if not sizes["K"]:
            raise ValueError("past cases have weights, which sampled votes cannot have")
        if parts["sample_weight"].min() < LEAST_WEIGHT:
            raise ValueError("past cases have weights that are not above 0")
    if sizes["K"] not in (0, n_comparisons):
        raise ValueError("the weights do not match the comparisons of the columns")
    if (metadata["times"] is None) != (estimator != "PatchworkSurvival"):
        raise ValueError("time intervals are required for survival models and not allowed for others")
    if estimator == "PatchworkSurvival":
        parts |= _times(metadata["times"], past)
    if estimator == "PatchworkRegressor":
        edges = _edges(metadata["edges"], sizes["M"])
        if np.any(np.searchsorted(edges, past["outcomes"], "right") != past["y"]):
            raise ValueError("the outcomes do not match the classes")
        parts |= {"edges": edges, "kernel_density": _kernel_density(metadata["kernel_density"])}
    elif metadata["edges"] is not None or metadata["kernel_density"] is not None:
        raise ValueError("only the outcomes of a regressor have edges and a kernel density")
    parts["opinion"] = opinion_from_arrays(metadata["opinion"], opinion, schema, sizes, estimator)
    if (parts["opinion"] is None) != (fitted["pool"] is None):
        raise ValueError("there is a second opinion without a weight, or a weight without one")
    return parts


def _digests(stored: object, past: Arrays, sizes: Mapping[str, int]) -> tuple[str, ...] | None:
    """Names of the files with all past cases, if the training table is a sample of them."""
    if (stored is None) != ("rows" not in past):
        raise ValueError("past cases either vote in this file, or are a sample of those that vote in other files")
    if stored is None:
        return None
    if not isinstance(stored, list) or not all(isinstance(one, str) and _SHA256.fullmatch(one) for one in stored):
        raise ValueError("the files with all past cases are not named by their checksums")
    if not sizes["K"] or np.any(np.diff(past["rows"]) <= 0):
        raise ValueError("past cases in other files need closed-form votes, and a sample of them in their order")
    return tuple(stored)


def _times(stored: object, past: Arrays) -> Parts:
    """The time intervals and their calibration."""
    keys = ("cuts", "level", "shape", "covariance", "base", "event_name", "unit")
    if not isinstance(stored, dict) or tuple(stored) != keys:
        raise ValueError("the time intervals have unexpected or missing keys")
    cuts, level, shape, covariance, base, name, unit = stored.values()
    lists = [part if isinstance(part, list) else [None] for part in (cuts, covariance, base)]
    if not all(type(n) is float and abs(n) < _FARTHEST_TIME for n in [*chain(*lists), level, shape]):
        raise ValueError("the time intervals or their calibration contain values that are not finite numbers")
    if type(name) is not str or type(unit) is not str:
        raise ValueError("the name of the event or the unit of the times is not text")
    if not all(low < high for low, high in pairwise(cuts)) or not past["event"].any():
        raise ValueError("the time intervals are not in order, or there is no event")
    intervals = TimeIntervals(np.array(cuts, dtype=np.float64))
    if min(cuts, default=0.0) < 0.0 or np.any(intervals.codes(past["time"], past["event"]) != past["y"]):
        raise ValueError("the times do not match the intervals")
    if level <= 0.0 or shape < 0.0 or len(base) != intervals.n or min(base) <= 0.0:
        raise ValueError("the hazards of the stored calibration are not above 0")
    if len(covariance) != 4 or covariance[1] != covariance[2] or covariance[1] ** 2 > covariance[0] * covariance[3]:
        raise ValueError("the stored calibration has an invalid covariance matrix")
    if min(covariance[0], covariance[3]) < 0.0:
        raise ValueError("the covariance of the stored calibration has a negative variance")
    calibration = TimesCalibration(level, shape, np.array(covariance).reshape(2, 2), np.array(base))
    return {"time_intervals": intervals, "times_calibration": calibration, "event_name": name, "unit": unit}


def _follow_up(described: object, numbers: AnyArray | None, n: int) -> FollowUp | None:
    """The follow-up of the past cases."""
    if (described is None) != (numbers is None):
        raise ValueError("the follow-up columns have values without a description, or the reverse")
    return None if numbers is None else FollowUp.from_stored(described, numbers, n)


def parameters_of(stored: object) -> Parameters:
    """The validated parameters of an estimator."""
    if not isinstance(stored, dict):
        raise ValueError("the format of the parameters is invalid")
    parameters = {name: from_json(value) for name, value in stored.items()}
    for name, value in parameters.items():
        if name in _PARAMETERS:
            _PARAMETERS[name](name, value)
    return parameters


def _edges(edges: object, n_classes: int) -> NDArray[np.float64]:
    """The edges between the classes of a numeric outcome."""
    if not isinstance(edges, list) or not all(type(edge) is float and math.isfinite(edge) for edge in edges):
        raise ValueError("the edges of the outcome's classes are not finite numbers")
    if len(edges) != n_classes - 1 or not all(low < high for low, high in pairwise(edges)):
        raise ValueError("the edges of the outcome's classes are not increasing, or not one fewer than the classes")
    return np.array(edges, dtype=np.float64)


def _kernel_density(stored: object) -> KernelDensity:
    """The kernel density of a regressor."""
    if not isinstance(stored, dict) or tuple(stored) != tuple(part.name for part in fields(KernelDensity)):
        raise ValueError("the kernel density has unexpected or missing keys")
    if not all(type(n) is float and abs(n) <= LARGEST_OUTCOME for n in stored.values()):
        raise ValueError("the kernel density contains values that are not finite numbers")
    if min(stored["slope"], stored["spread"], stored["bandwidth"]) <= 0.0:
        raise ValueError("slope, spread and bandwidth of the kernel density are not above 0")
    return KernelDensity(**stored)


def _sizes(sizes: object) -> dict[str, int]:
    if not isinstance(sizes, dict) or tuple(sizes) != SIZES:
        raise ValueError("the manifest does not state the size of the model")
    return {name: check_count(name, size, at_least=0 if name in "TABKV" else 1) for name, size in sizes.items()}


def _check_rows(past: Arrays, exclude_self: bool, sizes: Mapping[str, int]) -> None:
    """Check that rows are in the training table, and that there are no more neighbors than parents."""
    for rows in (past["parents"], past["cases"]):
        if rows[-1] >= sizes["n"] or not np.all(rows[1:] > rows[:-1]):
            raise ValueError("parents or cases are not rows of the training table in their order")
    if len(past.get("shown", ())) != sizes["V"]:
        raise ValueError("the number of past cases that may be shown differs from the manifest")
    shown = past.get("shown", past["parents"])
    if not np.all(shown[1:] > shown[:-1]) or not np.all(np.isin(shown, past["parents"])):
        raise ValueError("past cases that may be shown are not among the parents, in their order")
    if exclude_self and not np.array_equal(past["parents"], past["cases"]):
        raise ValueError("exclude_self states that parents and cases are the same rows, but they differ")
    if past["posterior.n_neighbors"].max(initial=0) > sizes["S"]:
        raise ValueError("n_neighbors counts more neighbors than there are parents")
    if past["loo.rows"].max() >= sizes["n"]:
        raise ValueError("the leave-one-out votes are not of rows of the training table")


def _calibration(stored: object, n_classes: int) -> Calibration:
    if not isinstance(stored, dict) or tuple(stored) != _CALIBRATION:
        raise ValueError("the calibration has unexpected or missing keys")
    base, anchor = tuple(stored["base"]), tuple(stored["anchor"])
    numbers = [stored["slope"], *base, *anchor, stored["slope_error"], stored["inflation"]]
    if (
        len(base) != n_classes
        or len(anchor) != n_classes
        or not all(type(n) is float and abs(n) <= _FARTHEST for n in numbers)
    ):
        raise ValueError("the calibration must be three numbers and two per class, all within range")
    if not all(0.0 < share <= 1.0 for share in base + anchor):
        raise ValueError("the base rates of the calibration are not shares")
    if stored["slope_error"] < 0.0 or stored["inflation"] < 1.0:
        raise ValueError("the errors of the calibration are invalid")
    return Calibration(stored["slope"], base, anchor, stored["slope_error"], stored["inflation"])


def _pool(stored: object, n_classes: int) -> Pool | None:
    """The weight of the second opinion."""
    if stored is None:
        return None
    pool = Pool.from_dict(stored)
    if not all(type(number) is float and math.isfinite(number) for number in (pool.weight_sd, *pool.log_loss)):
        raise ValueError("the pool of the opinions contains values that are not finite numbers")
    if pool.base and len(pool.base) != n_classes:
        raise ValueError(f"the pool of the opinions has {len(pool.base)} base rates for {n_classes} classes")
    return pool


def _decision(described: object, names: tuple[str, ...]) -> DecisionThreshold | None:
    if described is None:
        return None
    if not isinstance(described, dict) or set(described) != {"label", "threshold"} or described["label"] not in names:
        raise ValueError("the description of the decision threshold is invalid")
    return DecisionThreshold(**described)


def _class_names(names: object, n_classes: int) -> tuple[str, ...]:
    """The names of the classes."""
    if not isinstance(names, list) or not all(type(name) is str for name in names):
        raise ValueError("the names of the classes are not strings")
    if len(names) != n_classes or len(set(names)) < len(names):
        raise ValueError("the classes do not have distinct names")
    return tuple(names)


def _tuning(stored: object, hyper: Hyperparameters) -> Tuning | None:
    if stored is None:
        return None
    if not isinstance(stored, dict) or tuple(stored) != ("coding", "trials") or not isinstance(stored["trials"], list):
        raise ValueError("the tuning has unexpected or missing keys")
    if not isinstance(stored["coding"], str):
        raise ValueError("the coding of the tuning is not a string")
    return Tuning(stored["coding"], hyper, tuple(map(_trial, stored["trials"])))


def _trial(stored: object) -> Trial:
    if isinstance(stored, list) and len(stored) == 2:
        coding, evidence = stored
        if evidence is None:
            evidence = -math.inf
        elif type(evidence) is float and not math.isfinite(evidence):
            coding = None
        if type(coding) is str and type(evidence) is float:
            return Trial(coding, evidence)
    raise ValueError("a trial of the tuning is not a coding and a number")


def _checked_settings(settings: SamplingSettings, sizes: Mapping[str, int], transductive: bool) -> SamplingSettings:
    check_choice("missing", settings.missing, ("error", "ignore"))
    check_flag("supervised", settings.supervised)
    check_flag("exclude_self", settings.exclude_self)
    check_flag("feature_subsets", settings.feature_subsets)
    check_seed(settings.seed)
    check_count("thin", settings.thin, at_least=1)
    check_count("warmup", settings.warmup, at_least=0)
    check_count("draws", settings.draws, at_least=sizes["D"])
    if check_count("chains", settings.chains, at_least=1) != sizes["C"]:
        raise ValueError("the settings do not match the draws")
    check_engine(settings.engine)
    if transductive:
        check_sweeps(settings.warmup, settings.draws, settings.thin)
    return settings


def _checked_timing(timing: Timing) -> Timing:
    check_count("sweeps", timing.sweeps, at_least=0)
    check_count("n_threads", timing.n_threads, at_least=1)
    for seconds in (timing.seconds_warmup, timing.seconds_sampling):
        if type(seconds) is not float or not 0.0 <= seconds < math.inf:
            raise ValueError("the timing is not a number of seconds")
    return timing


def _check_summary(summary: object) -> None:
    """Check the diagnostics, which are for readers; a loaded model computes them from its draws."""
    if not isinstance(summary, dict) or tuple(summary) != ("converged", "max_rhat", "min_ess"):
        raise ValueError("the diagnostics have unexpected or missing keys")
    check_flag("converged", summary["converged"])
    for name in ("max_rhat", "min_ess"):
        if summary[name] is not None and not (type(summary[name]) is float and 0.0 <= summary[name] < math.inf):
            raise ValueError(f"the diagnostics' {name} is not a number")


def _check_values(past: Arrays, schema: Schema, n_classes: int) -> None:
    """Check that the values of the past cases are values of the schema."""
    x, y, parents = past["x"], past["y"], past["parents"]
    missing = "ignore" if schema.missing == "ignore" else "error"
    codes = np.where([column.is_compared for column in schema.columns], x, 0.0)  # columns not compared have no codes
    table = codes, y, codes[parents], y[parents]
    check_data(*table, n_values=schema.n_values, n_classes=n_classes, windows=schema.windows, missing=missing)
    if not np.array_equal(codes_of(schema, past["values"]), x, equal_nan=True):
        raise ValueError("values and codes of the past cases contradict each other")
