"""Types of weights that are registered from outside, and plugins. They are registered for the whole process and stay.

    pairs = register_dtype("int4", 2, 1,
        dequantize=lambda blocks: np.concatenate([blocks & 15, blocks >> 4], axis=1).astype(np.float32) - 8,
        quantize=lambda x, importance: ((c := np.clip(x + 8, 0, 15).astype(np.uint8))[:, :1] | c[:, 1:] << 4))
    w = quantize(np.ones((4, 64), np.float32), "int4")

Python computes a row at a time, for experiments; types in C come from a plugin (load_plugin, docs/extend.md)."""
from __future__ import annotations

import ctypes as ct
import os
from collections.abc import Callable
from typing import Any

import numpy as np

from . import _c
from ._arrays import Array, DtypeLike, dtype_info, dtype_number
from ._lib import lib, params
from .custom import KEPT, fail
from .errors import ShapeError

KINDS = {field[0]: field[1] for field in _c.RpDtypeDescription._fields_}


def memory(address: int, shape: tuple[int, ...], dtype: Any) -> Array:
    """The memory at an address during a call."""
    wanted = np.dtype(dtype)
    return np.frombuffer((ct.c_char * (int(np.prod(shape)) * wanted.itemsize)).from_address(address), wanted).reshape(shape)


def dequantizer(compute: Callable[[Array], Any], elems: int, size: int) -> Any:
    def run(row: int, n: int, out: int, user: int) -> None:
        y = memory(out, (n // elems, elems), np.float32)
        try:
            y[...] = np.asarray(compute(memory(row, (n // elems, size), np.uint8)))
        except BaseException: # noqa: B036: nothing may leave a callback, and this one has no status
            y[...] = np.nan
    return KINDS["dequantize"](run)


def quantizer(compute: Callable[[Array, Array | None], Any], elems: int, size: int) -> Any:
    def run(x: int, importance: int, n: int, row: int, user: int) -> int:
        try:
            weights = memory(importance, (n // elems, elems), np.float32) if importance else None
            blocks = np.asarray(compute(memory(x, (n // elems, elems), np.float32), weights))
            if blocks.dtype != np.uint8 or blocks.shape != (n // elems, size):
                raise ShapeError(f"quantize gave {blocks.dtype} {blocks.shape}, must be uint8 {(n // elems, size)}")
            memory(row, (n // elems, size), np.uint8)[...] = blocks
            return 0
        except BaseException as error: # noqa: B036: nothing may leave a callback
            return fail(_c.RpStatus.RP_E_ARG, f"{type(error).__name__}: {error}")
    return KINDS["quantize"](run)


def dotter(compute: Callable[[Array, Array], Any], elems: int, size: int) -> Any:
    def run(row: int, x: int, n: int, user: int) -> float:
        try:
            return float(compute(memory(row, (n // elems, size), np.uint8), memory(x, (n // elems, elems), np.float32)))
        except BaseException: # noqa: B036: nothing may leave a callback, and this one has no status
            return float("nan")
    return KINDS["dot"](run)


def validator(compute: Callable[[Array], Any], size: int) -> Any:
    def run(block: int, user: int) -> bool:
        try:
            return bool(compute(memory(block, (size,), np.uint8)))
        except BaseException: # noqa: B036: nothing may leave a callback
            return False
    return KINDS["validate"](run)


def register_dtype(name: str, block_elems: int, block_bytes: int, dequantize: Callable[[Array], Any],
                   quantize: Callable[[Array, Array | None], Any] | None = None,
                   dot: Callable[[Array, Array], Any] | None = None, *, validate: Callable[[Array], Any] | None = None,
                   gguf_type: int = 0) -> int:
    """Registers a type of weights and returns its number. Its name is known to all functions that take a dtype.

    dequantize  gets uint8 [blocks, block_bytes] and returns f32 [blocks, block_elems]; an exception makes the row NaN
    quantize    gets f32 [blocks, block_elems] and their importance, or None, and returns uint8 [blocks, block_bytes]
    dot         gets blocks and f32 [blocks, block_elems] and returns the dot product; by default the library dequantises
    validate    gets a block, uint8 [block_bytes]; false: a model with such a block is refused
    gguf_type   its number in GGUF files; 0: never in a file
    """
    sizes = (int(block_elems), int(block_bytes))
    description = params(
        _c.RpDtypeDescription, name=name, block_elems=sizes[0], block_bytes=sizes[1], gguf_type=gguf_type,
        dequantize=dequantizer(dequantize, *sizes),
        quantize=quantizer(quantize, *sizes) if quantize is not None else KINDS["quantize"](),
        dot=dotter(dot, *sizes) if dot is not None else KINDS["dot"](),
        validate=validator(validate, sizes[1]) if validate is not None else KINDS["validate"]())
    out = ct.c_int32()
    lib.rp_dtype_register_sized(ct.byref(description), ct.sizeof(description), ct.byref(out))
    KEPT.append(description)
    return out.value


def check_row(dtype: DtypeLike, data: Any) -> None:
    """FormatError if a block of a row, uint8 [bytes], is one that the type refuses."""
    info, row = dtype_info(dtype), np.ascontiguousarray(data, np.uint8).reshape(-1)
    if row.size % info.block_bytes:
        raise ShapeError(f"{row.size} bytes are not whole blocks of {info.block_bytes}")
    lib.rp_dtype_check_row(dtype_number(dtype), row.ctypes.data, row.size // info.block_bytes * info.block_elems)


def load_plugin(path: str | os.PathLike[str]) -> None:
    """Loads a shared object that registers ops, patterns and types (plugin.h). The folder and the file must be writable by no
    other user."""
    lib.rp_plugin_load(os.path.join(os.curdir, os.fspath(path)))
