"""State dicts from mappings and from files."""

# mypy: allow-untyped-defs, allow-untyped-calls
# mypy: disable-error-code="arg-type, attr-defined"
from __future__ import annotations

import json

import numpy as np
import pytest

from jitcore import Error, SerializationError, nn


def model():
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))


def values():
    rng = np.random.default_rng(0)
    return {
        name: rng.normal(size=value.shape).astype(value.dtype)
        for name, value in model().state_dict().items()
    }


def assert_loaded(found, expected):
    state = found.state_dict()
    assert list(state) == list(expected)
    for name, value in expected.items():
        np.testing.assert_array_equal(state[name], value)
        assert state[name].dtype == model().state_dict()[name].dtype


def test_mapping():
    one = model()
    weight = one[0].weight
    result = one.load_state_dict(values())
    assert_loaded(one, values())
    assert one[0].weight is weight
    assert result.missing_keys == result.unexpected_keys == []
    assert repr(result) == "<All keys matched successfully>"


def test_what_is_loaded_takes_the_dtype_of_the_module():
    one = model()
    given = {name: value.astype(np.float64) for name, value in values().items()}
    one.load_state_dict(given)
    assert one[0].weight.dtype == np.float32
    one.load_state_dict(given, assign=True)
    assert one[0].weight is given["0.weight"]
    assert one[0].weight.dtype == np.float64


def test_the_state_dict_is_the_modules_own():
    one = model()
    one.state_dict()["0.bias"][:] = 7
    assert np.all(one[0].bias == 7)
    assert "x.0.weight" in one.state_dict(prefix="x.")


@pytest.mark.parametrize("assign", [False, True])
def test_names_that_do_not_fit(assign):
    one = model()
    before = {name: value.copy() for name, value in one.state_dict().items()}
    given = values()
    del given["0.bias"]
    given["other"] = np.ones(1)
    with pytest.raises(Error, match=r"(?s)Sequential.*missing.*: 0\.bias.*not in the.*: other"):
        one.load_state_dict(given, assign=assign)
    assert_loaded(one, before)
    result = one.load_state_dict(given, strict=False, assign=assign)
    assert result == (["0.bias"], ["other"])
    assert "missing_keys=['0.bias']" in repr(result)
    np.testing.assert_array_equal(one[0].weight, given["0.weight"])


def test_shapes_that_do_not_fit():
    given = values()
    given["0.weight"] = np.ones((4, 2))
    one = model()
    before = {name: value.copy() for name, value in one.state_dict().items()}
    for strict in (True, False):
        with pytest.raises(Error, match=r"size mismatch for 0\.weight.*\(4, 3\).*\(4, 2\)"):
            one.load_state_dict(given, strict=strict)
    assert_loaded(one, before)


def test_the_count_of_batches_may_be_missing():
    given = values()
    del given["1.num_batches_tracked"]
    assert model().load_state_dict(given).missing_keys == []


def test_values_that_are_no_arrays():
    given = values()
    given["0.weight"] = "text"
    with pytest.raises(TypeError, match=r"'0\.weight' in the state dict must be an array"):
        model().load_state_dict(given)


def test_npz(tmp_path):
    path = tmp_path / "weights.npz"
    np.savez(path, **values())
    for given in (path, str(path)):
        one = model()
        one.load_state_dict(given)
        assert_loaded(one, values())
    with np.load(path) as file:
        one = model()
        one.load_state_dict(file)
        assert_loaded(one, values())


def test_npz_with_objects_is_refused(tmp_path):
    path = tmp_path / "weights.npz"
    np.savez(path, **{"0.weight": np.array([object()], dtype=object)})
    with pytest.raises(ValueError, match="pickle"):
        model().load_state_dict(path)


NAMES = {
    "F64": np.float64,
    "F32": np.float32,
    "F16": np.float16,
    "I64": np.int64,
    "I32": np.int32,
    "U8": np.uint8,
    "BOOL": np.bool,
}


def safetensors(arrays):
    """The bytes of a file with these arrays."""
    kinds = {np.dtype(value): name for name, value in NAMES.items()}
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    data = b""
    for name, value in arrays.items():
        stop = len(data) + value.nbytes
        header[name] = {
            "dtype": kinds[value.dtype],
            "shape": value.shape,
            "data_offsets": [len(data), stop],
        }
        data += value.tobytes()
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def test_safetensors(tmp_path):
    path = tmp_path / "weights.safetensors"
    path.write_bytes(safetensors(values()))
    one = model()
    one.load_state_dict(path)
    assert_loaded(one, values())


@pytest.mark.parametrize("dtype", NAMES.values(), ids=NAMES)
def test_dtypes_of_safetensors(tmp_path, dtype):
    path = tmp_path / "weights.safetensors"
    expected = np.arange(6).reshape(2, 3).astype(dtype)
    path.write_bytes(safetensors({"x": expected, "none": np.zeros((0, 2), dtype)}))
    holder = nn.Module()
    holder.register_buffer("x", np.empty((2, 3), dtype))
    holder.register_buffer("none", np.empty((0, 2), dtype))
    holder.load_state_dict(path, assign=True)
    np.testing.assert_array_equal(holder.x, expected)
    assert holder.x.dtype == dtype
    holder.x[0, 0] = 1


def test_bfloat16(tmp_path):
    path = tmp_path / "weights.safetensors"
    header = json.dumps({"x": {"dtype": "BF16", "shape": [2], "data_offsets": [0, 4]}}).encode()
    # The upper halves of 1.5 and -2.0.
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes.fromhex("c03f00c0"))
    holder = nn.Module()
    holder.register_buffer("x", np.empty(2, np.float32))
    holder.load_state_dict(path)
    np.testing.assert_array_equal(holder.x, [1.5, -2.0])


def with_header(header):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + bytes(8)


ENTRY = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}

DAMAGED = {
    "empty": (b"", "ends inside its header"),
    "short": (b"\x10" + bytes(7) + b"{}", "ends inside its header"),
    "huge": (b"\xff" * 8 + b"{}", "ends inside its header"),
    "text": (with_header(b"not json"), "not JSON"),
    "bytes": (with_header(b"\xff\xfe"), "not JSON"),
    "list": (with_header([1]), "not a JSON object"),
    "entry": (with_header({"x": 3}), "no dtype, shape and data_offsets"),
    "offsets": (with_header({"x": {**ENTRY, "data_offsets": [1]}}), "no dtype, shape"),
    "dtype": (with_header({"x": {**ENTRY, "dtype": "F8_E4M3"}}), "dtype 'F8_E4M3'"),
    "negative": (with_header({"x": {**ENTRY, "shape": [-2]}}), "no valid shape"),
    "float": (with_header({"x": {**ENTRY, "shape": [2.0]}}), "no valid shape"),
    "shape": (with_header({"x": {**ENTRY, "shape": 2}}), "no valid shape"),
    "size": (with_header({"x": {**ENTRY, "shape": [3]}}), "does not fit"),
    "end": (with_header({"x": {**ENTRY, "data_offsets": [8, 16]}}), "does not fit"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_safetensors(tmp_path, name):
    contents, message = DAMAGED[name]
    path = tmp_path / "weights.safetensors"
    path.write_bytes(contents)
    with pytest.raises(SerializationError, match=message):
        nn.Module().load_state_dict(path)


def test_other_files(tmp_path):
    with pytest.raises(SerializationError, match=r"weights\.pt: expected an \.npz or"):
        nn.Module().load_state_dict(tmp_path / "weights.pt")
    with pytest.raises(OSError, match="weights"):
        nn.Module().load_state_dict(tmp_path / "weights.safetensors")
