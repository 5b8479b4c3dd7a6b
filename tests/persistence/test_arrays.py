import numpy as np
import pytest

from bayespatch.persistence.arrays import (
    ARRAYS,
    OPTIONAL,
    SALT_BYTES,
    as_bytes,
    as_texts,
    check_arrays,
    in_their_types,
    packed,
    unpacked,
)

SIZES = {"n": 5, "N": 4, "S": 3, "P": 2, "M": 2, "C": 2, "D": 6, "R": 3, "T": 7, "A": 4, "B": 3, "K": 5, "Q": 4}
SIZES |= {"s": SALT_BYTES, "e": 1, "V": 2}


def good():
    shapes = {name: tuple(SIZES[letter] for letter in kind.shape) for name, kind in ARRAYS.items()}
    return {name: np.zeros(shapes[name], dtype=kind.dtype) for name, kind in ARRAYS.items()}


def test_there_and_back_bit_for_bit():
    rng = np.random.default_rng(0)
    arrays = {name: (rng.random(array.shape) * 3).astype(array.dtype) for name, array in good().items()}
    found = unpacked(packed(arrays))
    assert set(found) == set(arrays)
    assert all(found[name].dtype == array.dtype for name, array in arrays.items())
    assert all(found[name].tobytes() == array.tobytes() for name, array in arrays.items())
    assert all(array.flags.writeable for array in found.values())
    assert packed(found) == packed(arrays)


def test_strides_and_byte_order_do_not_matter():
    x = np.arange(12.0).reshape(3, 4)
    for other in (np.asfortranarray(x), x.astype(">f8"), np.repeat(x, 2, axis=1)[:, ::2], x.astype(np.float32)):
        kept = in_their_types({"x": other, "y": np.arange(3, dtype=np.int32), "absent": None}, ARRAYS)
        assert unpacked(packed(kept))["x"].tolist() == x.tolist()
        assert {name: array.dtype.str for name, array in kept.items()} == {"x": "<f8", "y": "<i8"}


def test_good_arrays_pass_and_some_are_optional():
    arrays = good()
    check_arrays(arrays, ARRAYS, SIZES)
    check_arrays({name: arrays[name] for name in arrays if name not in OPTIONAL}, ARRAYS, SIZES)
    x = np.array([[np.nan, -1e30]] * 5)
    check_arrays({**arrays, "x": x, "y": np.arange(5) - 1, "values": x}, ARRAYS, SIZES)


def test_texts_become_arrays_and_texts_again():
    texts = ["", "é ☹", '"quoted"', "2", "\ud800"]
    letters, ends = as_bytes(texts).values()
    assert as_texts(letters, ends, 5) == tuple(texts)
    for wrong in (
        (letters, ends, 4),
        (letters.astype(np.int64), ends, 5),
        (letters, ends.astype(np.int32), 5),
        (letters[:-1], ends, 5),
        (letters, ends[::-1], 5),
        (letters, ends - 1, 5),
        (letters, ends * 2**60, 5),
        (np.full_like(letters, 255), ends, 5),
    ):
        with pytest.raises(ValueError):
            as_texts(*wrong)


@pytest.mark.parametrize("name", ARRAYS)
def test_a_wrong_array_is_named(name):
    array = good()[name]
    one = array.copy()
    if array.dtype.kind not in "ub":
        one.flat[-1] = -2 if array.dtype.kind == "i" else np.nan
    may_be = ARRAYS[name].nan or array.dtype.kind in "ub"
    for wrong in (array[..., :-1], array[None], array.astype(np.float16), *([] if may_be else [one])):
        with pytest.raises(ValueError, match=name):
            check_arrays({**good(), name: wrong}, ARRAYS, SIZES)
    if array.dtype.kind == "f":
        for value in (np.inf, -np.inf):
            one.flat[-1] = value
            with pytest.raises(ValueError, match=f"{name} has values that are not finite"):
                check_arrays({**good(), name: one}, ARRAYS, SIZES)


def test_shares_are_shares():
    for value in (-0.01, 1.01):
        with pytest.raises(ValueError, match="q_tilde has values outside 0 to 1"):
            check_arrays({**good(), "posterior.q_tilde": np.full((2, 6, 3, 2), value, np.float32)}, ARRAYS, SIZES)


def test_arrays_too_many_or_too_few():
    arrays = good()
    with pytest.raises(ValueError, match="surprise"):
        check_arrays({**arrays, "surprise": arrays["posterior.q"]}, ARRAYS, SIZES)
    del arrays["posterior.z_mean"]
    with pytest.raises(ValueError, match="z_mean"):
        check_arrays(arrays, ARRAYS, SIZES)


@pytest.mark.parametrize("part", [b"", b"x" * 7, b"\xff" * 100, b"\x02" + bytes(7) + b"{", b"\x02" + bytes(7) + b"[]"])
def test_what_are_no_safetensors(part):
    with pytest.raises(ValueError, match="not safetensors"):
        unpacked(part)
