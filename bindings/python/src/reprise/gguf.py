"""GGUF files: metadata and tensors."""
from __future__ import annotations

import ctypes as ct
import os
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, Union

import numpy as np

from . import _c
from ._arrays import Array, array_of, shape_of
from ._handle import Handle
from ._lib import decoded, lib
from .errors import DtypeError
from .quants import dequantize
from .tokenizer import Tokenizer

Value = Union[str, int, float, bool, "list[str]", Array]
STORED = {_c.RpGgufType.RP_GGUF_U8: "<u1", _c.RpGgufType.RP_GGUF_I8: "<i1", _c.RpGgufType.RP_GGUF_U16: "<u2",
          _c.RpGgufType.RP_GGUF_I16: "<i2", _c.RpGgufType.RP_GGUF_U32: "<u4", _c.RpGgufType.RP_GGUF_I32: "<i4",
          _c.RpGgufType.RP_GGUF_F32: "<f4", _c.RpGgufType.RP_GGUF_BOOL: "?", _c.RpGgufType.RP_GGUF_U64: "<u8",
          _c.RpGgufType.RP_GGUF_I64: "<i8", _c.RpGgufType.RP_GGUF_F64: "<f8"}


def string(value: _c.RpGgufString) -> str:
    return decoded(ct.string_at(value.ptr, value.len) if value.ptr and value.len else b"")


def value_of(found: int) -> Value:
    """The Python value of an RpGgufValue: arrays of numbers are NumPy's."""
    value = ct.cast(found, ct.POINTER(_c.RpGgufValue)).contents
    if value.elem_type == _c.RpGgufType.RP_GGUF_STRING:
        cursor = ct.c_void_p(value.data)
        listed = [string(lib.rp_gguf_next_string(ct.byref(cursor))) for _ in range(value.n)]
        return listed if value.type == _c.RpGgufType.RP_GGUF_ARRAY else listed[0]
    dtype = np.dtype(STORED[_c.RpGgufType(value.elem_type)])
    array = np.frombuffer(ct.string_at(value.data, value.n * dtype.itemsize) if value.data and value.n else b"", dtype)
    if value.type == _c.RpGgufType.RP_GGUF_ARRAY:
        return array
    single: Value = array[0].item()
    return single


class Tensor(NamedTuple):
    """A tensor of a file. `shape` is that of NumPy. `data` shares the memory of the file: an array of f32, f16 or i32 (of uint16
    for bf16), or the bytes of its rows for block types."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    n_bytes: int
    data: Array | None

    def dequantize(self) -> Array:
        """The elements as f32."""
        if self.data is None:
            raise DtypeError(f"{self.name}: this library does not compute with {self.dtype}")
        return dequantize(self.data, self.dtype, self.shape)


class GgufFile(Handle):
    """A GGUF file, by its path or from memory that it borrows (any object with the buffer protocol)."""

    def __init__(self, path: str | os.PathLike[str] | None = None, *, data: Any = None, name: str = "memory") -> None:
        out = ct.c_void_p()
        if data is None:
            lib.rp_gguf_open(path, ct.byref(out))
            super().__init__(out.value or 0, lib.rp_gguf_close)
        else:
            memory = np.frombuffer(data, np.uint8)
            lib.rp_gguf_open_memory(memory.ctypes.data, memory.size, name, ct.byref(out))
            super().__init__(out.value or 0, lib.rp_gguf_close)
            self._owner.borrowed.append(memory)

    @property
    def path(self) -> str:
        return str(lib.rp_gguf_path(self))

    @property
    def version(self) -> int:
        return int(lib.rp_gguf_version(self))

    @property
    def n_bytes(self) -> int:
        return int(lib.rp_gguf_bytes(self))

    @property
    def metadata(self) -> Metadata:
        return Metadata(self, self)

    def tokenizer(self) -> Tokenizer:
        """The tokenizer of the file, also where no model can be opened."""
        out = ct.c_void_p()
        lib.rp_tokenizer_new(self, ct.byref(out))
        return Tokenizer(Handle(out.value or 0, lib.rp_tokenizer_free, (self._owner,)), out.value or 0, self._pointer)

    @property
    def tensors(self) -> Tensors:
        return Tensors(self, self)


class Metadata(Mapping[str, Value]):
    """The keys of a file and their values."""

    def __init__(self, owner: Handle, file: Any) -> None:
        self._file, self._of = file, owner

    def __getitem__(self, key: str) -> Value:
        owner = self._of._hold()
        try:
            found = lib.rp_gguf_find(self._file, key)
            if not found:
                raise KeyError(key)
            return value_of(found)
        finally:
            owner.release()

    def __len__(self) -> int:
        self._of._hold().release()
        return int(lib.rp_gguf_n_values(self._file))

    def __iter__(self) -> Iterator[str]:
        for i in range(len(self)):
            value = ct.cast(lib.rp_gguf_value(self._file, i), ct.POINTER(_c.RpGgufValue)).contents
            yield string(value.key)


class Tensors(Mapping[str, Tensor]):
    """The tensors of a file by their names."""

    def __init__(self, owner: Handle, file: Any) -> None:
        self._file, self._of = file, owner

    def _tensor(self, found: int) -> Tensor:
        t = ct.cast(found, ct.POINTER(_c.RpGgufTensor)).contents
        shape = shape_of(t.view.ne)
        if not t.known:
            return Tensor(string(t.name), str(lib.rp_gguf_type_name(t.gguf_type)), shape, t.bytes, None)
        data = array_of(self._of, t.view, t.view.data or 0, False)
        return Tensor(string(t.name), str(lib.rp_dtype_name(t.view.dtype)), shape, t.bytes, data)

    def __getitem__(self, key: str) -> Tensor:
        owner = self._of._hold()
        try:
            found = lib.rp_gguf_find_tensor(self._file, key)
            if not found:
                raise KeyError(key)
            return self._tensor(found)
        finally:
            owner.release()

    def __len__(self) -> int:
        self._of._hold().release()
        return int(lib.rp_gguf_n_tensors(self._file))

    def __iter__(self) -> Iterator[str]:
        for i in range(len(self)):
            yield string(ct.cast(lib.rp_gguf_tensor(self._file, i), ct.POINTER(_c.RpGgufTensor)).contents.name)
