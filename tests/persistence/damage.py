"""Damaged model files: by accident (bits, blocks, lengths) and on purpose (other content, checksums made to fit)."""

import copy
import hashlib
import json
import struct

import numpy as np
from safetensors.numpy import load as unpack
from safetensors.numpy import save as pack

HEAD = struct.Struct("<12sIQ32s")
FORMAT = 3


def taken_apart(blob):
    """Manifest and parts of a whole file."""
    _, _, length, _ = HEAD.unpack_from(blob)
    manifest = json.loads(blob[HEAD.size : HEAD.size + length])
    parts, at = {}, HEAD.size + length
    for entry in manifest["parts"]:
        parts[entry["name"]] = blob[at : at + entry["bytes"]]
        at += entry["bytes"]
    return manifest, parts


def text_of(manifest):
    lines = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in manifest.items()]
    return ("{\n" + ",\n".join(lines) + "\n}\n").encode()


def put_together(manifest, parts, version=FORMAT, text=None):
    """A file with this content whose checksums fit."""
    if isinstance(manifest.get("parts"), list) and "cases_sha256" in manifest and "cases" in parts:
        manifest = {**manifest, "cases_sha256": hashlib.sha256(parts["cases"]).hexdigest()}
    listed = [{"name": n, "bytes": len(p), "sha256": hashlib.sha256(p).hexdigest()} for n, p in parts.items()]
    text = text_of({**manifest, "parts": listed} if "parts" in manifest else manifest) if text is None else text
    head = HEAD.pack(b"\x89bayespatch\n", version, len(text), hashlib.sha256(text).digest())
    return head + text + b"".join(parts.values())


# By accident


def by_accident(rng, blob):
    """Another file than `blob`, made from it by one to three mishaps."""
    while True:
        found = bytearray(blob)
        for _ in range(rng.integers(1, 4)):
            _mishap(rng, found)
        if bytes(found) != blob:
            return bytes(found)


def _mishap(rng, found):
    size = len(found)
    if not size:
        found += bytes(rng.integers(0, 256, 9, dtype=np.uint8))
        return
    # As often near the beginning, where every field counts, as anywhere.
    start = int(rng.integers(0, min(size, 3000) if rng.random() < 0.5 else size))
    stop = min(size, start + int(rng.integers(1, 200)))
    match rng.integers(0, 9):
        case 0:
            found[start] ^= 1 << int(rng.integers(0, 8))
        case 1:
            del found[start:]
        case 2:
            found[start:start] = bytes(rng.integers(0, 256, rng.integers(1, 50), dtype=np.uint8))
        case 3:
            del found[start:stop]
        case 4:
            found[start:stop] = bytes(stop - start)
        case 5:
            found[start] = int(rng.integers(0, 256))
        case 6:
            other = int(rng.integers(0, size))
            length = min(stop - start, size - other)
            first, second = found[start : start + length], found[other : other + length]
            found[start : start + length], found[other : other + length] = second, first
        case 7:
            found[start:start] = found[start:stop]
        case 8:
            found += bytes(rng.integers(0, 256, rng.integers(1, 50), dtype=np.uint8))


# On purpose

STRANGE = (None, True, -1, 2**70, -1.5, "?", "../../x", [], {}, [[]], {"type": "pickle", "value": "cos"})
TEXTS = (
    b"",
    b"{}",
    b"null",
    b"[]",
    b"{",
    b"\xff\xfe",
    b"[" * 100_000,
    b'{"format": NaN}',
    b'{"format": 1e999}',
    b"{\n" + b'"format": 1,\n' * 2 + b"}\n",
)


def on_purpose(rng, blob):
    """A file whose checksums fit and whose content is obviously wrong; and what was done to it."""
    manifest, parts = taken_apart(blob)
    manifest = copy.deepcopy(manifest)
    ways = (_wrong_value, _wrong_key, _wrong_size, _wrong_text, _wrong_array, _wrong_case, _wrong_part, _wrong_version)
    return ways[rng.choice(len(ways), p=[0.35, 0.15, 0.1, 0.05, 0.2, 0.07, 0.05, 0.03])](rng, manifest, parts)


def leaves(data, path=()):
    """The paths to all values that are no dict and no list."""
    if isinstance(data, dict | list):
        items = data.items() if isinstance(data, dict) else enumerate(data)
        return [leaf for key, part in items for leaf in leaves(part, (*path, key))]
    return [path]


def at(data, path):
    for key in path:
        data = data[key]
    return data


def _wrong_value(rng, manifest, parts):
    """A value of another type than it was."""
    paths = [path for path in leaves(manifest) if path[0] not in ("parts", "cases_sha256")]
    path = paths[rng.integers(len(paths))]
    before = at(manifest, path)
    may_be_null = path[-1] in ("max_rhat", "min_ess") or path[0] in ("parameters", "tuning")
    if path[0] == "parameters":  # simple values of another type are for the next fit to judge; other things are not
        strange = [2**70, [], {}, [[]], {"type": "pickle", "value": "cos"}, {"type": "array", "value": [1]}]
    else:
        strange = [new for new in STRANGE if type(new) is not type(before) and not (new is None and may_be_null)]
    at(manifest, path[:-1])[path[-1]] = new = strange[rng.integers(len(strange))]
    return put_together(manifest, parts), f"{path}: {before!r} became {new!r}"


def _wrong_key(rng, manifest, parts):
    """A key too many, too few, or elsewhere."""
    names = (
        "model",
        "settings",
        "timing",
        "sizes",
        "diagnostics",
        "calibration",
        "classes",
    )
    inner = [name for name in names if manifest[name] is not None]
    where = manifest if rng.random() < 0.5 else manifest[inner[rng.integers(len(inner))]]
    keys = list(where)
    key = keys[rng.integers(len(keys))]
    match rng.integers(0, 3):
        case 0:
            where["surprise"] = 1
        case 1:
            del where[key]
        case 2:
            where[f"{key}_"] = where.pop(key)
    return put_together(manifest, parts), f"keys {list(where)}"


def _wrong_size(rng, manifest, parts):
    names = list(manifest["sizes"])
    name = names[rng.integers(len(names))]
    before = manifest["sizes"][name]
    wrong = [0, -1, -before, before + 1, max(before - 1, 0), 10 * before, 2**31, 2**62, 2**63 - 1]
    manifest["sizes"][name] = new = wrong[rng.integers(len(wrong))]
    return put_together(manifest, parts), f"size {name} became {new}"


def _wrong_text(rng, manifest, parts):
    """JSON that is none, or that says a thing in another way."""
    text = text_of({**manifest})
    others = (
        *TEXTS,
        text + b" ",
        text.replace(b": ", b":", 1),
        text.replace(b'"format": 3', b'"format": 3.0'),
        text.replace(b'"format": 3', b'"format": 3,\n"format": 3'),
        text.replace(b'"timing": {', b'"timing": {"seconds_warmup": NaN, '),
        text.replace(b'"alpha": ', b'"alpha": 1'),
        text.replace(b'"alpha": ', b'"alpha": -'),
        text.replace(b'"seed": ', b'"seed": ' + b"9" * 5000),
    )
    new = others[rng.integers(len(others))]
    return put_together(manifest, parts, text=new), f"text {new[:60]!r}"


def _wrong_array(rng, manifest, parts):
    part = "arrays" if rng.random() < 0.3 else "cases"
    arrays = dict(unpack(parts[part]))
    names = sorted(name for name in set(arrays) - {"metadata", "ids", "ids_ends"} if arrays[name].size)
    name = names[rng.integers(len(names))]
    array = arrays[name].copy()
    place = tuple(rng.integers(0, n) for n in array.shape)
    way = int(rng.integers(0, 7))
    if way == 0:
        arrays[name] = array.astype("float64" if array.dtype != "float64" else "float32")
    elif way == 1:
        arrays[name] = np.ascontiguousarray(array[..., :-1])
    elif way == 2:
        arrays[name] = array[None]
    elif way == 3:
        del arrays[name]
    elif way == 4:
        arrays["surprise"] = array
    elif (
        way == 5
        and array.dtype not in (np.uint8, np.bool_)
        and not (name in ("x", "values") and array.dtype.kind == "f")
    ):
        wrong = [np.nan, np.inf, -np.inf] if array.dtype.kind == "f" else [-2, -(2**31), 2**31 - 1]
        array[place] = wrong[rng.integers(3)]
        arrays[name] = array
    else:
        blob = bytearray(pack(arrays))
        blob[int(rng.integers(0, 8 + 40))] ^= 0xFF  # its header
        return put_together(manifest, {**parts, part: bytes(blob)}), f"safetensors header of {part}"
    return put_together(manifest, {**parts, part: pack(arrays)}), f"array {name}, way {way}"


def _wrong_case(rng, manifest, parts):
    cases = {name: array.copy() for name, array in unpack(parts["cases"]).items()}
    row = rng.integers(len(cases["y"]))
    metadata = json.loads(cases["metadata"].tobytes())
    way = int(rng.integers(0, 8))
    if way == 7:
        paths = leaves(metadata)
        path = paths[rng.integers(len(paths))]
        strange = [new for new in STRANGE if type(new) is not type(at(metadata, path))]
        at(metadata, path[:-1])[path[-1]] = strange[rng.integers(len(strange))]
    elif way == 6:
        keys = list(metadata)
        key = keys[rng.integers(len(keys))]
        metadata[f"{key}_"] = metadata.pop(key)
    elif way == 5:
        cases["values"][row] += 1e6
    elif way == 0:
        wrong = [np.inf, -1.0, 0.5, 1e9, np.nan]
        may_be_missing = metadata["schema"]["missing"] == "ignore"
        cases["x"][row, 0] = wrong[rng.integers(5 - may_be_missing)]
    elif way == 1:
        cases["y"][row] = [-2, 99, 2**40][rng.integers(3)]
    elif way == 2:
        cases = {name: np.ascontiguousarray(array[:-1]) for name, array in cases.items()}
    elif way == 3:
        cases["x"] = cases["x"].astype(np.float32)
    else:
        del cases["y"]
    if way in (6, 7):
        cases["metadata"] = np.frombuffer(json.dumps(metadata).encode(), np.uint8)
    return put_together(manifest, {**parts, "cases": pack(cases)}), f"cases, way {way}"


def _wrong_part(rng, manifest, parts):
    way = int(rng.integers(0, 6))
    if way < 3:
        listed = manifest["parts"]
        if way == 0:
            listed[0]["bytes"] = -listed[0]["bytes"]
        elif way == 1:
            listed[1]["name"] = listed[0]["name"]
        else:
            listed[0]["bytes"], listed[1]["bytes"] = listed[1]["bytes"], listed[0]["bytes"]
        return put_together(manifest, parts, text=text_of(manifest)), f"list of parts, way {way}"
    if way == 3:
        parts = {"arrays": parts["cases"], "cases": parts["arrays"]}
    elif way == 4:
        parts = {"array": parts["arrays"], "cases": parts["cases"]}
    else:
        parts = {**parts, "code": b"print()"}
    return put_together(manifest, parts), f"parts {list(parts)}"


def _wrong_version(rng, manifest, parts):
    version = [0, 1, 3, 2**31, 2**32 - 1][rng.integers(5)]
    says = [FORMAT, version][rng.integers(2)]
    return put_together({**manifest, "format": says}, parts, version=version), f"format {version}"


# Together


def refused_all(load, refusal, path, blob, n, seed):
    """Load `n` damaged versions of a file. Returns the tries that were not refused as they should be."""
    rng = np.random.default_rng(seed)
    failures = []
    for k in range(n):
        new, what = (by_accident(rng, blob), "accident") if k % 3 else on_purpose(rng, blob)
        if new == blob:
            continue
        path.write_bytes(new)
        try:
            load(path)
        except refusal as error:
            if str(path) not in str(error):
                failures.append((k, what, f"does not name the file: {error}"))
        except BaseException as error:
            failures.append((k, what, repr(error)))
        else:
            failures.append((k, what, "loaded"))
    return failures
