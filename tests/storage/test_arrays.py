import numpy as np
import pytest

from bayespatch.storage.arrays import ARRAYS, CASES, as_bytes, as_texts, check_arrays, in_their_types, packed, unpacked

SIZES = {"n": 5, "N": 4, "S": 3, "P": 2, "M": 2, "C": 2, "D": 6, "R": 3}


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
        kept = in_their_types({"x": other, "y": np.arange(3, dtype=np.int32), "absent": None}, CASES)
        assert unpacked(packed(kept))["x"].tolist() == x.tolist()
        assert {name: array.dtype.str for name, array in kept.items()} == {"x": "<f8", "y": "<i8"}


def test_good_arrays_pass_and_some_are_optional():
    arrays = good()
    check_arrays(arrays, ARRAYS, SIZES)
    check_arrays({name: arrays[name] for name in arrays if not name.startswith("kept")}, ARRAYS, SIZES)
    x = np.array([[np.nan, -1e30]] * 5)
    check_arrays({"x": x, "y": np.arange(5) - 1, "values": x}, CASES, SIZES)


def test_texts_become_an_array_and_texts_again():
    texts = ["", "é ☹", '"quoted"', "2"]
    assert as_texts(as_bytes(texts), 4) == tuple(texts)
    for wrong, n in (
        (as_bytes(texts), 3),
        (as_bytes(texts).astype(np.int64), 4),
        (as_bytes(texts)[:-1], 4),
        (np.frombuffer(b"[1, 2]", np.uint8), 2),
        (np.frombuffer(b'["a" ]', np.uint8), 1),
        (np.frombuffer(b'"ab"', np.uint8), 2),
        (np.frombuffer(b"\xff", np.uint8), 1),
    ):
        with pytest.raises(ValueError):
            as_texts(wrong, n)


@pytest.mark.parametrize("name", ARRAYS)
def test_a_wrong_array_is_named(name):
    array = good()[name]
    one = array.copy()
    one.flat[-1] = -1 if array.dtype.kind == "i" else np.nan
    for wrong in (array[..., :-1], array[None], array.astype(np.float16), one):
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
            check_arrays({**good(), "q_tilde": np.full((2, 6, 3, 2), value, np.float32)}, ARRAYS, SIZES)


def test_arrays_too_many_or_too_few():
    arrays = good()
    with pytest.raises(ValueError, match="surprise"):
        check_arrays({**arrays, "surprise": arrays["q"]}, ARRAYS, SIZES)
    del arrays["z_mean"]
    with pytest.raises(ValueError, match="z_mean"):
        check_arrays(arrays, ARRAYS, SIZES)


@pytest.mark.parametrize("part", [b"", b"x" * 7, b"\xff" * 100, b"\x02" + bytes(7) + b"{", b"\x02" + bytes(7) + b"[]"])
def test_what_are_no_safetensors(part):
    with pytest.raises(ValueError, match="not safetensors"):
        unpacked(part)
