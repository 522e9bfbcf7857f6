"""Custom ops, fusions and types of weights, and plugins. They are registered for the whole process and stay.

    relu = custom_op("relu", lambda x: np.maximum(x, 0))                      # computed by Python, for experiments
    y = g.op(relu, x)                                                         # or g.op("relu", x)
    pattern("relu_mul", match="mul(relu(x), y)", make="relu_mul(x, y)")

A kernel in CUDA C++ is given as text with `cuda`: it is compiled at run time by NVRTC (docs/source-kernels.md).

    pairs = register_dtype("int4", 2, 1,
        dequantize=lambda blocks: np.concatenate([blocks & 15, blocks >> 4], axis=1).astype(np.float32) - 8,
        quantize=lambda x, importance: ((c := np.clip(x + 8, 0, 15).astype(np.uint8))[:, :1] | c[:, 1:] << 4))
    w = quantize(np.ones((4, 64), np.float32), "int4")

Python computes a row of such a type at a time, for experiments; types in C come from a plugin (load_plugin, docs/extend.md)."""
from __future__ import annotations

import ctypes as ct
import os
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np

from . import _c
from ._arrays import NUMPY, Array, DtypeLike, dtype_info, dtype_number, ne_of, shape_of
from ._lib import choice, decoded, lib, libc, params, texts
from .errors import DtypeError, Error, ShapeError
from .graph import CUSTOM

KINDS = {field[0]: field[1] for struct in (_c.RpOpDescription, _c.RpDtypeDescription) for field in struct._fields_}
GRIDS: dict[str, int] = {"elements": _c.RpSourceGrid.RP_GRID_ELEMENTS, "rows": _c.RpSourceGrid.RP_GRID_ROWS}
KEPT: list[Any] = [] # callbacks and texts, which the library borrows for the life of the process

Shape = tuple[int, ...]
ShapeRule = Callable[..., Shape]


def view_array(view: _c.RpTensorView) -> Array:
    """The memory of a view during a call, with its strides."""
    dtype = NUMPY[view.dtype]
    n = len(shape_of(view.ne))
    size = lib.rp_view_extent_bytes(ct.byref(view))
    memory = (ct.c_char * size).from_address(view.data)
    return np.ndarray(tuple(reversed(view.ne[:n])), dtype, memory, 0, tuple(reversed(view.nb[:n])))


def kernel(compute: Callable[..., Any], n_sources: int) -> Any:
    """A CPU kernel: worker 0 computes all of the result by `compute`."""
    def run(args: int, context: int) -> int:
        try:
            if ct.cast(context, ct.POINTER(_c.RpKernelCtx)).contents.ith == 0:
                a = ct.cast(args, ct.POINTER(_c.RpOpArgs)).contents
                sources = [view_array(s) if s.ne[0] > 0 else None for s in a.src[:n_sources]]
                out = view_array(a.dst)
                out[...] = np.asarray(compute(*sources)).reshape(out.shape)
            return 0
        except BaseException as error: # noqa: B036: nothing may leave a callback
            return fail(_c.RpStatus.RP_E_ARG, f"{type(error).__name__}: {error}")
    return KINDS["cpu"](run)


def fail(status: int, text: str) -> int:
    symbol = lib.symbol("rp_fail")
    symbol.restype = ct.c_int32
    return int(symbol(ct.c_int32(status), b"%s", ct.c_char_p(text.encode("utf-8", "replace"))))


def shape_rule(rule: ShapeRule | None, n_sources: int) -> Any:
    """The shape rule in C. Without one the result has the shape of the first source. Sources must be f32."""
    def infer(sources: int, parameters: int, out: int, why: int) -> int:
        found = ct.cast(sources, ct.POINTER(ct.c_void_p * _c.RP_MAX_SRC)).contents
        views = [ct.cast(p, ct.POINTER(_c.RpTensorView)).contents if p else None for p in found[:n_sources]]
        try:
            for view in views:
                if view is not None and view.dtype != _c.RpDtype.RP_F32:
                    raise DtypeError("the sources must be f32")
            shapes = [shape_of(view.ne) if view is not None else None for view in views]
            wanted = rule(*shapes) if rule is not None else shapes[0]
            if wanted is None:
                raise ShapeError("an op must have a shape rule")
            result = lib.rp_view_contiguous(_c.RpDtype.RP_F32, ct.byref(ne_of(wanted, "result")), None)
            ct.memmove(out, ct.byref(result), ct.sizeof(result))
            return 0
        except BaseException as error: # noqa: B036: nothing may leave a callback
            text = ct.c_char_p(str(error).encode("utf-8", "replace"))
            KEPT.append(text) # static, as the library wants it
            ct.cast(why, ct.POINTER(ct.c_char_p))[0] = text
            return int(error.status or 0) if isinstance(error, Error) and error.status else int(_c.RpStatus.RP_E_ARG)
    return KINDS["shape"](infer)


def custom_op(name: str, compute: Callable[..., Any] | None = None, *, n_sources: int = 1, n_required: int | None = None,
              source_names: Sequence[str] = (), shape: ShapeRule | None = None, fused: bool = False, cuda: str | None = None,
              cuda_kernel: str | None = None, grid: Literal["elements", "rows"] = "elements", block: int = 256,
              options: Sequence[str] = ()) -> int:
    """Registers an op and returns its number.

    compute     the CPU kernel: gets the sources as arrays (None where absent) and returns the result
    shape       gets the shapes of the sources and returns that of the result; by default that of the first source
    fused       made by patterns only
    cuda        CUDA C++ text with the kernel `cuda_kernel` (by default `name`); `options` are those of NVRTC
    """
    names, n_names = texts(source_names)
    if n_names not in (0, n_sources):
        raise ShapeError(f"custom_op {name}: {n_names} names of {n_sources} sources")
    description = params(
        _c.RpOpDescription, name=name, n_sources=n_sources, n_required=n_sources if n_required is None else n_required,
        sources=ct.addressof(names) if n_names else None, shape=shape_rule(shape, n_sources),
        flags=_c.RP_FLAG_FUSED if fused else 0, cpu=kernel(compute, n_sources) if compute is not None else KINDS["cpu"]())
    out = ct.c_int32()
    KEPT.extend([names, description, name.encode()])
    if cuda is None:
        lib.rp_op_register_sized(ct.byref(description), ct.sizeof(description), ct.byref(out))
    else:
        source = cuda_source(cuda, cuda_kernel or name, grid, block, options)
        lib.rp_op_register_source_sized(ct.byref(description), ct.sizeof(description), ct.byref(source), ct.sizeof(source),
                                        ct.byref(out))
    CUSTOM[name] = out.value
    return out.value


def cuda_source(text: str, name: str, grid: str, block: int, options: Sequence[str]) -> _c.RpCudaSource:
    listed, n = texts(options)
    source = params(_c.RpCudaSource, text=text, kernel=name, grid=choice("grid", grid, GRIDS), block=block, n_options=n,
                    options=ct.addressof(listed) if n else None)
    KEPT.extend([listed, source])
    return source


def compile_cuda(text: str, kernel: str, *, major: int = 9, minor: int = 0, options: Sequence[str] = ()) -> str:
    """Compiles CUDA text without a device and keeps nothing; returns the warnings. ArgumentError has the compiler's errors."""
    source, log = cuda_source(text, kernel, "elements", 256, options), ct.c_void_p()
    try:
        lib.rp_cuda_source_compile_sized(ct.byref(source), ct.sizeof(source), major, minor, ct.byref(log))
        return decoded(ct.string_at(log.value)) if log.value else ""
    finally:
        libc.free(log)


def pattern(name: str, match: str, make: str, help: str | None = None) -> None:
    """Adds a pass: where `match` is found, its root becomes the op `make` (extend.h)."""
    given = params(_c.RpGraphPattern, name=name, match=match, make=make, help=help)
    KEPT.append(given)
    lib.rp_pattern_register_sized(ct.byref(given), ct.sizeof(given))


# ---- types ----

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
