"""Memory, streams and devices for the functions of reprise.nn on a GPU."""
from __future__ import annotations

import ctypes as ct
import weakref
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ._arrays import Array, as_array
from ._nn.library import library
from .errors import ArgumentError, ClosedError, DtypeError, ShapeError


class Properties(NamedTuple):
    name: str
    major: int
    minor: int
    multiprocessors: int
    free_bytes: int
    total_bytes: int


def count() -> int:
    """The number of CUDA devices, at least 1; NotAvailableError if there is none."""
    n = ct.c_int32()
    library().rp_nn_device_count(ct.byref(n))
    return n.value


def current() -> int:
    index = ct.c_int32()
    library().rp_nn_device_get(ct.byref(index))
    return index.value


def select(index: int) -> None:
    """The device of this thread's further calls."""
    library().rp_nn_device_set(index)


def properties(index: int = 0) -> Properties:
    nn, name = library(), ct.create_string_buffer(256)
    major, minor, n_sm, free, total = ct.c_int32(), ct.c_int32(), ct.c_int32(), ct.c_int64(), ct.c_int64()
    nn.rp_nn_device_name(index, name, len(name))
    nn.rp_nn_device_properties(index, ct.byref(major), ct.byref(minor), ct.byref(n_sm))
    nn.rp_nn_device_memory(index, ct.byref(free), ct.byref(total))
    return Properties(name.value.decode("utf-8", "replace"), major.value, minor.value, n_sm.value, free.value, total.value)


class Stream:
    """A CUDA stream. `pointer` is the cudaStream_t."""

    def __init__(self) -> None:
        out = ct.c_void_p()
        library().rp_nn_stream_create(ct.byref(out))
        self._address = out.value
        self._release = weakref.finalize(self, library().rp_nn_stream_destroy, out.value)

    @property
    def pointer(self) -> int | None:
        if not self._release.alive:
            raise ClosedError("the Stream is closed")
        return self._address

    def sync(self) -> None:
        """Waits for all work; raises the first failure of a kernel."""
        library().rp_nn_stream_sync(self.pointer)

    def close(self) -> None:
        self._release()


def sync() -> None:
    """Waits for the default stream."""
    library().rp_nn_stream_sync(None)


class DeviceArray:
    """A contiguous array in the memory of the current device. Other libraries read it through __cuda_array_interface__."""

    def __init__(self, shape: Sequence[int], dtype: Any = np.float32) -> None:
        self.shape, self.dtype = tuple(int(n) for n in shape), np.dtype(dtype)
        if any(n < 0 for n in self.shape):
            raise ShapeError(f"DeviceArray: shape {self.shape}")
        out = ct.c_void_p()
        library().rp_nn_malloc(self.nbytes, ct.byref(out))
        self._address = out.value
        self._release = weakref.finalize(self, library().rp_nn_free, out.value)

    @classmethod
    def of(cls, array: Any, stream: Stream | None = None) -> DeviceArray:
        """A copy of an array of the host."""
        host = np.ascontiguousarray(as_array(array))
        out = cls(host.shape, host.dtype)
        library().rp_nn_copy_to_device(out._address, host.ctypes.data, host.nbytes, stream.pointer if stream else None)
        library().rp_nn_stream_sync(stream.pointer if stream else None)
        return out

    @property
    def pointer(self) -> int | None:
        if not self._release.alive:
            raise ClosedError("the DeviceArray is closed")
        return self._address

    @property
    def size(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def nbytes(self) -> int:
        return self.size * int(self.dtype.itemsize)

    def numpy(self, stream: Stream | None = None) -> Array:
        """A copy on the host, after all work of the stream."""
        out = np.empty(self.shape, self.dtype)
        if out.nbytes:
            library().rp_nn_copy_to_host(out.ctypes.data, self.pointer, out.nbytes, stream.pointer if stream else None)
        library().rp_nn_stream_sync(stream.pointer if stream else None)
        return out

    def copy(self, stream: Stream | None = None) -> DeviceArray:
        """A copy on the device, enqueued on the stream."""
        out = DeviceArray(self.shape, self.dtype)
        library().rp_nn_copy_on_device(out._address, self.pointer, self.nbytes, stream.pointer if stream else None)
        return out

    def close(self) -> None:
        self._release()

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {"shape": self.shape, "typestr": self.dtype.str, "data": (self.pointer or 0, False), "version": 3, "strides": None}


class View:
    """The memory of an object with __cuda_array_interface__."""

    def __init__(self, owner: Any, interface: dict[str, Any]) -> None:
        self.owner, self.shape, self.pointer = owner, tuple(interface["shape"]), interface["data"][0]
        self.size = int(np.prod(self.shape, dtype=np.int64))


class Bytes(View):
    """The same as bytes."""

    def __init__(self, owner: Any, interface: dict[str, Any]) -> None:
        super().__init__(owner, interface)
        self.size *= np.dtype(interface["typestr"]).itemsize
        self.shape = (self.size,)


def on_device(value: Any) -> bool:
    return isinstance(value, DeviceArray) or hasattr(value, "__cuda_array_interface__")


def device_view(value: Any, element: Any, place: str) -> Any:
    """`element` None: bytes of any type."""
    if not on_device(value):
        raise ArgumentError(f"{place}: must be an array of the device, as the others are, not {type(value).__name__}")
    interface = value.__cuda_array_interface__
    dtype = np.dtype(interface["typestr"])
    if element is not None and dtype != element:
        raise DtypeError(f"{place}: must be {np.dtype(element)}, not {dtype}")
    strides, step = interface.get("strides"), dtype.itemsize
    for n, stride in zip(reversed(interface["shape"]), reversed(strides or ())):
        if n != 1 and stride != step:
            raise ArgumentError(f"{place}: must be a contiguous array")
        step *= n
    if element is None:
        return Bytes(value, interface)
    return value if isinstance(value, DeviceArray) else View(value, interface)
