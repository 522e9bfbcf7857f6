"""Rows of f32 to the types of model files and back."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from . import _c
from ._arrays import Array, DtypeLike, as_array, dtype_info, dtype_name, dtype_number, exact
from ._lib import lib
from .errors import DtypeError, ShapeError


def row_bytes(dtype: DtypeLike, n: int) -> int:
    """Bytes of a row of n elements, a whole number of blocks."""
    return int(lib.rp_row_bytes(dtype_number(dtype), n))


def quantize(x: Any, dtype: DtypeLike) -> Array:
    """f32 [..., n] to the bytes of its rows, uint8 [..., row_bytes(dtype, n)]."""
    array, number = exact(x, np.float32, "x"), dtype_number(dtype)
    shape = array.shape or (1,)
    out = np.empty((*shape[:-1], int(lib.rp_row_bytes(number, shape[-1]))), np.uint8)
    rows = array.reshape(-1, shape[-1])
    for row, into in zip(rows, out.reshape(len(rows), -1)):
        lib.rp_quantize_row(number, row.ctypes.data, shape[-1], into.ctypes.data)
    return out


def dequantize(data: Any, dtype: DtypeLike, shape: Sequence[int] | int | None = None) -> Array:
    """The bytes of rows, as quantize gives them, to f32. `shape` of the result: all elements of `data` as one row by default."""
    number, array = dtype_number(dtype), np.ascontiguousarray(as_array(data)).view(np.uint8)
    if number in (_c.RpDtype.RP_I32, _c.RpDtype.RP_Q8_ACT):
        raise DtypeError(f"{dtype_name(number)} is no type of weights")
    info = dtype_info(number)
    wanted = (array.size // info.block_bytes * info.block_elems,) if shape is None else (shape,) if isinstance(shape, int) else tuple(shape)
    row = wanted[-1] if wanted else 1
    n_rows = int(np.prod(wanted[:-1], dtype=np.int64))
    if row < 0 or n_rows * int(lib.rp_row_bytes(number, row)) != array.size or row % info.block_elems:
        raise ShapeError(f"{dtype_name(number)} of shape {wanted} does not have {array.size} bytes")
    out = np.empty(wanted, np.float32)
    for data_row, into in zip(array.reshape(n_rows, -1), out.reshape(n_rows, row)):
        lib.rp_dequantize_row(number, data_row.ctypes.data, row, into.ctypes.data)
    return out
