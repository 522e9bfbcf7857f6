"""Custom ops and fusions. They are registered for the whole process and stay.

    relu = custom_op("relu", lambda x: np.maximum(x, 0))                      # computed by Python, for experiments
    y = g.op(relu, x)                                                         # or g.op("relu", x)
    pattern("relu_mul", match="mul(relu(x), y)", make="relu_mul(x, y)")

A kernel in CUDA C++ is given as text with `cuda`: it is compiled at run time by NVRTC (docs/source-kernels.md)."""
from __future__ import annotations

import ctypes as ct
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np

from . import _c
from ._arrays import NUMPY, Array, ne_of, shape_of
from ._lib import choice, decoded, lib, libc, params, texts
from .errors import DtypeError, Error, ShapeError
from .graph import CUSTOM

KINDS = {field[0]: field[1] for field in _c.RpOpDescription._fields_}
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
