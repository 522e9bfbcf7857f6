"""NumPy arrays and views of C memory; data types by their names. Shapes are those of NumPy: the innermost dimension comes last,
where ne of tensor.h has it first."""
from __future__ import annotations

import ctypes as ct
from collections.abc import Sequence
from typing import Any, NamedTuple, Union

import numpy as np
import numpy.typing as npt

from . import _c
from ._handle import Handle
from ._lib import decoded, lib
from .errors import ArgumentError, DtypeError, ShapeError

Array = npt.NDArray[Any]
DtypeLike = Union[str, type, "np.dtype[Any]", int]

NAMES: dict[str, int] = {lib.rp_dtype_name(number): number for number in range(_c.RpDtype.RP_DTYPE_COUNT)}
NUMPY: dict[int, np.dtype[Any]] = {
    _c.RpDtype.RP_F32: np.dtype(np.float32), _c.RpDtype.RP_F16: np.dtype(np.float16), _c.RpDtype.RP_I32: np.dtype(np.int32),
    _c.RpDtype.RP_BF16: np.dtype(np.uint16)}
BYTES = np.dtype(np.uint8)


def names() -> dict[str, int]:
    """Types by name, with those that were registered (custom.py, plugins)."""
    number = int(_c.RpDtype.RP_DTYPE_CUSTOM) + len(NAMES) - int(_c.RpDtype.RP_DTYPE_COUNT)
    while lib.rp_dtype_info(number):
        NAMES[lib.rp_dtype_name(number).lower()] = number
        number += 1
    return NAMES


def dtype_number(dtype: DtypeLike) -> int:
    """The RpDtype of "q4_0", "f32", np.float32, ..."""
    if isinstance(dtype, str) and dtype.lower() in names():
        return NAMES[dtype.lower()]
    if isinstance(dtype, int) and not isinstance(dtype, bool):
        return dtype # checked by the library
    given: Any = dtype
    try:
        wanted: np.dtype[Any] = np.dtype(given)
    except TypeError:
        raise DtypeError(f"dtype {dtype!r}: {', '.join(NAMES)} are known") from None
    for number, known in NUMPY.items():
        if wanted == known and number != _c.RpDtype.RP_BF16:
            return int(number)
    raise DtypeError(f"dtype {wanted}: f32, f16 and i32 have a NumPy type; {', '.join(NAMES)} are known")


def dtype_name(number: int) -> str:
    return str(lib.rp_dtype_name(number))


class DtypeInfo(NamedTuple):
    """RpDtypeInfo. gguf_type -1: never in a file."""

    name: str
    block_elems: int
    block_bytes: int
    gguf_type: int


def dtype_info(dtype: DtypeLike) -> DtypeInfo:
    found = lib.rp_dtype_info(dtype_number(dtype))
    if not found:
        raise DtypeError(f"{dtype} is no dtype")
    raw = ct.cast(found, ct.POINTER(_c.RpDtypeInfo)).contents
    return DtypeInfo(decoded(raw.name), raw.block_elems, raw.block_bytes, raw.gguf_type)


def as_array(value: Any) -> Array:
    """Without a copy where that is possible: ndarray, or anything with __dlpack__ or the array protocols."""
    if isinstance(value, np.ndarray):
        return value
    if hasattr(value, "__dlpack__") and not hasattr(value, "__array_interface__"):
        return np.from_dlpack(value)
    return np.asarray(value)


def exact(value: Any, dtype: Any, what: str) -> Array:
    """A C-contiguous, aligned array of `dtype`, the same memory if it is one; integers are checked to be in range."""
    array = as_array(value)
    wanted = np.dtype(dtype)
    if array.dtype != wanted:
        if array.size == 0 and array.dtype == np.float64:
            array = array.astype(wanted) # np.array([])
        elif wanted.kind in "iu":
            if array.dtype.kind not in "iu":
                raise DtypeError(f"{what}: must be integers, not {array.dtype}")
            limits = np.iinfo(wanted)
            if array.size and (array.min() < limits.min or array.max() > limits.max):
                raise ArgumentError(f"{what}: a value is outside {limits.min}..{limits.max}")
        elif array.dtype.kind not in "fiu":
            raise DtypeError(f"{what}: must be numbers, not {array.dtype}")
    out = np.ascontiguousarray(array, wanted)
    return out if out.flags.aligned else out.copy()


def tokens_array(tokens: Any, what: str = "tokens") -> npt.NDArray[np.int32]:
    out = exact(list(tokens) if isinstance(tokens, tuple) else tokens, np.int32, what)
    if out.ndim > 1:
        raise ShapeError(f"{what}: must have one dimension, not {out.shape}")
    return out.reshape(-1)


def ne_of(shape: Sequence[int] | int, what: str) -> Any:
    """int64_t ne[RP_MAX_DIMS] of a shape."""
    sizes = [int(n) for n in ((shape,) if isinstance(shape, int) else shape)]
    if len(sizes) > _c.RP_MAX_DIMS:
        raise ShapeError(f"{what}: shape {tuple(sizes)} has more than {_c.RP_MAX_DIMS} dimensions")
    if any(not -2**63 <= n < 2**63 for n in sizes):
        raise ShapeError(f"{what}: shape {tuple(sizes)} is beyond 64 bits")
    return (ct.c_int64 * _c.RP_MAX_DIMS)(*reversed(sizes), *[1] * (_c.RP_MAX_DIMS - len(sizes)))


def shape_of(ne: Sequence[int]) -> tuple[int, ...]:
    """The shape of ne, without outer dimensions of size 1."""
    sizes = list(ne)
    while len(sizes) > 1 and sizes[-1] == 1:
        sizes.pop()
    return tuple(reversed(sizes))


def plain_shape(view: _c.RpTensorView) -> tuple[int, ...]:
    """The shape of a view as an array. Block types are bytes: the last dimension is that of a row in bytes."""
    shape = shape_of(view.ne)
    return shape if view.dtype in NUMPY else (*shape[:-1], int(lib.rp_row_bytes(view.dtype, shape[-1])))


def array_of(owner: Handle, view: _c.RpTensorView, address: int, writable: bool) -> Array:
    """The memory of a contiguous view at `address`."""
    shape, dtype = plain_shape(view), NUMPY.get(view.dtype, BYTES)
    out = np.frombuffer(owner._memory(address, dtype.itemsize * int(np.prod(shape))), dtype).reshape(shape)
    out.flags.writeable = writable
    return out
