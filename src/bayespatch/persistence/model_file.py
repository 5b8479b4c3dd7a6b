"""Saving and loading of fitted estimators.

A model file (in the layout of `file_format`) has a manifest with the keys of `validation.MANIFEST`, a part "arrays"
(the draws of the importances) and a part "cases". The part "cases" has the training table (the codes ``x``, the
original ``values``, the classes ``y``, the ``outcomes`` of a regressor, and the names of the rows, if any) and
everything else that belongs to individual rows or reveals their values, as defined in `contents`. Both parts are
safetensors. The cases are sensitive data: they can be omitted, or stored in a separate file. The manifest always has
the checksum of the part, so the cases cannot be exchanged. The part contains 32 random bytes, drawn during the fit, so
its checksum alone reveals nothing.

If there are too many past cases for a single process (`Fitted.elsewhere`), the part "cases" has the training sample and
the digests of the files with all past cases, which are in a folder next to the model file.

Before writing, `save` applies the same `validation` as `load`, so that every saved model can be loaded.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, fields
from os import PathLike
from typing import NoReturn, TypeVar, cast

import numpy as np

from bayespatch.fitted import Fitted, FittedClasses, FittedNumbers
from bayespatch.fitted_times import FittedTimes
from bayespatch.leave_one_out import LeaveOneOutVotes
from bayespatch.persistence.arrays import ARRAYS, SIZES, Arrays, as_bytes, in_their_types, packed, unpacked
from bayespatch.persistence.atomic import StorageError, check_path, refuse, unfinished
from bayespatch.persistence.contents import STORED, Parts, Stored
from bayespatch.persistence.file_format import File, Part, digest, dump_json, read, write
from bayespatch.persistence.file_format import read_manifest as read_any_manifest
from bayespatch.persistence.json_codec import array_to_json, hyper_to_json, parameters_to_json
from bayespatch.persistence.registry import LOADABLE, Estimator
from bayespatch.persistence.second_opinion import opinion_to_arrays
from bayespatch.persistence.validation import CASES_METADATA, COLUMN, check_manifest, parameters_of, validated
from bayespatch.retrieval import PartitionedIndex, PartsInFiles
from bayespatch.sampling.diagnostics import Diagnostics
from bayespatch.sampling.posterior import Posterior
from bayespatch.tune import Tuning
from bayespatch.types import AnyArray, JSONMapping, JSONObject
from bayespatch.validation import check_choice, check_flag
from bayespatch.version import __version__

Path = str | PathLike[str]
Made = TypeVar("Made", bound=object)

_KINDS: dict[str, type[Fitted]] = {
    "PatchworkClassifier": FittedClasses,
    "PatchworkRegressor": FittedNumbers,
    "PatchworkSurvival": FittedTimes,
}
_CASES_KEYS = ("format", "package", "holds", "parts")
_WRONG = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)  # from any check


class MissingCases:
    """Placeholder for the past cases in a model loaded without them; every use raises an error."""

    def __init__(self, path: str, manifest: JSONObject) -> None:
        self.path, self.manifest = path, manifest  # path and manifest of the loaded model file

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise refuse(
            self.path,
            "the model was loaded without its past cases and cannot predict without them",
            "load it together with the file that holds them: load(path, cases=...)",
        )

    __array__ = __getitem__ = __len__ = __iter__ = _refuse

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__") or "path" not in vars(self):  # copying looks up these names
            raise AttributeError(name)
        self._refuse()

    def __repr__(self) -> str:
        return "<past cases, left out>"


class Storable:
    """Adds the method `save` to an estimator."""

    def save(
        self, path: Path, *, with_cases: bool = True, cases_path: Path | None = None, overwrite: bool = False
    ) -> None:
        """Write the fitted model to a file for `bayespatch.load`; nothing in the file is ever executed.

        Parameters
        ----------
        path : path
            The file to write, usually with the suffix ``.bpatch``.
        with_cases : bool
            Whether to store the past cases. Without them, the model can be loaded but cannot predict.
        cases_path : path, optional
            A separate file for the past cases; load both with ``load(path, cases=cases_path)``.
        overwrite : bool
            Whether to replace existing files once the new ones are complete; if False, they cause a `StorageError`.

        Examples
        --------
        >>> import os, tempfile, bayespatch
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     model, cases = os.path.join(folder, "model.bpatch"), os.path.join(folder, "cases.bpatch")
        ...     clf.save(model, cases_path=cases)
        ...     bayespatch.load(model, cases=cases).predict([["yes", 60]])
        array(['sick'], dtype='<U4')
        """
        fitted: Fitted | None = getattr(self, "fitted_", None)
        if fitted is None:
            raise refuse(path, "there is no model to save", "call fit first")
        try:
            check_flag("with_cases", with_cases)
            if not check_flag("overwrite", overwrite):
                for place in (path, cases_path):
                    if place is not None and os.path.isdir(check_path(place)):
                        raise refuse(place, "is a folder", "pass the name of a file in it")
                    if place is not None and os.path.lexists(place):
                        raise refuse(place, "already exists", "pass overwrite=True to replace it, or another name")
            if not with_cases and cases_path is not None:
                raise ValueError("cases_path and with_cases=False contradict each other")
            folder, digests = parts_folder(path if cases_path is None else cases_path), None
            if fitted.has_cases and fitted.elsewhere is not None:
                digests = _written_parts(fitted.elsewhere, folder, overwrite) if with_cases else ()
            arrays, past = _arrays(fitted, digests)
            cases = None if past is None else packed(past)
            if past is None:  # the model was loaded without its cases
                manifest = _manifest_again(self, cast("MissingCases", fitted.x))
            else:
                manifest = _manifest(self, fitted, cases)
            validated({"format": 0, **manifest, "parts": []}, arrays, past)
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
                "the model cannot be saved with its past cases, because it was loaded without them",
                "load it with load(path, cases=...), or pass with_cases=False",
            )
        elif cases_path is None:
            write([(path, File(manifest, {**parts, "cases": cases}))])
        else:
            apart = File({"package": manifest["package"], "holds": "cases"}, {"cases": cases})
            write([(cases_path, apart), (path, File(manifest, parts))])
        if digests:
            PartsInFiles(folder, digests).delete_others()


# Saving


def parts_folder(path: Path) -> str:
    """The folder with the files of all past cases, next to the file with the part "cases"."""
    return f"{os.fspath(check_path(path))}.parts"


def _written_parts(elsewhere: PartitionedIndex, folder: str, overwrite: bool) -> tuple[str, ...]:
    """Write all past cases and return the digests; existing files remain until the model file is complete."""
    if os.path.lexists(folder) and not overwrite:
        raise refuse(folder, "already exists", "pass overwrite=True to replace it, or another name")
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        return elsewhere.write(folder)
    except OSError as error:
        raise refuse(folder, f"cannot be written ({error.strerror or error})", "choose another place") from error


def _arrays(fitted: Fitted, digests: tuple[str, ...] | None) -> tuple[Arrays, Arrays | None]:
    """The arrays of the model, and the arrays stored with its past cases, if any."""
    with_cases = fitted.has_cases
    values = {name: _part(fitted, name) for name in ARRAYS if with_cases or STORED[name] is Stored.ALWAYS}
    if with_cases:
        values["salt"] = np.frombuffer(fitted.salt, dtype=np.uint8)
    stored = in_their_types(values, ARRAYS)
    always = {name: array for name, array in stored.items() if STORED[name] is Stored.ALWAYS}
    if not with_cases:
        return always, None
    past = {name: array for name, array in stored.items() if STORED[name] is Stored.WITH_CASES}
    if fitted.ids is not None:
        past |= as_bytes(fitted.ids)
    numbers = fitted if isinstance(fitted, FittedNumbers) else None
    decision = fitted.decision if isinstance(fitted, FittedClasses) else None
    of_opinion, opinion = opinion_to_arrays(fitted.opinion)
    past |= of_opinion
    if fitted.follow_up is not None:
        past["follow_up"] = fitted.follow_up.to_array()
    metadata = {
        "schema": fitted.schema.to_dict(),
        "class_names": list(fitted.class_names),
        "edges": None if numbers is None else numbers.edges.tolist(),
        "kernel_density": None if numbers is None else asdict(numbers.kernel_density),
        "opinion": opinion,
        "follow_up": None if fitted.follow_up is None else fitted.follow_up.to_dict(),
        "times": _times(fitted) if isinstance(fitted, FittedTimes) else None,
        "decision": None if decision is None else asdict(decision),
        "elsewhere": None if digests is None else list(digests),
    }
    assert tuple(metadata) == CASES_METADATA
    past["metadata"] = np.frombuffer(dump_json(metadata), dtype=np.uint8)
    return always, past


def _part(fitted: Fitted, path: str) -> AnyArray | None:
    """A part of the model by its path in `contents`; None if the model lacks it."""
    part: object = fitted
    for name in path.split("."):
        part = getattr(part, name, None)
    return cast("AnyArray | None", part)


def _manifest_again(estimator: Estimator, left_out: MissingCases) -> JSONObject:
    """The manifest of a model that was loaded without its past cases, with its current parameters."""
    unchanged = {name: value for name, value in left_out.manifest.items() if name not in ("format", "parts")}
    changed = {"package": __version__, "parameters": parameters_to_json(estimator.get_params(deep=False))}
    return {**unchanged, **changed}


def _manifest(estimator: Estimator, fitted: Fitted, cases: Part | None) -> JSONObject:
    """Everything except the arrays; `file_format` adds the format and the list of parts."""
    posterior = fitted.posterior
    sizes = (
        len(fitted.x),
        len(fitted.cases),
        len(fitted.parents),
        len(fitted.schema.columns),
        posterior.votes_mean.shape[1],
        posterior.n_chains,
        posterior.n_draws,
        len(fitted.loo.rows),
        0 if posterior.steps is None else posterior.steps.shape[1],
        *posterior.z_mean.shape,
        0 if posterior.log_weights is None else posterior.log_weights.shape[2],
        0 if fitted.shown is None else len(fitted.shown),
    )
    return {
        "package": __version__,
        "holds": "model",
        "estimator": type(estimator).__name__,
        "parameters": parameters_to_json(estimator.get_params(deep=False)),
        "classes": array_to_json(fitted.classes) if isinstance(fitted, FittedClasses) else None,
        "target": fitted.target,
        "named": fitted.feature_names is not None,
        "columns": [{name: getattr(column, name) for name in COLUMN} for column in fitted.schema.columns],
        "model": {
            "kind": posterior.model.kind,
            "likelihood": posterior.model.likelihood,
            "hyper": hyper_to_json(posterior.hyper),
        },
        "settings": {name: np.asarray(value).item() for name, value in posterior.settings._asdict().items()},
        "timing": {name: np.asarray(value).item() for name, value in posterior.timing._asdict().items()},
        "sizes": dict(zip(SIZES, sizes, strict=True)),
        "diagnostics": _summary(fitted.diagnostics),
        "calibration": {
            "slope": fitted.calibration.slope,
            "base": list(fitted.calibration.base),
            "anchor": list(fitted.calibration.anchor),
            "slope_error": fitted.calibration.slope_error,
            "inflation": fitted.calibration.inflation,
        },
        "pool": None if fitted.pool is None else fitted.pool.to_dict(),
        "tuning": _trials(fitted.tuning),
        "cases_sha256": digest(cases or b""),
    }


def _times(fitted: FittedTimes) -> JSONObject:
    """The time intervals and their calibration."""
    calibration = fitted.times_calibration
    return {
        "cuts": fitted.time_intervals.cuts.tolist(),
        "level": calibration.level,
        "shape": calibration.shape,
        "covariance": calibration.covariance.ravel().tolist(),
        "base": calibration.base.tolist(),
        "event_name": fitted.event_name,
        "unit": fitted.unit,
    }


def _summary(table: Diagnostics) -> JSONObject:
    """Convergence of the chains; null if there are no diagnostics."""
    rhat, ess = table.rhat[np.isfinite(table.rhat)], table.ess[np.isfinite(table.ess)]
    return {
        "converged": bool(table.converged),
        "max_rhat": float(rhat.max()) if rhat.size else None,
        "min_ess": float(ess.min()) if ess.size else None,
    }


def _trials(tuning: Tuning | None) -> JSONObject | None:
    """The trials of the tuning; the model has the chosen constants. A score of -inf becomes null, as JSON lacks it."""
    if tuning is None:
        return None
    trials = [[None if part == -np.inf else part for part in trial] for trial in tuning.trials]
    return {"coding": tuning.coding, "trials": trials}


# Loading


def load(path: Path, *, cases: Path | None = None) -> Estimator:
    """Read a model file. The content is validated, and nothing in it is executed.

    Parameters
    ----------
    path : path
        The model file.
    cases : path, optional
        The file with the past cases, if the model file lacks them: `cases_path` from `save`, or a complete file of the
        same model.

    Returns
    -------
    PatchworkClassifier, PatchworkRegressor or PatchworkSurvival
        The fitted estimator, which gives exactly the same predictions as the saved one.

    Raises
    ------
    StorageError
        If the file is damaged, truncated, changed, or from a newer version.

    Examples
    --------
    >>> import os, tempfile
    >>> from bayespatch import load
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "model.bpatch")
    ...     clf.save(path)
    ...     load(path).predict([["yes", 60]])
    array(['sick'], dtype='<U4')
    """
    file = read(path)
    manifest, parts = file.manifest, dict(file.parts)
    if manifest.get("holds") == "cases":
        raise refuse(
            path, "contains the past cases of a model, not the model", "pass the model's file, and this one as cases="
        )
    if cases is not None:
        parts["cases"] = _cases_of(path, manifest, cases)
    with _named(path, manifest):
        if set(parts) - {"cases"} != {"arrays"}:
            raise ValueError("it does not have the parts of a model")
        if "cases" in parts and digest(parts["cases"]) != manifest.get("cases_sha256"):
            raise ValueError("its cases do not match the manifest")
        past = unpacked(parts["cases"]) if "cases" in parts else None
        parts_of = validated(manifest, unpacked(parts["arrays"]), past)
        estimator = _made(manifest)
    if parts_of.get("elsewhere") is not None:
        parts_of["elsewhere"] = _elsewhere(parts_folder(path if cases is None else cases), parts_of)
    estimator.fitted_ = _fitted(path, manifest, parts_of)
    return estimator


def _elsewhere(folder: str, parts_of: Parts) -> PartitionedIndex:
    """All past cases of a model, mapped from the files next to it."""
    files, schema = PartsInFiles(folder, parts_of["elsewhere"]), parts_of["schema"]
    files.check()
    try:
        index = PartitionedIndex.of_parts(files, len(files.digests), schema.every_window)
    except ValueError as error:  # parts that do not match each other
        raise refuse(folder, f"the files of these past cases do not match: {error}") from error
    sizes = len(schema.columns), len(parts_of["class_names"])
    if (len(index.windows), index.n_classes) != sizes or index.n_cases <= int(parts_of["rows"].max()):
        raise refuse(folder, "these are the past cases of another model")
    return index


def _fitted(path: Path, manifest: JSONObject, parts: Parts) -> Fitted:
    """The fitted model; past cases that were left out are replaced by a `MissingCases`."""
    kind = _KINDS[manifest["estimator"]]
    left_out = MissingCases(str(path), manifest)

    def made(owner: Callable[..., Made], names: Iterable[str], prefix: str = "", **inner: object) -> Made:
        default = {name: left_out for name in names if STORED.get(prefix + name) is Stored.WITH_CASES}
        given = {name: parts[prefix + name] for name in names if prefix + name in parts}
        return owner(**{**(default if "x" not in parts else {}), **given, **inner})

    posterior = made(Posterior, [part.name for part in fields(Posterior)], "posterior.")
    loo = made(LeaveOneOutVotes, LeaveOneOutVotes._fields, "loo.")
    fitted: Fitted = made(kind, [part.name for part in fields(kind)], posterior=posterior, loo=loo)
    return fitted


def read_manifest(path: Path) -> JSONObject:
    """Read and validate the manifest of a model file, without its arrays.

    Returns
    -------
    dict
        The keys of `validation.MANIFEST`; for a checkpoint or a file that contains only cases, its manifest.
    """
    manifest = read_any_manifest(path)
    if manifest.get("holds") == "model":
        with _named(path, manifest):
            check_manifest(manifest)
        return manifest
    if not all(isinstance(manifest.get(name), str) for name in ("package", "holds")):
        raise refuse(path, "the manifest does not state what the file contains")
    return {name: manifest[name] for name in ("format", "package", "holds", "parts")}


@contextmanager
def _named(path: Path, manifest: Mapping[str, object]) -> Iterator[None]:
    """Report errors in the content, and a lack of memory, with the name of the file."""
    try:
        yield
    except MemoryError as error:
        raise refuse(path, "there is not enough memory to load it", "load it on a larger machine") from error
    except _WRONG as error:
        wrong, other = f"this is not a valid model: {error}", manifest.get("package")
        if isinstance(other, str) and other != __version__:
            wrong += f" (it was written by bayespatch {other[:40]!r}, and this is {__version__!r})"
        raise refuse(path, wrong) from error


def _cases_of(path: Path, manifest: Mapping[str, object], cases: Path) -> Part:
    """The part with the past cases of this model, from another file.

    A process that was killed between renaming the model and its cases leaves the cases in a temporary file next to it.
    """
    candidates = [_cases_in(cases)]
    if digest(candidates[0]) != manifest.get("cases_sha256"):
        for temporary in unfinished(cases):
            with suppress(StorageError):
                candidates.append(_cases_in(temporary))
    for part in candidates:
        if digest(part) == manifest.get("cases_sha256"):
            return part
    raise refuse(cases, f"holds the past cases of another model than {path}", "pass the file that belongs to it")


def _cases_in(cases: Path) -> Part:
    """The part with the past cases of any model."""
    file = read(cases)
    if "cases" not in file.parts or (file.manifest.get("holds") == "cases" and tuple(file.manifest) != _CASES_KEYS):
        raise refuse(cases, "contains no past cases", "pass the file that was cases_path when the model was saved")
    return file.parts["cases"]


def _made(manifest: JSONMapping) -> Estimator:
    """An unfitted estimator with the stored parameters."""
    name = check_choice("estimator", manifest["estimator"], LOADABLE)
    estimator = LOADABLE[name]
    parameters = parameters_of(manifest["parameters"])
    unknown = sorted(set(parameters) - set(estimator().get_params(deep=False)))
    if unknown:
        raise ValueError(f"{name} has no parameters {', '.join(unknown)}")
    return estimator(**parameters)
