"""Devices of this machine, and memory of a GPU outside of graphs."""
from __future__ import annotations

import ctypes as ct
from typing import Any, NamedTuple

import numpy as np

from . import _c
from ._arrays import Array, as_array
from ._handle import Handle
from ._lib import decoded, lib
from .errors import ArgumentError, NotAvailableError


class DeviceInfo(NamedTuple):
    """RpCudaDeviceInfo."""

    name: str
    major: int
    minor: int
    n_sm: int
    total_bytes: int
    free_bytes: int
    l2_bytes: int
    driver: int
    runtime: int
    has_code: bool
    has_loops: bool


class DeviceMemory(NamedTuple):
    """RpDeviceMemory: the memory of the device that an executor would choose."""

    id: str
    number: int
    is_own: bool
    free_bytes: int


def values(struct: Any, names: tuple[str, ...]) -> list[Any]:
    return [decoded(v) if isinstance(v := getattr(struct, name), bytes) else v for name in names]


def cuda_count() -> int:
    """The number of CUDA devices, 0 for none. cuda_reason() says why there is none."""
    n = ct.c_int32()
    try:
        lib.rp_cuda_probe(ct.byref(n))
    except NotAvailableError:
        return 0
    return n.value


def cuda_reason() -> str:
    """Why there is no CUDA device; "" if there is one."""
    try:
        lib.rp_cuda_probe(ct.byref(ct.c_int32()))
    except NotAvailableError as error:
        return str(error)
    return ""


def cuda_info(index: int = 0) -> DeviceInfo:
    raw = _c.RpCudaDeviceInfo()
    lib.rp_cuda_device_info_sized(index, ct.byref(raw), ct.sizeof(raw))
    return DeviceInfo(*values(raw, DeviceInfo._fields))


def memory(device: str | None = None, *, require_cuda: bool = False) -> DeviceMemory:
    raw = _c.RpDeviceMemory()
    lib.rp_device_memory_sized(device, require_cuda, ct.byref(raw), ct.sizeof(raw))
    return DeviceMemory(*values(raw, ("id", "index", "is_own", "free_bytes")))


def cuda_copy_bandwidth(index: int = 0, n_bytes: int = 256 << 20) -> float:
    """Bytes per second, read and written, of a copy within the device."""
    out = ct.c_double()
    lib.rp_cuda_copy_bandwidth(index, n_bytes, ct.byref(out))
    return out.value


def cuda_tuning(index: int = 0) -> str:
    """Where the constants of the GPU come from (RpCudaTuningInfo.text)."""
    raw = _c.RpCudaTuningInfo()
    lib.rp_cuda_tuning_info_sized(index, ct.byref(raw), ct.sizeof(raw))
    return decoded(raw.text)


class CudaMemory(Handle):
    """Bytes on a CUDA device."""

    def __init__(self, n_bytes: int, index: int = 0) -> None:
        out = ct.c_void_p()
        lib.rp_cuda_memory_new(index, n_bytes, ct.byref(out))
        super().__init__(out.value or 0, lib.rp_cuda_memory_free)

    @property
    def address(self) -> int:
        return int(lib.rp_cuda_memory_data(self))

    @property
    def device(self) -> int:
        return int(lib.rp_cuda_memory_device(self))

    def __len__(self) -> int:
        return int(lib.rp_cuda_memory_bytes(self))

    def write(self, array: Any, at: int = 0) -> None:
        data = np.ascontiguousarray(as_array(array))
        with self._use():
            lib.rp_cuda_memory_write(self, at, data.ctypes.data, data.nbytes)

    def read(self, out: Array, at: int = 0) -> Array:
        """Fills a contiguous array from byte `at`."""
        if not out.flags.c_contiguous or not out.flags.writeable:
            raise ArgumentError("CudaMemory.read: must be a contiguous array that can be written")
        with self._use():
            lib.rp_cuda_memory_read(self, at, out.ctypes.data, out.nbytes)
        return out

    def copy_from(self, other: CudaMemory, n_bytes: int, *, at: int = 0, other_at: int = 0) -> None:
        with self._use():
            lib.rp_cuda_memory_copy(self, at, other, other_at, n_bytes)
